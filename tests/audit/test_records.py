"""Records of another form, repeated, missing, not due, or with other facts are found. records.py draws the run."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest

from monitor.audit.checks_of_configuration import Judge
from monitor.audit.findings import Outcome
from monitor.audit.parse_values import parse_instant
from tests.audit.conftest import Tiny, find, show
from tests.audit.records import BUSIEST, LENGTHS, NIGHT, as_of, charges, owner

STRANGE = "planted-person-7"
Change = Callable[[Tiny], object]


def repeat_with_header(tiny: Tiny) -> None:
    """Repeat the first record with another header."""
    again = copy.deepcopy(tiny.records[0])
    again["headers"]["extra"] = "1"
    tiny.records.insert(1, again)


def repeat_hot_spots(tiny: Tiny) -> None:
    """Draw the hot spots a second time."""
    tiny.watch_busiest({"shop": 3}).forge(f"{BUSIEST}/4", hot_spots=[{"location_id": "shop", "noisy_count": 4}])


def snapshot_after_horizon(tiny: Tiny) -> None:
    """Add a snapshot of tick 5: 02:30 + 3 h = 05:30 is before its as_of."""
    tiny.forge(f"{NIGHT}/4", tick=5, as_of=as_of(5), final=False).records[-1]["headers"]["ce_time"] = as_of(5)


def name_twice(tiny: Tiny) -> None:
    """Name the shop twice."""
    tiny.watch_busiest({"shop": 3}, top=2)[f"{BUSIEST}/4"]["hot_spots"] *= 2


def nest_deeply(tiny: Tiny) -> None:
    """Add a value that is nested too deeply to be parsed."""
    tiny.forge("walk/park/6").records[-1]["value"] = "[" * 100_000 + "]" * 100_000


def share_with_shop(tiny: Tiny) -> None:
    """Give the park two thirds of an ε of 3/2, so that its share stays 1. The shop never answers."""
    tiny.configure('[park], epsilon: "1"', '{park: 2, shop: 1}, epsilon: "3/2"')


def draw_lengths_early(tiny: Tiny) -> None:
    """Draw lengths at tick 3."""
    tiny.watch_lengths(tick=3)


def strange(ce_id: str, name: str) -> Change:
    """Return a change that adds a copy of the last record with another header."""

    def change(tiny: Tiny) -> None:
        tiny.records.append(copy.deepcopy(tiny.find(ce_id)))
        tiny.records[-1]["headers"][name] = "other"

    return change


WITH_ATTIC = {place: {"tick": 3, "noisy_count": 2} for place in ("shop", "attic")}
NOT_DUE = "the time is not designated, or this is not the last tick about it"
FOUND: dict[str, tuple[str, Change, list[str]]] = {
    "other bytes": ("bytes", repeat_with_header, ["line 2: its ce_id was published before with other bytes"]),
    "a second drawing": ("bytes", repeat_hot_spots, ["line 12: its ce_id was published before with other bytes"]),
    "a tick answered again": (
        "ticks",
        lambda run: run.forge("walk/park/0"),
        ["walk/park: tick 0 is answered after tick 6"],
    ),
    "a tick without a place": (
        "ticks",
        lambda run: run.remove("walk/park/3"),
        ["partition 0, tick 3: walk has 0 of 1 records"],
    ),
    "a tick without a snapshot": (
        "ticks",
        lambda run: run.remove(f"{NIGHT}/4"),
        ["partition 0, tick 4: night has 0 of 1 records"],
    ),
    "a tick that is missing": (
        "ticks",
        lambda run: run.remove("walk/park/5"),
        ["output partition 0 has no answers for tick 5: nobody decided them"],
    ),
    "a first tick that is missing": (
        "ticks",
        lambda run: run.remove("walk/park/0"),
        ["output partition 0 has no answers for tick 0: nobody decided them"],
    ),
    "no tick": ("ticks", lambda run: run.records.clear(), ["the output topic answers no tick"]),
    "a place that never answers": (
        "ticks",
        share_with_shop,
        [f"partition 0, tick {tick}: walk has 1 of 2 records" for tick in range(7)],
    ),
    "a snapshot after the horizon": (
        "ticks",
        snapshot_after_horizon,
        [f"{NIGHT}, tick 5: the time is not designated, or not evaluated at this tick"],
    ),
    "hot spots too early": (
        "ticks",
        lambda run: run.live().watch_busiest({"shop": 3}, tick=3),
        [f"{BUSIEST}, tick 3: {NOT_DUE}"],
    ),
    "hot spots too late": (
        "ticks",
        lambda run: run.live().watch_busiest({"shop": 3}, tick=5),
        [f"{BUSIEST}, tick 5: {NOT_DUE}"],
    ),
    "hot spots of another time": (
        "ticks",
        lambda run: run.watch_busiest({"shop": 3}).forge(f"{BUSIEST}/4", time="2026-01-01T02:31:00Z"),
        [f"busiest/2026-01-01T02:31:00Z, tick 4: {NOT_DUE}"],
    ),
    "lengths too early": (
        "ticks",
        draw_lengths_early,
        [f"{LENGTHS}, tick 3: {NOT_DUE}", "partition 0, tick 4: lengths has 0 of 1 records"],
    ),
    "a missing field": (
        "form",
        lambda run: run["walk/park/3"].pop("resumes_at"),
        ["line 5: not in the form of the interface: Object missing required field `resumes_at`"],
    ),
    "another id": ("form", strange("walk/park/6", "ce_id"), ["line 11: not a record of this service"]),
    "another service": ("form", strange("walk/park/6", "ce_source"), ["line 11: not a record of this service"]),
    "another type": ("form", strange("walk/park/6", "ce_type"), ["line 11: not a record of this service"]),
    "a place that is not watched": (
        "form",
        lambda run: run.forge("walk/park/6", location_id="shop"),
        ["walk/shop, tick 6: the monitor has no answer about this location at this tick"],
    ),
    "another monitor": (
        "form",
        lambda run: run.forge("walk/park/6", monitor="run"),
        ["line 11: the configuration has no such monitor"],
    ),
    "too deep a value": ("form", nest_deeply, ["line 11: not a record of this service"]),
    "names without an answer": (
        "form",
        lambda run: run.watch_busiest({"shop": 3}, status="unknown"),
        [f"{BUSIEST}, tick 4: the status is unknown, but locations are named"],
    ),
    "a place named twice": ("form", name_twice, [f"{BUSIEST}, tick 4: shop is named 2 times"]),
    "bounds that are missing": (
        "form",
        lambda run: run.bound(None),
        [f"{NIGHT}, tick 4: the final snapshot has no lower bounds"],
    ),
    "a noisy count of a place that is not there": (
        "form",
        lambda run: [run.set(f"{NIGHT}/{tick}", noisy_counts=WITH_ATTIC) for tick in (3, 4)],
        [f"{NIGHT}, tick 3, (not in the registry): the location is not in this shard"],
    ),
    "a bound of a place that is not there": (
        "form",
        lambda run: run.bound({"attic": 1}),
        [f"{NIGHT}, tick 4, (not in the registry): the location is not in this shard"],
    ),
    "another ε of bounds": (
        "form",
        lambda run: run.bound({}).set(f"{NIGHT}/4", at_least_epsilon="1/2"),
        [f"{NIGHT}, tick 4: at_least_epsilon is not that of the configuration"],
    ),
}


@pytest.mark.promise(13, 28, 29, 37, 44)
@pytest.mark.parametrize("name", FOUND)
def test_wrong_record_is_found(tiny: Tiny, name: str) -> None:
    """Other bytes for one id, and missing, repeated, early, late, malformed and foreign records are found."""
    oracle, change, texts = FOUND[name]
    change(tiny)
    assert find(tiny, oracle) == texts


@pytest.mark.promise(13)
@pytest.mark.parametrize(
    ("named", "top", "text"),
    [
        ({}, 1, "0 locations are named, expected 1"),
        ({"shop": 3}, 2, "1 locations are named, expected 2"),
        ({"shop": 3, "park": 0}, 1, "2 locations are named, expected 1"),
        ({"park": 2, "shop": 3}, 2, "shop comes after park, expected before it"),
        ({"shop": 3, "park": 3}, 2, "park comes after shop, expected before it"),
        ({"shop": 3, "beach": 2}, 2, "a location is not in the registry"),
    ],
)
def test_wrong_names_are_found(tiny: Tiny, named: dict[str, int], top: int, text: str) -> None:
    """The number, the order and the locations of hot spots are checked."""
    tiny.watch_busiest(named, top=top)
    assert find(tiny, "form") == [f"{BUSIEST}, tick 4: {text}"]


@pytest.mark.promise(21)
@pytest.mark.parametrize(
    ("ce_id", "name", "value"),
    [
        ("walk/park/3", "as_of", "2026-01-01T04:00:01Z"),
        ("walk/park/3", "as_of", "2026-01-01T04:00:00+00:00"),
        ("walk/park/3", "window_start", "2026-01-01T00:00:00Z"),
        ("walk/park/3", "threshold", 3),
        ("walk/park/3", "epsilon", "2/2"),
        ("walk/park/3", "status", "quiet"),
        (f"{NIGHT}/3", "locations", 1),
        (f"{NIGHT}/3", "registry", "0" * 64),
        (f"{NIGHT}/3", "shards", 2),
        (f"{NIGHT}/3", "epsilon", "1"),
        (f"{NIGHT}/3", "final", True),
        (f"{NIGHT}/4", "final", False),
        (f"{BUSIEST}/4", "final", False),
        (f"{BUSIEST}/4", "top", 2),
        (f"{BUSIEST}/4", "status", "quiet"),
        (f"{LENGTHS}/4", "visits", 7.0),
        (f"{LENGTHS}/4", "mean_seconds", 1.0),
        (f"{LENGTHS}/4", "noise", "one_sided"),
        (f"{LENGTHS}/4", "epsilon", "1"),
        (f"{LENGTHS}/4", "visits_per_person", 2),
        (f"{LENGTHS}/4", "status", "unknown"),
    ],
)
def test_public_facts_are_checked(tiny: Tiny, ce_id: str, name: str, value: object) -> None:
    """Each field that follows from the configuration, the tick or another field is checked."""
    tiny.watch_busiest({"shop": 3}).watch_lengths().set(ce_id, **{name: value})
    (text,) = find(tiny, "form")
    assert name in text or repr(value) in text or "the totals" in text or "no numbers" in text


@pytest.mark.parametrize("bound", [0, -1, True, "1", 1.5])
def test_bound_must_be_a_positive_number(tiny: Tiny, bound: object) -> None:
    """A bound that is not a whole number of at least 1 is found."""
    assert len(find(tiny.bound({"shop": bound}), "form")) == 1


@pytest.mark.parametrize("header", ["ce_time", "ce_specversion", "content-type"])
def test_headers_are_checked(tiny: Tiny, header: str) -> None:
    """Each CloudEvents header is checked."""
    tiny.records[0]["headers"][header] = "other"
    assert [text.split(": ")[1].split(" is")[0] for text in find(tiny, "form")] == [header]


def test_twenty_violations_are_listed(tiny: Tiny) -> None:
    """The first twenty violations are listed, and all are counted."""
    for record in tiny.records:
        record["headers"].update({"ce_time": "noon", "ce_specversion": "2.0", "content-type": "text/plain"})
    report = tiny.audit()
    assert len(report.violations["form"]) == 20
    assert report.totals["form"] == 3 * 10


def charge_nothing(tiny: Tiny) -> None:
    """State charges with a denominator of zero."""
    stated = charges()
    stated["places"][0]["shares"] = {"1/0": ["park"]}
    tiny.records.insert(0, owner(stated))


@pytest.mark.promise(37)
@pytest.mark.parametrize(
    "change",
    [
        charge_nothing,
        lambda run: run.forge("walk/park/6", tick=10**15),
        lambda run: run.forge("walk/park/6", tick=-(10**15)),
        lambda run: run.forge(f"{NIGHT}/4", tick=-(10**15)),
    ],
    ids=["charges", "late tick", "early tick", "early snapshot"],
)
def test_hostile_value_is_found(tiny: Tiny, change: Change) -> None:
    """A hostile value is a finding of the form, and the other records are judged as before."""
    change(tiny)
    engine = tiny.follow()
    assert engine.findings.totals["form"]
    assert engine.output.parts.missing == {}
    assert engine.output.parts.last == {0: 6}


@pytest.mark.promise(22)
@pytest.mark.parametrize(
    "change",
    [
        lambda run: run.forge("walk/park/6", location_id=STRANGE),
        lambda run: run.forge("walk/park/6", monitor=STRANGE),
        lambda run: run.forge(f"{NIGHT}/4", time=f"{STRANGE}Z").forge(f"{NIGHT}/4", time=f"{STRANGE}Z", more=1),
    ],
    ids=["location", "monitor", "time"],
)
def test_foreign_text_is_not_quoted(tiny: Tiny, change: Change) -> None:
    """A text that another program wrote is found, and appears in no finding and in no output."""
    change(tiny)
    report = tiny.audit()
    assert not report.ok
    assert STRANGE not in str(report.violations) + show(report)


@pytest.mark.promise(37)
@pytest.mark.parametrize(
    "change",
    [
        lambda run: run.set("walk/park/3", status=STRANGE).set(f"{NIGHT}/3", status=STRANGE),
        lambda run: run.set(f"{NIGHT}/3", noisy_counts={"shop": {"tick": 3, "noisy_count": math.nan}}),
        lambda run: run.forge("walk/park/3", status="safe"),
        lambda run: run.forge(f"{NIGHT}/3", time="2026-01-01T02:31:00Z"),
        lambda run: run.forge("walk/park/3", more=math.nan),
        lambda run: run.set("walk/park/3", threshold=1),
        lambda run: run.forge("walk/park/3", tick=10**6),
    ],
    ids=["status", "nan", "other bytes", "not due", "no json", "threshold", "ahead"],
)
def test_tick_of_a_malformed_answer(tiny: Tiny, change: Change) -> None:
    """A tick is not proven if one of its answers cannot be compared with the input. The result begins after it."""
    change(tiny)
    earlier, later = tiny.split(3)
    first = [owner(charges()), *earlier]
    halfway = tiny.follow(first)
    assert halfway.proven_stretch is None
    assert not halfway.complete
    engine = tiny.follow(first, later)
    assert engine.findings.totals
    assert engine.outcomes == {Outcome.PROVEN: 6, Outcome.UNPROVEN: 1}
    assert engine.proven_stretch is not None
    assert engine.proven_stretch.since == parse_instant(as_of(4))


@pytest.mark.promise(37)
def test_unexpected_error_is_found(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody expected is a finding with its class and the position of its record, without its message."""

    def fail(*_: Any) -> None:
        raise LookupError(STRANGE)

    monkeypatch.setattr(Judge, "take", fail)
    report = tiny.audit()
    assert report.violations["form"][0] == "line 1: cannot be judged: unexpected LookupError"
    assert STRANGE not in str(report.violations)
