"""End a process in order when the system asks for it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_signals(stop: threading.Event, report: Callable[[str], None]) -> Iterator[None]:
    """Set `stop` on SIGTERM or SIGINT. A second signal ends the process as usual."""

    def handle(number: int, _frame: FrameType | None) -> None:
        report(f"{signal.Signals(number).name}: finishing the work in progress")
        stop.set()
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()
