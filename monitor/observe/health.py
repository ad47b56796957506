"""Serve `/metrics`, `/healthz` (all loops are alive) and `/readyz` (all loops are ready) on one port."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from ipaddress import ip_address
from socketserver import ThreadingMixIn
from typing import Any, Final, Protocol, cast
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app

from monitor.errors import UsageError

log = logging.getLogger(__name__)

STALL_SECONDS: Final = 180.0  # a loop makes no report while it reads a long ledger
REQUEST_SECONDS: Final = 10.0
"""How long a client of the endpoint may send or read nothing."""
MOST_REQUESTS: Final = 32
"""The most requests that the endpoint handles at a time, each in a thread."""


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


class QuietHandler(WSGIRequestHandler):
    """Handles one request of a client, and closes a connection on which nothing happens."""

    timeout = REQUEST_SECONDS

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name is the base class's
        """Log nothing, because probes arrive every few seconds."""


class _Server(ThreadingMixIn, WSGIServer):
    """A server with a thread for each request. Above MOST_REQUESTS, it closes the oldest connection.

    A probe takes milliseconds, so that the oldest connection is one whose client does not send or read.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._open: OrderedDict[int, socket.socket] = OrderedDict()
        self._lock = threading.Lock()
        super().__init__(*arguments, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a request in a thread of its own."""
        with self._lock:
            if len(self._open) >= MOST_REQUESTS:
                _, oldest = self._open.popitem(last=False)
                with suppress(OSError):  # its client has closed it
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread reads the end, and ends
            self._open[id(request)] = request
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._lock:
            self._open.pop(id(request), None)
        super().shutdown_request(request)


class _IPv6Server(_Server):
    address_family = socket.AF_INET6


class Endpoint:
    """The HTTP endpoint. A separate thread serves requests from construction until `close`.

    `host` is the address to listen on, and `key` the configuration key of the port. A request for `/metrics` must name
    an address, a name without a dot, or `host` as its host. Otherwise a web page, whose host's name its owner lets
    point to this machine, could read the metrics in the browser of an operator.

    Raises:
        UsageError: the port cannot be opened.
    """

    def __init__(
        self, host: str, port: int, registry: CollectorRegistry, health: Probes, key: str = "metrics.port"
    ) -> None:
        self._host = host
        self._health = health
        self._metrics = make_wsgi_app(registry)
        try:
            server = _IPv6Server if ":" in host else _Server
            self._server = make_server(host, port, self._respond, server, QuietHandler)
        except OSError as error:
            raise UsageError(
                f"{key} is {port}: cannot listen on it at {host} ({error}). Set another port, or 0 for any free port, "
                "and an address of this host"
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that the endpoint listens on."""
        return self._server.server_port

    def _respond(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics" and not self._is_own_name(environ.get("HTTP_HOST", "")):
            start("421 Misdirected Request", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"expected an address, a name without a dot, or the configured host as the host of the request\n"]
        if path == "/metrics":
            return cast("Iterable[bytes]", self._metrics(environ, start))
        if path == "/healthz":
            return _probe(start, dict.fromkeys(self._health.list_stalled(), "no report for three minutes"))
        if path == "/readyz":
            return _probe(start, self._health.list_waiting())
        start("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"/metrics, /healthz or /readyz\n"]

    def _is_own_name(self, header: str) -> bool:
        """Return whether no stranger can have chosen the host that a request names. An attacker's name has a dot."""
        with suppress(ValueError):  # neither a host with a port nor an address
            name = urlsplit(f"//{header}").hostname or ""
            return "." not in name or name == self._host or bool(ip_address(name))
        return False

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)


def _probe(start: StartResponse, problems: dict[str, str]) -> Iterable[bytes]:
    status = "503 Service Unavailable" if problems else "200 OK"
    start(status, [("Content-Type", "application/json")])
    return [json.dumps({"ok": not problems, **problems}).encode() + b"\n"]
