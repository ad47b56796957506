"""The clock of replays, which moves step by step."""

from __future__ import annotations

import threading

from monitor.time.clock import SteppedClock


def test_clock_moves_when_all_wait() -> None:
    """The clock moves once the second of two threads waits for a later instant."""
    clock, never = SteppedClock(0), threading.Event()
    first = threading.Thread(target=clock.wait_until, args=(7, never), daemon=True)
    clock.move_when_awaited(9, 2)
    first.start()
    assert clock.wait_until(0, never)
    assert clock.now() == 0
    assert clock.wait_until(5, never)
    first.join(10)
    assert (clock.now(), first.is_alive()) == (9, False)


def test_later_move_replaces_the_awaited_one() -> None:
    """A clock that is moved before all threads wait does not move on its own afterwards."""
    clock, stopped = SteppedClock(0), threading.Event()
    clock.move_when_awaited(9, 1)
    clock.move_to(3)
    stopped.set()
    assert not clock.wait_until(5, stopped)
    assert clock.now() == 3
