"""The release loop: one tick per slot that closes, and takeovers in between, until told to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from monitor.clock import Clock
from monitor.release.loop import TURN, ReleaseLoop
from monitor.scheme import Scheme

RETRY_POLL_SECONDS: Final = 0.1


def run_release(
    loop: ReleaseLoop,
    queues: int,
    clock: Clock,
    scheme: Scheme,
    stop: threading.Event,
    wake: threading.Event,
    alive: Callable[[str], None],
) -> None:
    """Turn the loop until told to stop: one tick per slot that closes.

    Raises:
        TopicError, LedgerError, PeriodError, EvictionError: everything must be looked at anew.
    """
    due = scheme.slots.slot_of(clock.now())
    while not stop.is_set():
        wake.clear()
        if stop.is_set():  # it was set before `wake`, so clearing `wake` can't have hidden it
            break
        loop.sync(queues, alive)
        slot = scheme.slots.slot_of(clock.now())
        # The tick that was waited for may have closed meanwhile: it is decided late rather than passed over.
        due = slot if due >= slot else slot - 1
        if _closes(loop, due, clock, scheme, wake, alive):
            loop.tick(due, stop, alive)
            due += 1


def _closes(
    loop: ReleaseLoop,
    tick: int,
    clock: Clock,
    scheme: Scheme,
    wake: threading.Event,
    alive: Callable[[str], None],
) -> bool:
    """Wait until a tick has closed; False if woken, if a takeover is to be tried again, or if another closes next."""
    closes = scheme.slots.as_of(tick) + scheme.tolerance
    # A clock that is set back ends the wait for what is an hour ahead now: another tick closes next.
    while not wake.is_set() and scheme.slots.slot_of(clock.now()) >= tick:
        alive(loop.trouble)
        if loop.trouble:
            wake.wait(RETRY_POLL_SECONDS)  # takeovers are tried again by real time, whatever the public clock
        else:
            clock.wait_until(min(closes, clock.now() + TURN), wake)
        if clock.now() >= closes:
            return True
        if loop.retry_due:
            return False
    return False
