"""A computer's clock that is set back makes no answer valid for longer."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.client.answer_types import Answer, Known
from monitor.client.subscription import SteadyTime
from monitor.time.clock import SystemClock
from monitor.time.instants import HOUR, MINUTE, SECOND


@dataclass
class SetClock(SystemClock):
    """A wall clock that can be set, with a monotonic clock that cannot."""

    wall: int
    passed: int = 0

    def now(self) -> int:
        return self.wall

    def elapsed(self) -> float:
        return self.passed / SECOND

    def run(self, duration: int) -> None:
        """Let time pass."""
        self.wall += duration
        self.passed += duration


def test_clock_set_back_extends_no_answer() -> None:
    """After the clock was set back, an answer expires after the same elapsed time as without the change."""
    clock = SetClock(wall=100 * HOUR)
    time = SteadyTime(clock)
    answer = Answer("safe", "below_threshold", 100 * HOUR, 102 * HOUR, 9)
    known = Known((answer,), time.now, HOUR)
    clock.run(HOUR)
    assert known.state == "safe"
    clock.wall -= HOUR
    clock.run(HOUR + MINUTE)
    assert (known.state, known.reason) == ("unknown", "too_old")


def test_clock_set_forward_or_asleep_counts() -> None:
    """If the wall clock is ahead of the elapsed time, as after the computer has slept, the wall clock counts."""
    clock = SetClock(wall=100 * HOUR)
    time = SteadyTime(clock)
    clock.wall += 5 * HOUR
    assert time.now() == 105 * HOUR
    clock.run(MINUTE)
    assert time.now() == 105 * HOUR + MINUTE
