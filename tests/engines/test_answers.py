"""The counts of the table that `make cluster` prints. The scenario itself needs a cluster."""

from __future__ import annotations

from tests.engines.answers import Counted, Ticks

TICKS = Ticks(20, ("a", "b"))
ANSWERS = {
    100: {"a": "safe", "b": "safe"},
    120: {"a": "noisy_count", "b": "unknown"},
    140: {"a": "paused"},
    180: {"a": "paused", "b": "safe", "c": "unknown"},
}


def test_each_tick_is_counted_once() -> None:
    """A tick is lost if a place has no answer at it, else unknown if an answer is. The first is not counted."""
    assert TICKS.count(ANSWERS, 80, 180) == Counted(decided=2, lost=2, unknown=1)
    assert TICKS.count(ANSWERS, 100, 180) == Counted(decided=1, lost=2, unknown=1)
    assert TICKS.count(ANSWERS, 180, 180) == Counted(0, 0, 0)


def test_last_tick_is_multiple_of_slot() -> None:
    """The last tick until a time is that of the time itself, if there is one."""
    assert [TICKS.find_last(seconds) for seconds in (100.0, 119.9, 120.0)] == [100, 100, 120]
