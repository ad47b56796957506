"""At start the clocks of this machine and of Redis are compared: they may differ by at most the tolerance."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from monitor.errors import EXIT_FAILED, ClockError
from monitor.kinds.parameters import Parameters
from monitor.service.keep_running import check_clock
from monitor.time.clock import SteppedClock
from monitor.time.instants import MILLISECOND, SECOND, parse_instant
from tests.store.memory import MemoryWindows

NOW = parse_instant("2026-11-20T12:00:00Z")
TOLERANCE = 100 * MILLISECOND


class PublicClock(SteppedClock):
    """A real-time clock that returns given instants, one after the other."""

    def __init__(self, *instants: int) -> None:
        super().__init__(instants[0])
        self._instants = iter(instants)

    def now(self) -> int:
        return next(self._instants)


@pytest.fixture
def store_at(parameters: Parameters) -> Callable[[int], MemoryWindows]:
    """A function that creates windows whose clock shows a given instant."""
    return lambda instant: MemoryWindows(parameters, clock=SteppedClock(instant))


@pytest.mark.parametrize("off", [-TOLERANCE, 0, TOLERANCE])
def test_difference_within_tolerance_is_accepted(store_at: Callable[[int], MemoryWindows], off: int) -> None:
    """A difference of up to the tolerance is accepted."""
    check_clock(store_at(NOW + off), PublicClock(NOW, NOW), TOLERANCE)


@pytest.mark.promise(34)
@pytest.mark.parametrize(
    ("off", "shown"),
    [
        (TOLERANCE + 1, "2026-11-20T12:00:00.100001Z"),
        (-TOLERANCE - 1, "2026-11-20T11:59:59.899999Z"),
    ],
)
def test_difference_beyond_tolerance_is_refused(store_at: Callable[[int], MemoryWindows], off: int, shown: str) -> None:
    """A larger difference is refused with both times; the service tries again (exit code 1, not 3)."""
    with pytest.raises(ClockError) as refused:
        check_clock(store_at(NOW + off), PublicClock(NOW, NOW), TOLERANCE)
    assert str(refused.value) == (
        f"this machine's clock shows 2026-11-20T12:00:00Z, Redis's clock shows {shown}: expected a difference of at "
        "most clock.tolerance (100ms). Synchronize both clocks (NTP)"
    )
    assert refused.value.exit_code == EXIT_FAILED


@pytest.mark.parametrize(
    ("shown", "right"), [(-SECOND - 1, False), (-SECOND, True), (2 * SECOND, True), (2 * SECOND + 1, False)]
)
def test_duration_of_the_query_is_tolerated(store_at: Callable[[int], MemoryWindows], shown: int, right: bool) -> None:
    """The duration of the query does not count as a difference: Redis may read its clock at any moment within it.

    this machine        asks ├─ 1 s ─┤ hears        tolerance: 1 s
    Redis          -1 s ├───────────────────┤ +2 s  is right
    """
    windows, clock = store_at(NOW + shown), PublicClock(NOW, NOW + SECOND)
    if right:
        check_clock(windows, clock, SECOND)
    else:
        with pytest.raises(ClockError):
            check_clock(windows, clock, SECOND)


def test_replays_clock_is_compared(store_at: Callable[[int], MemoryWindows]) -> None:
    """A replay's clock is accepted because it is also the store's clock. There is no special case for it."""
    check_clock(store_at(NOW), SteppedClock(NOW), TOLERANCE)
    with pytest.raises(ClockError):
        check_clock(store_at(NOW), SteppedClock(0), TOLERANCE)
