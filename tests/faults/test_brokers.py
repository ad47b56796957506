"""Three brokers, any one of which may be down: replication factor 3, at least two in sync, three controllers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

import pytest
from kafka.errors import KafkaError

from monitor.errors import UnreachableError
from monitor.operate.servers import EmbeddedKafka, EmbeddedValkey, NodeSettings
from monitor.operate.servers.kafka import Quorum
from tests.faults.conftest import MakeTown
from tests.faults.oracles import settle
from tests.faults.town import FaultTown, Shape
from tests.kit.network import find_free_ports
from tests.kit.waiting import until
from tests.shared_kafka import SharedKafka

NODES: Final = (1, 2, 3)
REPLICATED: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "replica.lag.time.max.ms": "2000",
    # A busy machine may fence a broker for a moment. It then leads no partition until Kafka looks for an imbalance.
    "leader.imbalance.check.interval.seconds": "5",
    "process.roles": "broker,controller",
}


def make_nodes() -> list[NodeSettings]:
    """Return three nodes, each a broker and a controller. Any two of them elect the active controller."""
    ports = find_free_ports(2 * len(NODES))
    clients, controllers = dict(zip(NODES, ports, strict=False)), dict(zip(NODES, ports[len(NODES) :], strict=True))
    quorum = Quorum("c2FmZS10aHJlZS1ub2Rlcw", ",".join(f"{n}@127.0.0.1:{controllers[n]}" for n in NODES))
    listeners = {n: f"PLAINTEXT://127.0.0.1:{clients[n]},CONTROLLER://127.0.0.1:{controllers[n]}" for n in NODES}
    return [
        NodeSettings({**REPLICATED, "listeners": listeners[n]}, port=clients[n], node_id=n, quorum=quorum)
        for n in NODES
    ]


@pytest.fixture(scope="module")
def brokers(kafka: SharedKafka) -> Iterator[list[EmbeddedKafka]]:
    """Three brokers for this module. They start together, because none is up before two are."""
    servers = [EmbeddedKafka(settings) for settings in make_nodes()]
    with ExitStack() as stack, ThreadPoolExecutor(len(servers)) as pool:
        for server in servers:
            stack.callback(server.stop)
        list(pool.map(EmbeddedKafka.start, servers))
        yield servers


COMPLETE_SECONDS: Final = 120  # the broker's session, an election, and the takeover after open transactions are aborted
SOAK = pytest.mark.soak


@pytest.mark.timeout(900)
@pytest.mark.parametrize("taken", [pytest.param(NODES[:1], id="first"), pytest.param(NODES, id="each", marks=SOAK)])
def test_service_survives_loss_of_a_broker(
    taken: tuple[int, ...], brokers: list[EmbeddedKafka], store: EmbeddedValkey, make_town: MakeTown
) -> None:
    """After the loss of any broker, others lead its partitions with all acknowledged records, and the service answers.

    An instance that starts meanwhile finds the other brokers, although its first bootstrap server may be down.

    broker 1  ├── leads ──┤ killed ............. ├── follows ──┤
    broker 2  ├── follows ── leads ──────────────────────┤ killed ...... ├──
    """
    servers = ",".join(broker.bootstrap_servers for broker in brokers)
    town = make_town(servers, store.url, Shape(inputs=6, ledger_partitions=3, shards=6, replication=3))
    instance = town.start()
    town.subscriber.wait_complete(60)
    for node in taken:
        until(partial(leads, town, node), 60, f"broker {node} leads some partition")
        brokers[node - 1].kill()
        until(partial(is_led_by_others, town, node), 60, "others lead")
        town.subscriber.wait_complete(COMPLETE_SECONDS)
        instance.kill()
        instance = town.start()
        town.subscriber.wait_complete(COMPLETE_SECONDS)
        brokers[node - 1].restart()
        until(lambda: count_in_sync(town) == len(NODES), 90, "all replicas are in sync again")
    verdict = settle(town, instance)
    assert verdict.broken == []
    assert verdict.count("safe") > 0


def describe_partitions(town: FaultTown) -> list[dict[str, Any]]:
    """Return every partition of the input and of the ledger; nothing while the brokers do not answer."""
    try:
        with town.admin() as admin:
            topics = admin.describe_topics([town.topics.visits, town.topics.alerts])
    except (KafkaError, UnreachableError):
        return []
    return [partition for topic in topics for partition in topic["partitions"]]


def find_leaders(town: FaultTown) -> set[int]:
    """Return the nodes that lead some partition."""
    return {partition["leader_id"] for partition in describe_partitions(town)}


def leads(town: FaultTown, node: int) -> bool:
    """Return whether this node leads some partition."""
    return node in find_leaders(town)


def count_in_sync(town: FaultTown) -> int:
    """Return the lowest number of in-sync replicas of any partition."""
    return min((len(partition["isr_nodes"]) for partition in describe_partitions(town)), default=0)


def is_led_by_others(town: FaultTown, node: int) -> bool:
    """Return whether every partition has a leader other than this node."""
    nodes = find_leaders(town)
    return bool(nodes) and not nodes & {node, -1}
