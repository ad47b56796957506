"""Faults of Kafka: no tick is answered twice, and no acknowledged visit is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from monitor.stop_times import STOP_SECONDS
from monitor.tools.servers import EmbeddedKafka, EmbeddedValkey
from tests.faults.conftest import MakeScene, Scene
from tests.faults.oracles import judge
from tests.kit.processes import Instance
from tests.kit.waiting import until

Fault = Callable[[EmbeddedKafka, Scene], None]


def restart(kafka: EmbeddedKafka, _scene: Scene) -> None:
    """Kill the broker and restart it with its data."""
    kafka.kill()
    kafka.restart()


def pause(kafka: EmbeddedKafka, _scene: Scene) -> None:
    """Keep connections open and answer nothing for two slots."""
    kafka.pause()
    try:
        time.sleep(4)  # the duration is part of the fault, so there is no condition to wait for
    finally:
        kafka.resume()


def add_input_partitions(_kafka: EmbeddedKafka, scene: Scene) -> None:
    """Add partitions. Visits go to them before the readers know them."""
    with scene.town.admin() as admin:
        admin.create_partitions({scene.town.topics.visits: 5})


def add_output_partitions(_kafka: EmbeddedKafka, scene: Scene) -> None:
    """Add partitions. Shards stay in their partitions, also after takeovers: the ledger's first record fixes Q.

    partitions  ├── 2 ──┼── 4, of which two have no shard ──────────
    1st         ├───────────┤ killed
    2nd                      ├─ starts ─────────────┤ killed
    3rd                                  ├─ joins ──── has all ─────
    """
    with scene.town.admin() as admin:
        admin.create_partitions({scene.town.topics.alerts: 4})
    find_running(scene).kill()
    second = scene.start()
    scene.subscriber.wait_complete(60)
    third = scene.start()
    until(lambda: '"ok": true' in third.page("/readyz"), 40, "it has joined")
    scene.subscriber.wait_complete(60)
    second.kill()


def let_reading_lag(_kafka: EmbeddedKafka, scene: Scene) -> None:
    """Stop the only instance for more than F + 2 slots, so that it reads old records later.

    The stamp decides a visit's fate: an arrival more than accept_ahead after it makes a dead letter, even if that slot
    has begun at the time of reading, and a departure is cut F slots after it.
    """
    town, instance = scene.town, find_running(scene)
    instance.pause()
    since = town.now()
    until(lambda: town.now() > since + town.settings.parameters.max_lead + 2, 30, "slots pass by")
    instance.resume()


def open_transaction(_kafka: EmbeddedKafka, scene: Scene) -> None:
    """Hide acknowledged visits behind an open transaction: answers are unknown until it ends."""
    town = scene.town
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


def refuse_answers(_kafka: EmbeddedKafka, scene: Scene) -> None:
    """Make the ledger refuse records for a while. Producers in a fatal state are replaced until one succeeds."""
    resize(scene, scene.town.topics.alerts, 100)
    last = scene.subscriber.last_tick
    until(lambda: "taken over again" in find_running(scene).text.rpartition("runs:")[2], 30, "a tick was refused")
    assert scene.subscriber.last_tick <= last + 2
    resize(scene, scene.town.topics.alerts, 1_048_588)


def refuse_dead_letters(_kafka: EmbeddedKafka, scene: Scene) -> None:
    """Make the topic of dead letters refuse a record. Progress may not pass its invalid visit."""
    resize(scene, scene.town.topics.dead_letters, 50)
    until(lambda: "reading pauses" in find_running(scene).text, 30, "a dead letter was refused")
    resize(scene, scene.town.topics.dead_letters, 1_048_588)


FAULTS: dict[str, Fault] = {
    fault.__name__: fault
    for fault in (
        restart,
        pause,
        add_input_partitions,
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


def find_running(scene: Scene) -> Instance:
    return next(instance for instance in scene.town.instances if instance.code is None)


@pytest.fixture(scope="module")
def broker(kafka: EmbeddedKafka) -> Iterator[EmbeddedKafka]:
    """A Kafka that the tests of this module may break."""
    with EmbeddedKafka() as server:
        yield server


@pytest.fixture(scope="module")
def scene(broker: EmbeddedKafka, store: EmbeddedValkey, make_module_scene: MakeScene) -> Scene:
    """A service that runs through all faults without a restart."""
    scene = make_module_scene(broker.bootstrap_servers, store.url)
    scene.start()
    scene.subscriber.wait_complete()
    return scene


@pytest.mark.promise(24)
@pytest.mark.parametrize("fault", FAULTS)
def test_kafka_fault_breaks_no_promise(fault: str, scene: Scene, broker: EmbeddedKafka) -> None:
    """After the fault, the service recovers without a restart, and no answer is false."""
    FAULTS[fault](broker, scene)
    scene.subscriber.wait_complete(90)
    assert judge(scene.town).broken == []


@pytest.mark.promise(13, 25, 26, 28)
def test_promises_after_kafka_faults(scene: Scene) -> None:
    """After all faults of Kafka, no promise is broken."""
    verdict = scene.settle(find_running(scene))
    assert verdict.broken == []
    assert verdict.count("safe") > 0
    assert verdict.report.noisy > 0


def test_stop_while_servers_hang(scene: Scene, broker: EmbeddedKafka, store: EmbeddedValkey) -> None:
    """An instance that is stopped while Kafka and Redis do not answer ends by itself, within the time for a stop."""
    instance = scene.start()
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
