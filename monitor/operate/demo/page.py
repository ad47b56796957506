"""The public page of a demo (`demo --page`). It is served during the demo, and after it until Ctrl-C."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from monitor.audit import AuditReport
from monitor.audit.findings import count_false
from monitor.config.registry import Locations
from monitor.errors import FailedError
from monitor.page import require_page
from monitor.privacy.epsilon import format_epsilon
from monitor.service.wiring import Settings
from monitor.time.clock import Clock
from monitor.time.instants import DAY, format_instant

_HISTORY = 60 * DAY  # longer than the demo
_HOST, _USUAL_PORT = "localhost", 8080


def wait_for_interrupt() -> None:
    """Wait until SIGINT, or until a SIGTERM that is treated like it."""
    with suppress(KeyboardInterrupt):
        threading.Event().wait()


@dataclass
class DemoPage:
    """The page of a demo. `port`: 0 for any free port, None for no page. `linger` returns when the page is to end.

    Raises:
        FailedError: the packages of the page are missing, or the port is taken (constructor).
    """

    port: int | None = None
    linger: Callable[[], None] = wait_for_interrupt
    url: str = ""
    _stack: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        """Check that the page can be served, before servers are started for it."""
        if self.port is not None:
            require_page()
            self.port = _find_free_port(self.port)

    def __enter__(self) -> Self:
        """Return this page. It is opened later, because it needs the topics."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close the page."""
        self._stack.close()

    def open(self, settings: Settings, locations: Locations, clock: Clock, recount: Path) -> None:
        """Serve the page, if there is one. `recount`: the file with the result of the recount."""
        if self.port is None:
            return
        from monitor.page.page_threads import Page, PageParts  # noqa: PLC0415  # the extra may be absent
        from monitor.page.serve import FolderServer  # noqa: PLC0415  # the extra may be absent

        changed = {"history": _HISTORY, "audit_file": recount}
        page = settings.config.page.model_copy(update=changed)
        config = settings.config.model_copy(update={"page": page})
        parts = PageParts(config, settings.parameters, locations, settings.kafka)
        out = Path(self._stack.enter_context(TemporaryDirectory(prefix="location-page-")))
        self._stack.enter_context(Page(parts, clock, out))
        self.url = self._stack.enter_context(FolderServer(out, _HOST, self.port)).url


def choose_port() -> int:
    """Return the usual port of the page if it is free, else 0 for any free port."""
    try:
        return _find_free_port(_USUAL_PORT)
    except FailedError:
        return 0


def _find_free_port(port: int) -> int:
    """Return a port that can be listened on: this one, or any for 0. Raise FailedError if it is taken."""
    try:
        with socket.create_server((_HOST, port)) as listening:
            found: int = listening.getsockname()[1]
    except OSError as error:
        reason = f"{port}, which cannot be used ({error.strerror})"
        raise FailedError(f"--port is {reason}: give a free port, or leave --port out to use any") from error
    return found


def write_recount(path: Path, report: AuditReport, up_to: int) -> None:
    """Write the result of the recount up to an instant in the form that the page reads (docs/page.md).

    The ε is computed from the answers alone.
    """
    result = {
        "up_to": format_instant(up_to),
        "false": count_false(report.totals),
        "epsilon_at_most": format_epsilon(report.spent),
    }
    path.write_text(json.dumps(result), encoding="utf-8")
