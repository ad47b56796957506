"""Three brokers, of which any one may be missing: replication factor 3, at least two in sync, three controllers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from typing import Any, Final

import pytest
from kafka.errors import KafkaError

from monitor.errors import UnreachableError
from monitor.tools.embedded import EmbeddedKafka, EmbeddedValkey, NodeSettings
from monitor.tools.embedded.kafka import Quorum
from tests.faults.conftest import MakeScene
from tests.faults.processes import until
from tests.faults.town import Shape, Town

NODES: Final = (1, 2, 3)
REPLICATED: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "replica.lag.time.max.ms": "2000",
    "process.roles": "broker,controller",
}


def free_ports(how_many: int) -> list[int]:
    """Ports that nobody listens on, all different."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(socket.socket())) for _ in range(how_many)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def nodes() -> list[NodeSettings]:
    """Three that are each a broker and a controller: any two of them elect the controller that acts."""
    ports = free_ports(2 * len(NODES))
    clients, controllers = dict(zip(NODES, ports, strict=False)), dict(zip(NODES, ports[len(NODES) :], strict=True))
    quorum = Quorum("c2FmZS10aHJlZS1ub2Rlcw", ",".join(f"{n}@127.0.0.1:{controllers[n]}" for n in NODES))
    listeners = {n: f"PLAINTEXT://127.0.0.1:{clients[n]},CONTROLLER://127.0.0.1:{controllers[n]}" for n in NODES}
    return [
        NodeSettings({**REPLICATED, "listeners": listeners[n]}, port=clients[n], node_id=n, quorum=quorum)
        for n in NODES
    ]


@pytest.fixture(scope="module")
def brokers(kafka: EmbeddedKafka) -> Iterator[list[EmbeddedKafka]]:
    """Three of this module's own. None is up before two are, so that they start at once."""
    servers = [EmbeddedKafka(settings) for settings in nodes()]
    with ExitStack() as stack, ThreadPoolExecutor(len(servers)) as pool:
        for server in servers:
            stack.callback(server.stop)
        list(pool.map(EmbeddedKafka.start, servers))
        yield servers


WHOLE_SECONDS: Final = 120  # a broker's session, the others' election, and what was open is given up and taken over
SOAK = pytest.mark.soak


@pytest.mark.timeout(900)
@pytest.mark.parametrize("taken", [pytest.param(NODES[:1], id="first"), pytest.param(NODES, id="each", marks=SOAK)])
def test_a_broker_is_taken_away_others_lead_and_it_comes_back(
    taken: tuple[int, ...], brokers: list[EmbeddedKafka], store: EmbeddedValkey, make_scene: MakeScene
) -> None:
    """What it led is led by another that has all that was acknowledged: of the input, the ledger, both groups.

    An instance that starts meanwhile finds the others, although the first of its bootstrap servers may be the one.

    broker 1  ├── leads ──┤ killed ............. ├── follows ──┤
    broker 2  ├── follows ── leads ──────────────────────┤ killed ...... ├──
    """
    servers = ",".join(broker.bootstrap_servers for broker in brokers)
    scene = make_scene(servers, store.url, Shape(inputs=6, ledger_partitions=3, shards=6, replication=3))
    instance = scene.start()
    scene.subscriber.wait_whole(60)
    for node in taken:
        until(partial(leads, scene.town, node), 60, f"broker {node} leads some partition")
        brokers[node - 1].kill()
        until(partial(led_by_others, scene.town, node), 60, "others lead")
        scene.subscriber.wait_whole(WHOLE_SECONDS)
        instance.kill()
        instance = scene.start()
        scene.subscriber.wait_whole(WHOLE_SECONDS)
        brokers[node - 1].restart()
        until(lambda: in_sync(scene.town) == len(NODES), 90, "all replicas are in sync again")
    verdict = scene.settle(instance)
    assert verdict.broken == []
    assert verdict.count("safe") > 0


def described(town: Town) -> list[dict[str, Any]]:
    """Every partition of the input and of the ledger; nothing while the brokers can't tell."""
    try:
        with town.admin() as admin:
            found = admin.describe_topics([town.topics.visits, town.topics.alerts])
    except (KafkaError, UnreachableError):
        return []
    return [partition for topic in found for partition in topic["partitions"]]


def leaders(town: Town) -> set[int]:
    """The nodes that lead some partition."""
    return {partition["leader_id"] for partition in described(town)}


def leads(town: Town, node: int) -> bool:
    """Whether this node leads some partition."""
    return node in leaders(town)


def in_sync(town: Town) -> int:
    """The fewest replicas in sync that any partition has."""
    return min((len(partition["isr_nodes"]) for partition in described(town)), default=0)


def led_by_others(town: Town, node: int) -> bool:
    """Whether every partition has a leader, and none is this node."""
    found = leaders(town)
    return bool(found) and not found & {node, -1}
