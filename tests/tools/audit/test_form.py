"""The oracles of bytes, ticks, form and fates: each way of breaking them is found. conftest.py draws the run."""

from __future__ import annotations

import copy

import pytest

from tests.tools.audit.conftest import Tiny, find
from tests.tools.audit.modes import show

NIGHT = "night/2026-01-01T02:30:00Z/0"


def test_record_may_come_twice(tiny: Tiny) -> None:
    """A repeat with the same bytes is no violation."""
    tiny.records.insert(1, {**tiny.records[0], "offset": 99})
    assert tiny.audit().ok


@pytest.mark.promise(29)
def test_other_bytes_are_found(tiny: Tiny) -> None:
    """A repeat with other bytes is a violation, even if only a header differs."""
    again = copy.deepcopy(tiny.records[0])
    again["headers"]["extra"] = "1"
    tiny.records.insert(1, again)
    assert find(tiny, "bytes") == ["line 2: its ce_id was published before with other bytes"]


@pytest.mark.parametrize("tick", [3, 4])
def test_wrong_final_is_found(tiny: Tiny, tick: int) -> None:
    """`final` is true at the last tick about a time, and only there."""
    tiny[f"{NIGHT}/{tick}"]["final"] = tick == 3
    assert find(tiny, "form") == [f"{record_name(tiny, tick)}: final is not that of the configuration and the tick"]


def record_name(tiny: Tiny, tick: int) -> str:
    """Return the name of a record of `night` in violations."""
    lines = [record["headers"]["ce_id"] for record in tiny.records]
    return f"{NIGHT}/{tick} (line {lines.index(f'{NIGHT}/{tick}') + 1})"


def test_snapshot_beyond_horizon_is_found(tiny: Tiny) -> None:
    """A snapshot after the horizon of its time is a violation."""
    # 02:30 + 3 h = 05:30 is before the as_of of tick 5
    late = copy.deepcopy(next(record for record in tiny.records if record["headers"]["ce_id"] == f"{NIGHT}/4"))
    late["headers"].update(ce_id=f"{NIGHT}/5", ce_time="2026-01-01T06:00:00Z")
    late["value"].update(tick=5, as_of="2026-01-01T06:00:00Z", final=False)
    tiny.records.append(late)
    assert find(tiny, "ticks") == [f"{NIGHT}, tick 5: the time is not designated, or not evaluated at this tick"]


@pytest.mark.parametrize(
    ("lost", "text"),
    [
        (["walk/park/3"], "partition 0, tick 3: walk has 0 of 1 records"),
        ([f"{NIGHT}/4"], "partition 0, tick 4: night has 0 of 1 records"),
        (["walk/park/5"], "output partition 0 has no answers for tick 5: nobody decided them"),
        (["walk/park/0"], "output partition 0 has no answers for tick 0: nobody decided them"),
    ],
)
def test_missing_ticks_are_found(tiny: Tiny, lost: list[str], text: str) -> None:
    """A missing tick is a violation, except for a service that ran by the clock."""
    tiny.remove(*lost)
    assert find(tiny, "ticks") == [text]
    assert tiny.audit(every_tick=False).ok


def test_output_without_ticks_is_found(tiny: Tiny) -> None:
    """An empty output is a violation."""
    tiny.records.clear()
    assert find(tiny, "ticks") == ["the output topic answers no tick"]
    assert "0 records of 0 ticks; checked" in show(tiny.audit())


@pytest.mark.promise(28)
def test_second_answer_of_tick_is_found(tiny: Tiny) -> None:
    """A tick is answered once: its record at the end of the run is found."""
    tiny.records.append(copy.deepcopy(tiny.records[0]))
    assert find(tiny, "ticks") == ["walk/park: tick 0 is answered after tick 6"]


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
    ],
)
def test_public_facts_are_checked(tiny: Tiny, ce_id: str, name: str, value: object) -> None:
    """Each field that follows from the configuration and the tick is checked."""
    tiny[ce_id][name] = value
    report = tiny.audit()
    assert report.totals["form"] == 1
    assert name in report.violations["form"][0] or repr(value) in report.violations["form"][0]


@pytest.mark.parametrize("header", ["ce_time", "ce_specversion", "content-type"])
def test_headers_are_checked(tiny: Tiny, header: str) -> None:
    """Each CloudEvents header is checked."""
    tiny.records[0]["headers"][header] = "other"
    assert [text.split(": ")[1].split(" is")[0] for text in find(tiny, "form")] == [header]


@pytest.mark.parametrize("header", ["ce_id", "ce_source", "ce_type"])
def test_stranger_is_found(tiny: Tiny, header: str) -> None:
    """A record with another id, service or type than that of its subject is not one of this service."""
    tiny.records.append(copy.deepcopy(tiny.records[-1]))
    tiny.records[-1]["headers"][header] = "other"
    assert find(tiny, "form") == ["line 11: not a record of this service"]


def test_missing_field_is_found(tiny: Tiny) -> None:
    """A record without a field is a violation of the form."""
    del tiny["walk/park/3"]["resumes_at"]
    assert find(tiny, "form") == [
        "line 5: not in the form of the interface: Object missing required field `resumes_at`"
    ]


def test_unconfigured_subjects_are_found(tiny: Tiny) -> None:
    """An answer about an unconfigured monitor or location is a violation."""
    for monitor, location in (("walk", "shop"), ("run", "park")):
        stray = copy.deepcopy(tiny.records[-1])
        stray["key"] = f"{monitor}/{location}"
        stray["headers"]["ce_id"] = f"{monitor}/{location}/6"
        stray["value"] |= {"monitor": monitor, "location_id": location}
        tiny.records.append(stray)
    assert find(tiny, "form") == [
        "walk/shop, tick 6: the monitor does not watch this location",
        "line 12: the configuration has no such monitor",
    ]


@pytest.mark.promise(26)
def test_different_fates_are_found(tiny: Tiny) -> None:
    """Different numbers of visits by fate are a violation."""
    report = tiny.audit(fates={"applied": 5, "not_watched": 0, "expired": 0, "dead_letter": 0})
    assert report.violations["fates"] == ["applied: the service counted 5 visits, the recount 4"]


def test_twenty_violations_are_listed(tiny: Tiny) -> None:
    """The first twenty violations are listed, and all are counted."""
    for record in tiny.records:
        record["headers"].update({"ce_time": "noon", "ce_specversion": "2.0", "content-type": "text/plain"})
    report = tiny.audit()
    assert len(report.violations["form"]) == 20
    assert report.totals["form"] == 3 * 10
