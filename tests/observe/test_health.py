"""The responses to probes, over HTTP."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from monitor.errors import UsageError
from monitor.observe import health
from monitor.observe.health import MOST_REQUESTS, STALL_SECONDS, Endpoint, Health
from monitor.observe.update_service_metrics import Metrics
from tests.conftest import Eventually


@dataclass
class Probed:
    """An endpoint, its health, and a clock that the test moves."""

    now: list[float] = field(default_factory=lambda: [0.0])
    health: Health = field(init=False)
    endpoint: Endpoint = field(init=False)

    def __post_init__(self) -> None:
        self.health = Health(lambda: self.now[0])
        self.endpoint = Endpoint("127.0.0.1", 0, Metrics().registry, self.health)

    def get(self, path: str, host: str = "127.0.0.1") -> tuple[int, str, bytes]:
        """Return the status, the content type and the body of a response to a request that names a host."""
        request = Request(f"http://127.0.0.1:{self.endpoint.port}{path}", headers={"Host": host})
        try:
            with urlopen(request, timeout=5) as response:  # noqa: S310  # the request above, by HTTP
                return response.status, response.headers["Content-Type"], response.read()
        except HTTPError as error:
            with error:
                return error.code, error.headers["Content-Type"], error.read()

    def probe(self, path: str) -> tuple[int, dict[str, Any]]:
        status, kind, body = self.get(path)
        assert kind == "application/json"
        return status, json.loads(body)


@pytest.fixture
def probed() -> Iterator[Probed]:
    """An endpoint on a free port."""
    fixture = Probed()
    with closing(fixture.endpoint):
        yield fixture


def test_stalled_loop_is_unhealthy(probed: Probed) -> None:
    """/healthz names a stalled loop, until the loop reports again."""
    probed.health.report_alive("reading")
    probed.health.report_alive("release")
    assert probed.probe("/healthz") == (200, {"ok": True})
    probed.now[0] += STALL_SECONDS + 1
    probed.health.report_alive("release")
    assert probed.probe("/healthz") == (503, {"ok": False, "reading": "no report for three minutes"})
    probed.health.report_alive("reading")
    assert probed.probe("/healthz") == (200, {"ok": True})


def test_waiting_loop_is_not_ready(probed: Probed) -> None:
    """While a loop waits for a server, the service is healthy but not ready."""
    probed.health.report_alive("reading", "Redis does not answer")
    assert probed.probe("/healthz") == (200, {"ok": True})
    assert probed.probe("/readyz") == (503, {"ok": False, "reading": "Redis does not answer"})
    probed.health.report_alive("reading")
    assert probed.probe("/readyz") == (200, {"ok": True})


def test_expected_loop_must_report_ready(probed: Probed) -> None:
    """An expected loop is not ready before its first report."""
    probed.health.expect("release")
    assert probed.probe("/readyz") == (503, {"ok": False, "release": "starting"})
    probed.health.report_alive("release")
    assert probed.probe("/readyz")[0] == 200


def test_ended_loop_is_forgotten(probed: Probed) -> None:
    """
    A loop that has ended need not report any more.

    The service waits for a deleted topic: its loops have ended, and `run` itself reports.

        reading    ├── reports ──┤ ended
        service    ├── reports ───── reports what it waits for ─────
    """
    probed.health.expect("reading")
    probed.health.report_alive("service", "kafka.topics.visits was deleted")
    probed.now[0] += STALL_SECONDS + 1
    probed.health.report_alive("service", "kafka.topics.visits was deleted")
    assert probed.probe("/healthz")[0] == 503
    probed.health.forget("reading")
    assert probed.probe("/healthz") == (200, {"ok": True})
    assert probed.probe("/readyz") == (503, {"ok": False, "service": "kafka.topics.visits was deleted"})


def test_metrics_are_served(probed: Probed) -> None:
    """/metrics serves the Prometheus text format; unknown paths return 404."""
    status, kind, body = probed.get("/metrics")
    assert (status, kind.split(";")[0]) == (200, "text/plain")
    assert b"location_monitor_build_info" in body
    assert probed.get("/")[0] == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:9108", 200),
        ("monitor:9108", 200),
        ("10.0.0.5:9108", 200),
        ("[::1]:9108", 200),
        ("evil.test", 421),
        ("evil.test:9108", 421),
        ("127.0.0.1.evil.test", 421),
        ("127.0.0.1@evil.test", 421),
        ("[::1", 421),
    ],
)
def test_metrics_have_no_stranger_as_host(probed: Probed, host: str, status: int) -> None:
    """/metrics refuses a host that somebody else can have pointed at this machine; probes answer."""
    assert probed.get("/metrics", host)[0] == status
    assert probed.get("/healthz", host)[0] == 200


def test_configured_host_is_answered(probed: Probed) -> None:
    """/metrics answers for a configured host with a dot. `127.1` is no address in full, but the system binds to it."""
    assert probed.get("/metrics", "127.1")[0] == 421
    with closing(Endpoint("127.1", 0, Metrics().registry, Health())) as endpoint:
        probed.endpoint.close()
        probed.endpoint = endpoint
        assert probed.get("/metrics", "127.1")[0] == 200


def test_used_port_is_a_usage_error() -> None:
    """A port in use is refused with its key and a remedy."""
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"metrics\.port is {port}: cannot listen on it.*0 for any free"):
            Endpoint("127.0.0.1", port, Metrics().registry, Health())


def test_closed_endpoint_frees_its_port() -> None:
    """A closed endpoint frees its port for the next start."""
    first = Endpoint("127.0.0.1", 0, Metrics().registry, Health())
    port = first.port
    first.close()
    with closing(Endpoint("127.0.0.1", port, Metrics().registry, Health())) as second:
        assert second.port == port


def test_slow_clients_do_not_stop_probes(probed: Probed, eventually: Eventually) -> None:
    """Clients that send nothing take a limited number of threads, and probes are still answered."""
    before, clients = threading.active_count(), []
    with ExitStack() as stack:
        for _ in range(3 * MOST_REQUESTS):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", probed.endpoint.port), timeout=5))
            client.sendall(b"GET /metrics HTTP/1.1\r\nX-Slow: ")
            clients.append(client)
        assert probed.probe("/healthz") == (200, {"ok": True})
        assert clients[0].recv(1) == b""  # the oldest one is closed
        eventually(lambda: threading.active_count() <= before + MOST_REQUESTS + 1)  # closed ones are still ending


def test_silent_client_is_closed(probed: Probed, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that sends half of a request is disconnected after a time."""
    monkeypatch.setattr(health.QuietHandler, "timeout", 0.1)
    with socket.create_connection(("127.0.0.1", probed.endpoint.port), timeout=10) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\n")
        assert client.recv(1) == b""
