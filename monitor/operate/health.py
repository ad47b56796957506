"""Serve `/metrics`, `/healthz` (all loops are alive) and `/readyz` (all loops are ready) on one port."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any, Final, Protocol, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app

from monitor.errors import UsageError

log = logging.getLogger(__name__)

STALL_SECONDS: Final = 180.0  # a loop makes no report while it reads a long ledger


class Probes(Protocol):
    """The health and readiness that the endpoint reports."""

    def list_stalled(self) -> list[str]:
        """Return the loops that have not reported for three minutes."""

    def list_waiting(self) -> dict[str, str]:
        """Return, for each loop that is not ready, the reason why it waits."""


class Health:
    """The last report of each loop: when it was made, and what the loop waits for (empty if the loop is ready)."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._last_turns: dict[str, float] = {}
        self._waiting_for: dict[str, str] = {}

    def expect(self, loop: str) -> None:
        """Register a loop. It is not ready until it reports so."""
        self.report_alive(loop, "starting")

    def forget(self, loop: str) -> None:
        """Remove a loop that has ended."""
        with self._lock:
            self._last_turns.pop(loop, None)
            self._waiting_for.pop(loop, None)

    def report_alive(self, loop: str, waiting_for: str = "") -> None:
        """Record that a loop has completed a turn, and what it waits for, if anything."""
        with self._lock:
            self._last_turns[loop] = self._monotonic()
            self._waiting_for[loop] = waiting_for

    def list_stalled(self) -> list[str]:
        """Return the loops that have not reported for three minutes."""
        with self._lock:
            now = self._monotonic()
            return [loop for loop, last_turn in self._last_turns.items() if now - last_turn > STALL_SECONDS]

    def list_waiting(self) -> dict[str, str]:
        """Return, for each loop that is not ready, the reason why it waits."""
        with self._lock:
            return {loop: reason for loop, reason in self._waiting_for.items() if reason}


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name is the base class's
        """Log nothing, because probes arrive every few seconds."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Endpoint:
    """The HTTP endpoint. A separate thread serves requests from construction until `close`.

    `host` is the address to listen on; if it is empty, all addresses. `key` is the configuration key of the port.

    Raises:
        UsageError: the port cannot be opened.
    """

    def __init__(
        self, port: int, registry: CollectorRegistry, health: Probes, host: str = "", key: str = "metrics.port"
    ) -> None:
        self._health = health
        self._metrics = make_wsgi_app(registry)
        try:
            self._server = make_server(host, port, self._respond, _Server, _QuietHandler)
        except OSError as error:
            raise UsageError(
                f"{key} is {port}: cannot listen on it ({error}). Set another port, or 0 for any free port"
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that the endpoint listens on."""
        return self._server.server_port

    def _respond(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            return cast("Iterable[bytes]", self._metrics(environ, start))
        if path == "/healthz":
            return _probe(start, dict.fromkeys(self._health.list_stalled(), "no report for three minutes"))
        if path == "/readyz":
            return _probe(start, self._health.list_waiting())
        start("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"/metrics, /healthz or /readyz\n"]

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)


def _probe(start: StartResponse, problems: dict[str, str]) -> Iterable[bytes]:
    status = "503 Service Unavailable" if problems else "200 OK"
    start(status, [("Content-Type", "application/json")])
    return [json.dumps({"ok": not problems, **problems}).encode() + b"\n"]
