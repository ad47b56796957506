"""Slow, cut and half-open connections, made by toxiproxy between the service and each of its servers."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from monitor.tools.embedded import EmbeddedKafka, EmbeddedValkey, NodeSettings
from tests.faults.conftest import MakeScene, Scene
from tests.faults.forwarder import address_of
from tests.faults.oracles import judge
from tests.faults.processes import Instance, until

MODULE = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.5.0"
TOOLS = Path.home() / ".cache" / "location-monitor-tools"


class Toxiproxy:
    """A running toxiproxy, told by HTTP what to do with connections."""

    def __init__(self, port: int) -> None:
        self._api = f"http://127.0.0.1:{port}"

    def ask(self, method: str, path: str, **body: Any) -> Any:
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(f"{self._api}{path}", data, method=method)  # noqa: S310  # http alone
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310  # http alone
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
        """Do something to all connections of a proxy, meanwhile."""
        self.ask(
            "POST", f"/proxies/{proxy}/toxics", name=kind, type=kind, stream=stream, toxicity=1.0, attributes=attributes
        )
        try:
            yield
        finally:
            self.ask("DELETE", f"/proxies/{proxy}/toxics/{kind}")

    def cut(self, proxy: str) -> None:
        """Cut all connections, and take new ones at once."""
        self.ask("POST", f"/proxies/{proxy}", enabled=False)
        self.ask("POST", f"/proxies/{proxy}", enabled=True)


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def installed() -> Path:
    """toxiproxy, built once by Go into a folder of the user's."""
    binary = TOOLS / "server"
    if binary.exists():
        return binary
    go = shutil.which("go")
    if go is None:
        pytest.skip("server missing: toxiproxy (no go on the PATH builds it). To run these tests: install Go")
    TOOLS.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(
        [go, "install", MODULE],
        env={**os.environ, "GOBIN": str(TOOLS)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    if made.returncode == 0:
        return binary
    told = f"server missing: toxiproxy (go install failed: {made.stderr[-300:]}). To run these tests: mend that"
    if os.environ.get("CI"):
        pytest.fail(told, pytrace=False)
    pytest.skip(told)


@pytest.fixture(scope="module")
def toxiproxy() -> Iterator[Toxiproxy]:
    binary = installed()
    port = free_port()
    arguments = [str(binary), "-host", "127.0.0.1", "-port", str(port)]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    made = Toxiproxy(port)
    try:
        until(made.is_up, 20, "toxiproxy answers")
        yield made
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def scene(
    toxiproxy: Toxiproxy, kafka: EmbeddedKafka, valkey: EmbeddedValkey, make_module_scene: MakeScene
) -> Iterator[Scene]:
    """A service that reaches both servers through toxiproxy: the broker advertises the proxy's address."""
    behind, shown, store_port = free_port(), free_port(), free_port()
    properties = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{shown}"}
    toxiproxy.proxy("kafka", shown, ("127.0.0.1", behind))
    with EmbeddedValkey() as store, ProxiedKafka(NodeSettings(properties=properties, port=behind)):
        toxiproxy.proxy("redis", store_port, address_of(store.url))
        made = make_module_scene(f"127.0.0.1:{shown}", f"redis://127.0.0.1:{store_port}/0")
        made.start()
        made.subscriber.wait_whole()
        yield made
        made.end()


class ProxiedKafka(EmbeddedKafka):
    """A broker that names the proxy's address as its own, so that it is up once it describes its cluster at all."""

    def _is_in_cluster(self) -> bool:
        import monitor.tools.embedded.kafka as module  # noqa: PLC0415  # for what it does with addresses

        def own(broker: Mapping[str, object]) -> str:
            return self.bootstrap_servers if broker else ""

        before = module._address
        module._address = own
        try:
            return super()._is_in_cluster()
        finally:
            module._address = before


def running(scene: Scene) -> Instance:
    return next(instance for instance in scene.town.instances if instance.code is None)


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
def test_connections_are(server: str, kind: str, scene: Scene, toxiproxy: Toxiproxy) -> None:
    """For two slots, whatever is said is true; then the service goes on by itself."""
    toxic, stream, attributes = TOXICS[kind]
    with toxiproxy.toxic(server, toxic, stream, **attributes):
        time.sleep(4)  # how long it lasts is the fault itself; there is nothing to wait for
    if toxic == "timeout":
        toxiproxy.cut(server)  # half-open ones stay so in toxiproxy also when the toxic is gone
    scene.subscriber.wait_whole(120)
    assert judge(scene.town).broken == []


def test_after_all_that_befell_connections_every_promise_holds(scene: Scene) -> None:
    verdict = scene.settle(running(scene))
    assert verdict.broken == []
    assert verdict.count("safe") > 0
