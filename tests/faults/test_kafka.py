"""Faults of Kafka: no tick is answered twice, and no acknowledged visit is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from monitor.stop_times import STOP_SECONDS
from monitor.tools.servers import EmbeddedKafka, EmbeddedValkey
from tests.faults import steps
from tests.faults.conftest import MakeScene, Scene
from tests.faults.steps import Step, Walk
from tests.kit.waiting import until


def add_output_partitions(walk: Walk, _step: Step) -> None:
    """Add partitions. Shards stay in their partitions, also after takeovers: the ledger's first record fixes Q.

    partitions  ├── 2 ──┼── 4, of which two have no shard ──────────
    1st         ├───────────┤ killed
    2nd                      ├─ starts ─────────────┤ killed
    3rd                                  ├─ joins ──── has all ─────
    """
    scene = walk.scene
    with scene.town.admin() as admin:
        admin.create_partitions({scene.town.topics.alerts: 4})
    walk.running[0].kill()
    second = scene.start()
    scene.subscriber.wait_complete(60)
    third = scene.start()
    until(lambda: '"ok": true' in third.page("/readyz"), 40, "it has joined")
    scene.subscriber.wait_complete(60)
    second.kill()


def let_reading_lag(walk: Walk, _step: Step) -> None:
    """Stop the only instance for more than F + 2 slots, so that it reads old records later.

    The stamp decides a visit's fate: an arrival more than accept_ahead after it makes a dead letter, even if that slot
    has begun at the time of reading, and a departure is cut F slots after it.
    """
    town, instance = walk.scene.town, walk.running[0]
    instance.pause()
    since = town.now()
    until(lambda: town.now() > since + town.settings.parameters.max_lead + 2, 30, "slots pass by")
    instance.resume()


def open_transaction(walk: Walk, _step: Step) -> None:
    """Hide acknowledged visits behind an open transaction: answers are unknown until it ends."""
    scene, town = walk.scene, walk.scene.town
    with closing(town.settings.kafka.create_producer(transactional_id=f"{town.name}-open")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for partition in range(town.shape.inputs):
            producer.send(town.topics.visits, value=b"never committed", partition=partition).get(timeout=10)
        since = town.now() + 1
        scene.subscriber.wait_tick(since + 1)
        statuses = {value["status"] for value in list(scene.subscriber.values) if value["tick"] > since}
        assert statuses <= {"unknown", "paused"}
        producer.abort_transaction()


def refuse_answers(walk: Walk, _step: Step) -> None:
    """Make the ledger refuse records for a while. Producers in a fatal state are replaced until one succeeds."""
    scene = walk.scene
    resize(scene, scene.town.topics.alerts, 100)
    last = scene.subscriber.last_tick
    until(lambda: "taken over again" in walk.running[0].text.rpartition("runs:")[2], 30, "a tick was refused")
    assert scene.subscriber.last_tick <= last + 2
    resize(scene, scene.town.topics.alerts, 1_048_588)


def refuse_dead_letters(walk: Walk, _step: Step) -> None:
    """Make the topic of dead letters refuse a record. Progress may not pass its invalid visit."""
    scene = walk.scene
    resize(scene, scene.town.topics.dead_letters, 50)
    until(lambda: "reading pauses" in walk.running[0].text, 30, "a dead letter was refused")
    resize(scene, scene.town.topics.dead_letters, 1_048_588)


FAULTS = {
    fault.__name__: fault
    for fault in (
        steps.restart_kafka,
        steps.pause_kafka,
        steps.add_an_input_partition,
        add_output_partitions,
        let_reading_lag,
        open_transaction,
        refuse_answers,
        refuse_dead_letters,
    )
}


def resize(scene: Scene, topic: str, max_message_bytes: int) -> None:
    """Change the maximum size of a topic's batches."""
    with scene.town.admin() as admin:
        settings = {"max.message.bytes": str(max_message_bytes)}
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=settings)])


@pytest.fixture(scope="module")
def broker(kafka: EmbeddedKafka) -> Iterator[EmbeddedKafka]:
    """A Kafka that the tests of this module may break."""
    with EmbeddedKafka() as server:
        yield server


@pytest.fixture(scope="module")
def walk(broker: EmbeddedKafka, store: EmbeddedValkey, make_module_scene: MakeScene) -> Walk:
    """A service that runs through all faults without a restart."""
    walk = Walk(make_module_scene(broker.bootstrap_servers, store.url), broker, store)
    walk.start()
    walk.scene.subscriber.wait_complete()
    return walk


@pytest.mark.promise(24)
@pytest.mark.parametrize("fault", FAULTS)
def test_kafka_fault_breaks_no_promise(fault: str, walk: Walk) -> None:
    """After the fault, the service recovers without a restart, and no answer is false."""
    instances = len(walk.scene.town.instances)
    FAULTS[fault](walk, Step.alone(fault))
    walk.rest()
    assert fault == "add_output_partitions" or len(walk.scene.town.instances) == instances
    assert len(walk.running) == 1


@pytest.mark.promise(13, 25, 26, 28)
def test_promises_after_kafka_faults(walk: Walk) -> None:
    """After all faults of Kafka, no promise is broken."""
    verdict = walk.scene.settle(walk.running[0])
    assert verdict.broken == []
    assert verdict.count("safe") > 0
    assert verdict.report.noisy > 0


def test_stop_while_servers_hang(walk: Walk, broker: EmbeddedKafka, store: EmbeddedValkey) -> None:
    """An instance that is stopped while Kafka and Redis do not answer ends by itself, within the time for a stop."""
    instance = walk.start()
    until(lambda: '"ok": true' in instance.page("/readyz"), 60, "it is ready")
    broker.pause()
    store.pause()
    began = time.monotonic()
    try:
        assert instance.terminate(STOP_SECONDS) == 0
    finally:
        print(f"stopped after {time.monotonic() - began:.1f} s")
        store.resume()
        broker.resume()
