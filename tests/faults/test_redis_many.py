"""Redis on more than one server: a cluster that lacks a node, and a failover that Sentinel decides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Final

import pytest
import redis

from monitor.tools.embedded import EmbeddedKafka, EmbeddedValkey, ValkeySettings
from tests.faults.conftest import MakeScene
from tests.faults.forwarder import Forwarder, address_of
from tests.faults.processes import Instance, until
from tests.faults.town import Shape

NODES: Final = 3
SLOTS: Final = 16_384
LASTING_NODE: Final = ValkeySettings(
    appendonly=True, cluster=True, arguments=("--appendfsync", "always", "--cluster-node-timeout", "1000")
)
PRIMARY: Final = "town"


@contextmanager
def connected(url: str) -> Iterator[Any]:
    """A client without types: redis-py's say that any answer may be awaited."""
    with closing(redis.Redis.from_url(url)) as client:
        yield client


def join(nodes: list[EmbeddedValkey]) -> None:
    """Make one cluster of nodes that each own all slots, a share of them for each."""
    met = address_of(nodes[0].url)
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(node.url)) for node in nodes]
        bus = clients[0].config_get("cluster-port")["cluster-port"]
        for number, client in enumerate(clients):
            client.execute_command("CLUSTER RESET", "HARD")
            client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
            first, beyond = SLOTS * number // NODES, SLOTS * (number + 1) // NODES
            client.execute_command("CLUSTER ADDSLOTSRANGE", first, beyond - 1)
        for client in clients[1:]:
            client.execute_command("CLUSTER MEET", *met, bus)
        until(lambda: all(state(client) == ("ok", str(NODES)) for client in clients), 20, "the nodes are one cluster")


def state(client: Any) -> tuple[str, str]:
    """What a node says of its cluster: whether it takes commands, and how many nodes it knows."""
    info = client.cluster("INFO")
    return info["cluster_state"], info["cluster_known_nodes"]


def shards_at(node: EmbeddedValkey) -> int:
    """How many of the service's shards a node holds."""
    with connected(node.url) as client:
        return sum(1 for _ in client.scan_iter(match="*:meta", count=1_000))


@pytest.fixture
def cluster(valkey: EmbeddedValkey) -> Iterator[list[EmbeddedValkey]]:
    """A cluster of the test's own that writes each command to its disks, and wants all slots served (the default)."""
    with ExitStack() as stack:
        nodes = [stack.enter_context(EmbeddedValkey(LASTING_NODE)) for _ in range(NODES)]
        join(nodes)
        yield nodes


def test_a_cluster_lacks_a_node_until_it_comes_back(
    kafka: EmbeddedKafka, cluster: list[EmbeddedValkey], make_scene: MakeScene
) -> None:
    """All is unknown meanwhile; afterwards the node has what it had, and visits are read on from there.

    nodes 1, 2  ├── facts ───────┤ refuse  ├── facts ──┤
    node 3      ├── facts ───────┤ killed  ├── goes on from its append-only file
    answers     ├── known ───────┤ unknown ├── known ──┤
    """
    scene = make_scene(kafka.bootstrap_servers, cluster[0].url, Shape(inputs=1, ledger_partitions=1, cluster=True))
    instance = scene.start()
    scene.subscriber.wait_whole()
    *others, lost = sorted(cluster, key=shards_at)
    assert shards_at(lost) > 0
    lost.kill()
    with connected(others[0].url) as client:
        until(lambda: state(client)[0] == "fail", 20, "the others miss it")
    since = scene.town.now() + 1
    last = scene.subscriber.wait_tick(since + 1)
    said = {status for (_, tick), status in scene.subscriber.statuses("edges", since).items() if tick <= last}
    assert "unknown" in said
    assert said <= {"unknown", "paused"}
    lost.restart()
    scene.subscriber.wait_whole(60)
    assert 'recoveries_total{cause="no_progress"} 1.0' in instance.page()
    verdict = scene.settle(instance)
    assert verdict.broken == []
    assert verdict.count("safe") > 0


