"""At start this machine's clock is held against the store's: by up to the tolerance they may differ, and no more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from monitor.errors import EXIT_FAILED, ClockError
from monitor.public.clock import SteppedClock
from monitor.public.instants import MILLISECOND, SECOND, parse_instant
from monitor.public.parameters import Parameters
from monitor.run import check_clock
from tests.windows.memory import MemoryWindows

NOW = parse_instant("2026-11-20T12:00:00Z")
TOLERANCE = 100 * MILLISECOND


class PublicClock(SteppedClock):
    """A clock of the real world, that tells the instants that it is given, one after the other."""

    simulated = False

    def __init__(self, *instants: int) -> None:
        super().__init__(instants[0])
        self._instants = iter(instants)

    def now(self) -> int:
        return next(self._instants)


@pytest.fixture
def store_at(parameters: Parameters) -> Callable[[int], MemoryWindows]:
    """A store whose clock stands at an instant."""
    return lambda instant: MemoryWindows(parameters, clock=SteppedClock(instant))


@pytest.mark.parametrize("off", [-TOLERANCE, 0, TOLERANCE])
def test_a_clock_within_the_tolerance_is_right(store_at: Callable[[int], MemoryWindows], off: int) -> None:
    check_clock(store_at(NOW + off), PublicClock(NOW, NOW), TOLERANCE)


@pytest.mark.parametrize(
    ("off", "told"),
    [
        (TOLERANCE + 1, "2026-11-20T12:00:00.100001Z"),
        (-TOLERANCE - 1, "2026-11-20T11:59:59.899999Z"),
    ],
)
def test_a_clock_a_microsecond_beyond_the_tolerance_is_refused_with_both_times(
    store_at: Callable[[int], MemoryWindows], off: int, told: str
) -> None:
    """It may become right, so the service tries again: exit code 1, not 3."""
    with pytest.raises(ClockError) as refused:
        check_clock(store_at(NOW + off), PublicClock(NOW, NOW), TOLERANCE)
    assert str(refused.value) == (
        f"by this machine's clock it is 2026-11-20T12:00:00Z, by that of Redis {told}: expected clock.tolerance "
        "(100ms) between them at most. See that both keep time (NTP)"
    )
    assert refused.value.exit_code == EXIT_FAILED


@pytest.mark.parametrize(
    ("told", "right"), [(-SECOND - 1, False), (-SECOND, True), (2 * SECOND, True), (2 * SECOND + 1, False)]
)
def test_how_long_the_store_took_to_answer_is_no_fault_of_the_clocks(
    store_at: Callable[[int], MemoryWindows], told: int, right: bool
) -> None:
    """It may have read its clock at any moment between question and answer.

    this machine        asks ├─ 1 s ─┤ hears        tolerance: 1 s
    the store      -1 s ├───────────────────┤ +2 s  is right
    """
    windows, clock = store_at(NOW + told), PublicClock(NOW, NOW + SECOND)
    if right:
        check_clock(windows, clock, SECOND)
    else:
        with pytest.raises(ClockError):
            check_clock(windows, clock, SECOND)


def test_a_simulated_clock_is_held_against_nothing(store_at: Callable[[int], MemoryWindows]) -> None:
    """A replay of 2013 is not asked why Redis says 2026."""
    check_clock(store_at(NOW), SteppedClock(0), TOLERANCE)
