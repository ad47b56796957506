"""How a process is stopped by a signal, and how long this may take.

The service, and the units and charts of deploy/ agree on these times:

    SIGTERM                                    the process has ended      SIGKILL
    ├── FINISH_SECONDS: work in progress ──┤ leave the groups, close ├────┤
    ├── STOP_SECONDS: the process has ended ─────────────────────────┤    │
    ├── GRACE_SECONDS: then systemd, compose or Kubernetes kills it ──────┤

A healthy instance stops in 6 to 12 seconds. It spends most of them waiting for a release that is due within ten
seconds. The limits below are for servers that do not answer (docs/operations.md, "How long a stop takes").
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

FINISH_SECONDS: Final = 30.0
"""The time in which all threads together finish their work. The next instance does the rest."""

STOP_SECONDS: Final = 65.0
"""The time in which a process ends after SIGTERM: `FINISH_SECONDS`, and half a minute to leave both groups."""

GRACE_SECONDS: Final = 70.0
"""The time between SIGTERM and SIGKILL that deploy/ gives the service: longer than a stop may take."""


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
