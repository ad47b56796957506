"""What probes are told, over HTTP."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from monitor.errors import UsageError
from monitor.operate.health import STALL_SECONDS, Endpoint, Health
from monitor.operate.metrics import Metrics


@dataclass
class Probed:
    """An endpoint, the health behind it, and a clock that is moved by hand."""

    now: list[float] = field(default_factory=lambda: [0.0])
    health: Health = field(init=False)
    endpoint: Endpoint = field(init=False)

    def __post_init__(self) -> None:
        self.health = Health(lambda: self.now[0])
        self.endpoint = Endpoint(0, Metrics().registry, self.health)

    def get(self, path: str) -> tuple[int, str, bytes]:
        """The status, the content type and the body."""
        try:
            with urlopen(f"http://127.0.0.1:{self.endpoint.port}{path}", timeout=5) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read()
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
    made = Probed()
    with closing(made.endpoint):
        yield made


def test_loops_that_turn_are_healthy_and_one_that_stopped_is_not(probed: Probed) -> None:
    """It is named; after it has turned again all is well."""
    probed.health.report_alive("reading")
    probed.health.report_alive("release")
    assert probed.probe("/healthz") == (200, {"ok": True})
    probed.now[0] += STALL_SECONDS + 1
    probed.health.report_alive("release")
    assert probed.probe("/healthz") == (503, {"ok": False, "reading": "has not turned for three minutes"})
    probed.health.report_alive("reading")
    assert probed.probe("/healthz") == (200, {"ok": True})


def test_waiting_for_a_server_is_healthy_but_not_ready(probed: Probed) -> None:
    """A restart would not bring the server back; traffic should not count on this instance."""
    probed.health.report_alive("reading", "Redis does not answer")
    assert probed.probe("/healthz") == (200, {"ok": True})
    assert probed.probe("/readyz") == (503, {"ok": False, "reading": "Redis does not answer"})
    probed.health.report_alive("reading")
    assert probed.probe("/readyz") == (200, {"ok": True})


def test_a_loop_that_is_expected_must_say_so_before_all_is_ready(probed: Probed) -> None:
    """Recovery takes its time."""
    probed.health.expect("release")
    assert probed.probe("/readyz") == (503, {"ok": False, "release": "starting"})
    probed.health.report_alive("release")
    assert probed.probe("/readyz")[0] == 200


def test_a_loop_that_has_ended_is_not_expected_to_turn(probed: Probed) -> None:
    """
    The service waits for a topic that was deleted: its loops have ended, and `run` itself turns.

        reading    ├── turns ──┤ ended
        service    ├── turns ───── turns, and says what it waits for ─────
    """
    probed.health.expect("reading")
    probed.health.report_alive("service", "kafka.topics.visits was deleted")
    probed.now[0] += STALL_SECONDS + 1
    probed.health.report_alive("service", "kafka.topics.visits was deleted")
    assert probed.probe("/healthz")[0] == 503
    probed.health.forget("reading")
    assert probed.probe("/healthz") == (200, {"ok": True})
    assert probed.probe("/readyz") == (503, {"ok": False, "service": "kafka.topics.visits was deleted"})


def test_metrics_are_served_as_prometheus_reads_them(probed: Probed) -> None:
    """And other paths are not there."""
    status, kind, body = probed.get("/metrics")
    assert (status, kind.split(";")[0]) == (200, "text/plain")
    assert b"location_monitor_build_info" in body
    assert probed.get("/")[0] == 404


def test_a_port_that_is_taken_is_a_wrong_configuration() -> None:
    """With its key, and what to choose instead."""
    with closing(socket.socket()) as taken:
        taken.bind(("0.0.0.0", 0))  # noqa: S104  # as the endpoint listens
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"metrics\.port is {port}, which cannot be listened on.*0 for any free"):
            Endpoint(port, Metrics().registry, Health())


def test_a_closed_endpoint_lets_go_of_its_port() -> None:
    """So the next start finds it free."""
    first = Endpoint(0, Metrics().registry, Health())
    port = first.port
    first.close()
    with closing(Endpoint(port, Metrics().registry, Health())) as again:
        assert again.port == port
