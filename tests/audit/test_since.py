"""What a run that goes on claims, and what `--since` leaves out. records.py draws the run."""

from __future__ import annotations

from monitor.audit.parsing import parse_instant
from tests.audit.conftest import Tiny
from tests.audit.records import as_of, charges, owner


def test_half_a_tick_is_not_proven(tiny: Tiny) -> None:
    """While only a part of a tick has been appended, the result ends before it."""
    earlier, (first, second, *_later) = [owner(charges()), *tiny.split(2)[0]], tiny.split(2)[1]
    for parts, tick in (([earlier], 2), ([earlier, [first]], 2), ([earlier, [first], [second]], 3)):
        engine = tiny.follow(*parts)
        assert engine.findings.totals == {}
        assert engine.proven_stretch is not None
        assert engine.proven_stretch.up_to == parse_instant(as_of(tick))


def test_examined_ticks_are_not_reported(tiny: Tiny) -> None:
    """With `since`, findings about earlier ticks are left out, and nothing is claimed about these ticks."""
    tiny.visit("q1", "park", "00:10", "00:20").records.insert(0, owner(charges()))
    assert set(tiny.follow(since="2026-01-01T00:59:59Z").findings.totals) == {"safe"}
    engine = tiny.follow(since="2026-01-01T01:00:00Z")
    assert engine.findings.totals == {}
    assert engine.proven_stretch is not None
    assert engine.proven_stretch.since == parse_instant(as_of(1))


def test_examined_overspending_hides_no_later_one(tiny: Tiny) -> None:
    """With `since`, an examined sum of ε does not hide a later sum that is not larger."""
    facts = {"noisy_count": 3, "count_at_most": 3, "p_value": tiny["walk/park/1"]["p_value"]}
    mark = {"tick": 6, "noisy_count": 3, "epsilon": "1", "until": 9}
    tiny.walk(6, "noisy_count", [mark], **facts)
    tiny.configure('{epsilon: "2", period: 12h}', '{epsilon: "3/4", period: 1h}')
    assert set(tiny.follow(since="2026-01-01T05:00:00Z").findings.totals) == {"paid"}
