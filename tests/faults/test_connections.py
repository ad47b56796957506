"""Slow, cut and half-open connections between the service and its servers, by toxiproxy."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from monitor.operate.servers import EmbeddedKafka, EmbeddedValkey, NodeSettings
from tests.faults.conftest import MakeTown
from tests.faults.oracles import settle
from tests.faults.town import FaultTown
from tests.go_programs import TOXIPROXY, GoError, install_program
from tests.kit.network import find_free_ports, parse_address
from tests.kit.processes import Instance
from tests.kit.waiting import until
from tests.needed_programs import report_missing
from tests.shared_kafka import SharedKafka


class Toxiproxy:
    """A client for the HTTP API of a running toxiproxy."""

    def __init__(self, port: int) -> None:
        self._api = f"http://127.0.0.1:{port}"

    def ask(self, method: str, path: str, **body: Any) -> Any:
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(f"{self._api}{path}", data, method=method)  # noqa: S310  # only http
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310  # only http
            return json.loads(answer.read() or b"null")

    def proxy(self, name: str, listen: int, upstream: tuple[str, int]) -> None:
        host, port = upstream
        self.ask("POST", "/proxies", name=name, listen=f"127.0.0.1:{listen}", upstream=f"{host}:{port}", enabled=True)

    def is_up(self) -> bool:
        try:
            self.ask("GET", "/proxies")
        except (OSError, ValueError):
            return False
        return True

    @contextmanager
    def toxic(self, proxy: str, kind: str, stream: str = "downstream", **attributes: int) -> Iterator[None]:
        """Apply a toxic to all connections of a proxy during the context."""
        self.ask(
            "POST", f"/proxies/{proxy}/toxics", name=kind, type=kind, stream=stream, toxicity=1.0, attributes=attributes
        )
        try:
            yield
        finally:
            self.ask("DELETE", f"/proxies/{proxy}/toxics/{kind}")

    def cut(self, proxy: str) -> None:
        """Cut all connections, and accept new ones at once."""
        self.ask("POST", f"/proxies/{proxy}", enabled=False)
        self.ask("POST", f"/proxies/{proxy}", enabled=True)


@pytest.fixture(scope="module")
def toxiproxy() -> Iterator[Toxiproxy]:
    try:
        binary = install_program(TOXIPROXY)
    except GoError as error:
        report_missing(f"toxiproxy ({error})", "install Go, with its module proxy in reach once")
    (port,) = find_free_ports(1)
    arguments = [str(binary), "-host", "127.0.0.1", "-port", str(port)]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    client = Toxiproxy(port)
    try:
        until(client.is_up, 20, "toxiproxy answers")
        yield client
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def town(
    toxiproxy: Toxiproxy, kafka: SharedKafka, valkey: EmbeddedValkey, make_module_town: MakeTown
) -> Iterator[FaultTown]:
    """A service that reaches both servers through toxiproxy. The broker advertises the proxy's address."""
    broker_port, proxy_port, store_port = find_free_ports(3)
    properties = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy_port}"}
    toxiproxy.proxy("kafka", proxy_port, ("127.0.0.1", broker_port))
    with EmbeddedValkey() as store, EmbeddedKafka(NodeSettings(properties=properties, port=broker_port)):
        toxiproxy.proxy("redis", store_port, parse_address(store.url))
        town = make_module_town(f"127.0.0.1:{proxy_port}", f"redis://127.0.0.1:{store_port}/0")
        town.start()
        town.subscriber.wait_complete()
        yield town
        town.end()


def find_running(town: FaultTown) -> Instance:
    return next(instance for instance in town.instances if instance.code is None)


SOAK = pytest.mark.soak
TOXICS: dict[str, tuple[str, str, dict[str, int]]] = {
    "slow": ("latency", "downstream", {"latency": 150, "jitter": 100}),
    "narrow": ("bandwidth", "downstream", {"rate": 20}),
    "sliced": ("slicer", "downstream", {"average_size": 5, "size_variation": 3, "delay": 50}),
    "half-open, nothing arrives": ("timeout", "upstream", {"timeout": 0}),
    "half-open, no answer": ("timeout", "downstream", {"timeout": 0}),
    "reset": ("reset_peer", "downstream", {"timeout": 300}),
    "cut in an answer": ("limit_data", "downstream", {"bytes": 2_000}),
}
ALWAYS = {
    ("redis", "slow"),
    ("redis", "half-open, nothing arrives"),
    ("redis", "half-open, no answer"),
    ("redis", "cut in an answer"),
    ("kafka", "slow"),
    ("kafka", "half-open, no answer"),
    ("kafka", "reset"),
}


@pytest.mark.parametrize(
    ("server", "kind"),
    [
        pytest.param(server, kind, marks=() if (server, kind) in ALWAYS else SOAK)
        for server in ("redis", "kafka")
        for kind in TOXICS
    ],
)
def test_connection_fault_breaks_no_promise(server: str, kind: str, town: FaultTown, toxiproxy: Toxiproxy) -> None:
    """After two slots of a fault, the service recovers without a restart. The last test judges its answers."""
    toxic, stream, attributes = TOXICS[kind]
    with toxiproxy.toxic(server, toxic, stream, **attributes):
        time.sleep(4)  # the duration is part of the fault, so there is no condition to wait for
    if toxic == "timeout":
        toxiproxy.cut(server)  # toxiproxy keeps connections half-open after the toxic is removed
    town.subscriber.wait_complete(120)


def test_promises_after_connection_faults(town: FaultTown) -> None:
    """After all faults of connections, no promise is broken."""
    verdict = settle(town, find_running(town))
    assert verdict.broken == []
    assert verdict.count("safe") > 0
