"""Redis on several servers: a cluster that loses a node, and a failover by Sentinel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import pytest

from monitor.operate.servers import EmbeddedValkey, ValkeySettings
from tests.faults.conftest import MakeTown
from tests.faults.oracles import settle
from tests.faults.town import Shape
from tests.kit.network import parse_address
from tests.kit.processes import Instance
from tests.kit.waiting import until
from tests.redis_cluster import SLOTS, connect, join_nodes
from tests.shared_kafka import SharedKafka

NODES: Final = 3
LASTING_NODE: Final = ValkeySettings(
    appendonly=True, cluster=True, arguments=("--appendfsync", "always", "--cluster-node-timeout", "1000")
)
PRIMARY: Final = "town"


def state(client: Any) -> tuple[str, str]:
    """Return the cluster's state by a node, and the number of nodes that it knows."""
    info = client.cluster("INFO")
    return info["cluster_state"], info["cluster_known_nodes"]


def count_shards(node: EmbeddedValkey) -> int:
    """Return the number of the service's shards on a node."""
    with connect(node) as client:
        return sum(1 for _ in client.scan_iter(match="*:meta", count=1_000))


@pytest.fixture
def cluster(valkey: EmbeddedValkey) -> Iterator[list[EmbeddedValkey]]:
    """A cluster that the test may break. It writes each command to disk and requires all slots (the default)."""
    with ExitStack() as stack:
        nodes = [stack.enter_context(EmbeddedValkey(LASTING_NODE)) for _ in range(NODES)]
        join_nodes(nodes, [range(SLOTS * number // NODES, SLOTS * (number + 1) // NODES) for number in range(NODES)])
        yield nodes


def test_cluster_loses_and_regains_node(kafka: SharedKafka, cluster: list[EmbeddedValkey], make_town: MakeTown) -> None:
    """While a node is down, answers are unknown; afterwards, reading continues from the node's stored progress.

    nodes 1, 2  ├── facts ───────┤ refuse  ├── facts ──┤
    node 3      ├── facts ───────┤ killed  ├── continues from its append-only file
    answers     ├── known ───────┤ unknown ├── known ──┤
    """
    town = make_town(kafka.bootstrap_servers, cluster[0].url, Shape(inputs=1, ledger_partitions=1, cluster=True))
    instance = town.start()
    town.subscriber.wait_complete()
    *others, lost = sorted(cluster, key=count_shards)
    assert count_shards(lost) > 0
    lost.kill()
    with connect(others[0]) as client:
        until(lambda: state(client)[0] == "fail", 20, "the others detect the loss")
    since = town.now() + 1
    last = town.subscriber.wait_tick(since + 1)
    statuses = {status for (_, tick), status in town.subscriber.statuses("edges", since).items() if tick <= last}
    assert "unknown" in statuses
    assert statuses <= {"unknown", "paused"}
    lost.restart()
    town.subscriber.wait_complete(60)
    assert 'recoveries_total{cause="no_progress"} 1.0' in instance.page()
    verdict = settle(town, instance)
    assert verdict.broken == []
    assert verdict.count("safe") > 0


class Sentinel(EmbeddedValkey):
    """One of the Sentinels of a primary. Two of them must agree that it is lost."""

    name = "Sentinel"

    def __init__(self, primary: EmbeddedValkey) -> None:
        super().__init__()
        self._host, self._watched = parse_address(primary.url)

    @property
    def primary(self) -> tuple[str, int]:
        """The address of the primary, by Sentinel."""
        with connect(self) as client:
            host, port = client.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", PRIMARY)
            return (host.decode() if isinstance(host, bytes) else host), int(port)

    @property
    def is_ready(self) -> bool:
        """Whether it has found a replica of the primary and the two other Sentinels."""
        with connect(self) as client:
            others = client.execute_command("SENTINEL SENTINELS", PRIMARY)
            return len(others) == 2 and bool(client.execute_command("SENTINEL REPLICAS", PRIMARY))

    def _prepare(self) -> None:
        """Write the configuration file, which Sentinel needs to be writable."""
        lines = (
            f"sentinel monitor {PRIMARY} {self._host} {self._watched} 2",
            f"sentinel down-after-milliseconds {PRIMARY} 1000",
            f"sentinel failover-timeout {PRIMARY} 3000",
        )
        (self.folder / "sentinel.conf").write_text("".join(f"{line}\n" for line in lines))

    def _make_command(self) -> list[str]:
        options = ("--port", str(self._ports["client"].number), "--bind", "127.0.0.1", "--dir", str(self.folder))
        return [str(self._binary), str(self.folder / "sentinel.conf"), "--sentinel", *options]


def read_progress(client: Any) -> int:
    """Return the lowest progress of all shards in input partition 0."""
    return min(int(client.hget(key, "p0")) for key in client.scan_iter(match="*:meta", count=1_000))


def count_records_read(instance: Instance) -> int:
    """Return the number of records that an instance has read. A record that is read twice counts twice."""
    match = re.search(r"^location_monitor_records_total (\S+)$", instance.page(), re.MULTILINE)
    return int(float(match[1])) if match else 0


@pytest.fixture
def impatient_store(valkey: EmbeddedValkey) -> Iterator[EmbeddedValkey]:
    """A primary that disconnects a replica after two silent seconds."""
    with EmbeddedValkey(ValkeySettings(arguments=("--repl-timeout", "2", "--repl-ping-replica-period", "1"))) as server:
        yield server


@pytest.mark.promise(6)
def test_sentinel_promotes_lagging_replica(
    kafka: SharedKafka, impatient_store: EmbeddedValkey, make_town: MakeTown
) -> None:
    """After Sentinels promote a lagging replica, the missing facts are read again before any answer is "safe".

    primary  ├── facts ──────────────────────────┤ killed
    replica  ├── facts ┤ stopped, disconnected     ├── continues, promoted by the Sentinels, some seconds behind
    service  ├── asks the Sentinels, uses the primary ──┤ asks them again, uses the promoted replica
    """
    host, port = parse_address(impatient_store.url)
    with ExitStack() as stack:
        replica = stack.enter_context(EmbeddedValkey(ValkeySettings(arguments=("--replicaof", f"{host} {port}"))))
        primary = stack.enter_context(connect(impatient_store))
        until(lambda: primary.info("replication")["connected_slaves"] == 1, 20, "the replica follows")
        sentinels = [stack.enter_context(Sentinel(impatient_store)) for _ in range(3)]
        until(lambda: all(one.is_ready for one in sentinels), 20, "the Sentinels have found each other and the replica")
        addresses = [":".join(map(str, parse_address(sentinel.url))) for sentinel in sentinels]
        changes = {"redis": {"url": f"redis://{PRIMARY}/0", "sentinels": addresses}}
        town = make_town(kafka.bootstrap_servers, "", Shape(inputs=1, ledger_partitions=1, changes=changes))
        instance = town.start()
        town.subscriber.wait_complete()
        replica.pause()
        until(lambda: primary.info("replication")["connected_slaves"] == 0, 20, "the primary has disconnected it")
        town.subscriber.wait_new()
        reached = read_progress(primary)
        impatient_store.kill()
        replica.resume()
        promoted = stack.enter_context(connect(replica))
        until(lambda: sentinels[0].primary == parse_address(replica.url), 30, "the replica is promoted")
        assert read_progress(promoted) < reached
        town.subscriber.wait_complete(60)
        assert read_progress(promoted) >= reached
        # The input has one partition, read from offset 0 on. Records beyond its offsets were read again.
        until(lambda: count_records_read(instance) > read_progress(promoted), 20, "records are read again")
        verdict = settle(town, instance)
    assert verdict.broken == []
    assert verdict.count("safe") > 0
