"""Three brokers, of which any one may be missing: replication factor 3, at least two in sync."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from kafka.errors import KafkaError

from monitor.embedded import EmbeddedKafka, EmbeddedValkey, KafkaSettings
from monitor.errors import UnreachableError
from tests.faults.conftest import MakeScene
from tests.faults.processes import until
from tests.faults.town import Shape, Town

REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "replica.lag.time.max.ms": "2000",
}


@pytest.fixture(scope="module")
def brokers(kafka: EmbeddedKafka) -> Iterator[list[EmbeddedKafka]]:
    """Three of this module's own; the first is also the controller."""
    with ExitStack() as stack:
        first = stack.enter_context(EmbeddedKafka(KafkaSettings(properties=REPLICATED)))
        joining = [KafkaSettings(properties=REPLICATED, node_id=n, quorum=first.quorum) for n in (2, 3)]
        yield [first, *(stack.enter_context(EmbeddedKafka(settings)) for settings in joining)]


@pytest.mark.parametrize("places", [(2,), pytest.param((2, 1, 2), marks=pytest.mark.soak)], ids=["one", "in turn"])
def test_a_broker_is_taken_away_others_lead_and_it_comes_back(
    places: tuple[int, ...], brokers: list[EmbeddedKafka], store: EmbeddedValkey, make_scene: MakeScene
) -> None:
    """What it led is led by another that has all that was acknowledged: of the input, the ledger, both groups.

    broker 3  ├── leads ──┤ killed ......... ├── follows ──┤
    broker 2  ├── follows ── leads ──────────┤ killed ...... ├──
    """
    servers = ",".join(broker.bootstrap_servers for broker in brokers)
    scene = make_scene(servers, store.url, Shape(inputs=6, queues=3, replication=3))
    instance = scene.start()
    scene.subscriber.wait_whole(60)
    for taken in (brokers[place] for place in places):
        node = brokers.index(taken) + 1
        until(lambda: leaders(scene.town), 20, "leaders are known")
        taken.kill()
        until(partial(led_by_others, scene.town, node), 60, "others lead")
        scene.subscriber.wait_whole(90)
        taken.restart()
        until(lambda: in_sync(scene.town) == 3, 90, "all replicas are in sync again")
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


def in_sync(town: Town) -> int:
    """The fewest replicas in sync that any partition has."""
    return min((len(partition["isr_nodes"]) for partition in described(town)), default=0)


def led_by_others(town: Town, node: int) -> bool:
    """Whether every partition has a leader, and none is this node."""
    found = leaders(town)
    return bool(found) and not found & {node, -1}
