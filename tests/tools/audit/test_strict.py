"""Values that only resemble numbers, times and texts are findings of the form, and do not end the audit."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest

from monitor.tools.audit.findings import Outcome
from monitor.tools.audit.judge import Judge
from monitor.tools.audit.parsing import parse_instant
from tests.tools.audit.conftest import Tiny, as_of, charges, owner
from tests.tools.audit.modes import audit_once, encode, follow, show

NIGHT = "night/2026-01-01T02:30:00Z/0"
BUSIEST = "busiest/2026-01-01T02:30:00Z"
STRANGE = "planted-person-7"


def _forge(tiny: Tiny, ce_id: str, **fields: Any) -> None:
    """Add a copy of a record with other fields, and with the key and the id that follow from them."""
    line = copy.deepcopy(next(line for line in tiny.records if line["headers"]["ce_id"] == ce_id))
    value = line["value"] | fields
    if value["kind"] == "over_time":
        line["key"] = f"walk/{value['location_id']}"
    line["value"] = value
    line["headers"]["ce_id"] = f"{line['key']}/{value['tick']}"
    tiny.records.append(line)


def _zero_denominator_of_charges(tiny: Tiny) -> None:
    stated = charges()
    stated["places"][0]["shares"] = {"1/0": ["park"]}
    tiny.records.insert(0, owner(stated))


def _late_tick(tiny: Tiny) -> None:
    _forge(tiny, "walk/park/6", tick=10**15)


def _early_tick(tiny: Tiny) -> None:
    _forge(tiny, "walk/park/6", tick=-(10**15))


def _early_snapshot(tiny: Tiny) -> None:
    _forge(tiny, f"{NIGHT}/4", tick=-(10**15))


def _nan(tiny: Tiny) -> None:
    tiny[f"{NIGHT}/3"]["noisy_counts"] = {"shop": {"tick": 3, "noisy_count": math.nan}}


FORGED: list[Callable[[Tiny], None]] = [_zero_denominator_of_charges, _late_tick, _early_tick, _early_snapshot]


@pytest.mark.promise(37)
@pytest.mark.parametrize("forge", FORGED, ids=lambda forge: forge.__name__[1:])
def test_hostile_value_is_found(tiny: Tiny, forge: Callable[[Tiny], None]) -> None:
    """A hostile value is a finding of the form, and the other records are judged as before."""
    forge(tiny)
    engine = follow(tiny, encode(tiny.records))
    assert engine.findings.totals["form"]
    assert engine.output.parts.missing == {}
    assert engine.output.parts.last == {0: 6}


def _location(tiny: Tiny) -> None:
    _forge(tiny, "walk/park/6", location_id=STRANGE)


def _status(tiny: Tiny) -> None:
    tiny["walk/park/3"]["status"] = STRANGE
    tiny[f"{NIGHT}/3"]["status"] = STRANGE


def _monitor(tiny: Tiny) -> None:
    _forge(tiny, "walk/park/6", monitor=STRANGE)


def _time(tiny: Tiny) -> None:
    line = copy.deepcopy(tiny.records[-2])
    line["value"] = tiny[f"{NIGHT}/4"] | {"time": f"{STRANGE}Z"}
    line["key"] = f"night/{STRANGE}Z/0"
    line["headers"] |= {"ce_id": f"{line['key']}/4", "ce_type": "org.location-monitor.at_times"}
    tiny.records += [line, line | {"value": line["value"] | {"more": 1}}]


def _owner_id(tiny: Tiny) -> None:
    line = owner(charges())
    line["headers"]["ce_id"] = STRANGE
    tiny.records += [line, line | {"value": line["value"] | {"more": 1}}]


QUOTABLE: list[Callable[[Tiny], None]] = [_location, _monitor, _time, _owner_id]


@pytest.mark.promise(22)
@pytest.mark.parametrize("forge", QUOTABLE, ids=lambda forge: forge.__name__[1:])
def test_foreign_text_is_not_quoted(tiny: Tiny, forge: Callable[[Tiny], None]) -> None:
    """A text that another program wrote is found, and appears in no finding and in no output."""
    forge(tiny)
    tiny.records.sort(key=lambda line: line["value"].get("tick", 6))
    report = audit_once(tiny, encode(tiny.records))
    assert not report.ok
    assert STRANGE not in str(report.violations) + show(report)


def _other_bytes(tiny: Tiny) -> None:
    _forge(tiny, "walk/park/3", status="safe")


def _not_due(tiny: Tiny) -> None:
    _forge(tiny, f"{NIGHT}/3", time="2026-01-01T02:31:00Z")
    line = tiny.records[-1]
    line["key"] = "night/2026-01-01T02:31:00Z/0"
    line["headers"]["ce_id"] = f"{line['key']}/3"


def _no_json(tiny: Tiny) -> None:
    _forge(tiny, "walk/park/3", more=math.nan)


def _other_threshold(tiny: Tiny) -> None:
    tiny["walk/park/3"]["threshold"] = 1


def _ahead(tiny: Tiny) -> None:
    _forge(tiny, "walk/park/3", tick=10**6)


@pytest.mark.promise(37)
@pytest.mark.parametrize(
    "forge",
    [_status, _nan, _other_bytes, _not_due, _no_json, _other_threshold, _ahead],
    ids=lambda forge: forge.__name__[1:],
)
def test_tick_of_a_malformed_answer(tiny: Tiny, forge: Callable[[Tiny], None]) -> None:
    """A tick is not proven if one of its answers cannot be compared with the input. The result begins after it."""
    forge(tiny)
    earlier, later = (
        [line for line in tiny.records if (line["headers"]["ce_time"] > as_of(3)) is is_later]
        for is_later in (False, True)
    )
    first = [*encode([owner(charges())]), *encode(earlier)]
    assert follow(tiny, first).proven_stretch is None
    engine = follow(tiny, first, encode(later))
    assert engine.findings.totals
    assert engine.outcomes == {Outcome.PROVEN: 6, Outcome.UNPROVEN: 1}
    assert engine.proven_stretch is not None
    assert engine.proven_stretch.since == parse_instant(as_of(4))


def test_last_tick_of_a_malformed_answer(tiny: Tiny) -> None:
    """After a malformed answer nothing is claimed, and the audit is not complete, until the next tick is proven."""
    tiny["walk/park/6"]["status"] = STRANGE
    engine = follow(tiny, [*encode([owner(charges())]), *encode(tiny.records)])
    assert engine.outcomes == {Outcome.PROVEN: 6, Outcome.UNPROVEN: 1}
    assert engine.proven_stretch is None
    assert not engine.complete


def test_count_far_below_threshold(tiny: Tiny) -> None:
    """A noisy count far below the threshold is found, although e^(ε(T - z)) is larger than any float."""
    tiny.config = tiny.config.replace('"1", threshold: 2', '"1", threshold: 5000')
    for tick in range(7):
        tiny[f"walk/park/{tick}"]["threshold"] = 5_000
    assert audit_once(tiny, encode(tiny.records)).totals["noisy_count"] > 0


def test_too_deep_value_is_found(tiny: Tiny) -> None:
    """A value that is nested too deeply to parse is a finding."""
    encoded = encode(tiny.records)
    encoded[3]["value"] = "[" * 100_000 + "]" * 100_000
    assert audit_once(tiny, encoded).totals["form"] == 1


@pytest.mark.promise(37)
def test_unexpected_error_is_found(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody expected is a finding with its class and the position of its record, without its message."""

    def fail(*_: object) -> None:
        raise LookupError(STRANGE)

    monkeypatch.setattr(Judge, "take", fail)
    report = audit_once(tiny, encode(tiny.records))
    assert report.violations["form"][0] == "line 1: cannot be judged: unexpected LookupError"
    assert STRANGE not in str(report.violations)