class Sentinel(EmbeddedValkey):
    """One Sentinel that watches a primary, and decides alone."""

    name = "Sentinel"

    def __init__(self, primary: EmbeddedValkey) -> None:
        super().__init__()
        self._host, self._watched = address_of(primary.url)

    @property
    def named(self) -> tuple[str, int]:
        """Where it says that the primary is."""
        with connected(self.url) as client:
            host, port = client.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", PRIMARY)
            return (host.decode() if isinstance(host, bytes) else host), int(port)

    @property
    def knows_a_replica(self) -> bool:
        """Whether it has found a replica of the primary."""
        with connected(self.url) as client:
            return bool(client.execute_command("SENTINEL REPLICAS", PRIMARY))

    def _prepare(self) -> None:
        """Write its file: it wants one that it may write to."""
        lines = (
            f"sentinel monitor {PRIMARY} {self._host} {self._watched} 1",
            f"sentinel down-after-milliseconds {PRIMARY} 1000",
            f"sentinel failover-timeout {PRIMARY} 3000",
        )
        (self.folder / "sentinel.conf").write_text("".join(f"{line}\n" for line in lines))

    def _command(self) -> list[str]:
        options = ("--port", str(self._ports["client"].number), "--bind", "127.0.0.1", "--dir", str(self.folder))
        return [str(self._binary), str(self.folder / "sentinel.conf"), "--sentinel", *options]


def progress(client: Any) -> int:
    """How far the facts of all shards reach in input partition 0."""
    return min(int(client.hget(key, "p0")) for key in client.scan_iter(match="*:meta", count=1_000))


def records_read(instance: Instance) -> int:
    """How many records an instance has read, those that it read twice counted twice."""
    counted = re.search(r"^location_monitor_records_total (\S+)$", instance.page(), re.MULTILINE)
    return int(float(counted[1])) if counted else 0


@pytest.fixture
def impatient_store(valkey: EmbeddedValkey) -> Iterator[EmbeddedValkey]:
    """A primary that gives up a replica which has been silent for some seconds, instead of sending on."""
    with EmbeddedValkey(ValkeySettings(arguments=("--repl-timeout", "2", "--repl-ping-replica-period", "1"))) as server:
        yield server


def test_sentinel_promotes_a_replica_that_lags(
    kafka: EmbeddedKafka, impatient_store: EmbeddedValkey, make_scene: MakeScene
) -> None:
    """Progress tells what the replica lacks, and that is read again before anything is called safe.

    primary  ├── facts ──────────────────────────┤ killed
    replica  ├── facts ┤ stopped, and given up     ├── goes on, promoted by Sentinel, some seconds behind
    proxy    ├── leads to the primary ─────────────────┤ leads where Sentinel says
    """
    host, port = address_of(impatient_store.url)
    with ExitStack() as stack:
        replica = stack.enter_context(EmbeddedValkey(ValkeySettings(arguments=("--replicaof", f"{host} {port}"))))
        primary = stack.enter_context(connected(impatient_store.url))
        until(lambda: primary.info("replication")["connected_slaves"] == 1, 20, "the replica follows")
        sentinel = stack.enter_context(Sentinel(impatient_store))
        until(lambda: sentinel.knows_a_replica, 20, "Sentinel has found the replica")
        proxy = stack.enter_context(closing(Forwarder(sentinel.named)))
        scene = make_scene(
            kafka.bootstrap_servers, f"redis://127.0.0.1:{proxy.port}/0", Shape(inputs=1, ledger_partitions=1)
        )
        instance = scene.start()
        scene.subscriber.wait_whole()
        replica.pause()
        until(lambda: primary.info("replication")["connected_slaves"] == 0, 20, "the primary has given it up")
        scene.subscriber.wait_new()
        reached = progress(primary)
        impatient_store.kill()
        replica.resume()
        promoted = stack.enter_context(connected(replica.url))
        until(lambda: sentinel.named == address_of(replica.url), 30, "Sentinel has promoted the replica")
        assert progress(promoted) < reached
        proxy.turn(sentinel.named)
        scene.subscriber.wait_whole(60)
        assert progress(promoted) >= reached
        # The input has one partition, read from offset 0 on: more records than its offsets are records read again.
        until(lambda: records_read(instance) > progress(promoted), 20, "records are read again")
        verdict = scene.settle(instance)
    assert verdict.broken == []
    assert verdict.count("safe") > 0
