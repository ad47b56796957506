"""Faults of Redis: facts are read again from the input, answers are unknown meanwhile, and no answer is false."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest
import redis

from monitor.kafka.topics import list_topic_needs
from monitor.service.preflight import run_preflight
from monitor.service.service import create_windows
from monitor.tools.servers import EmbeddedValkey, ValkeySettings
from tests.faults.conftest import MakeScene, Scene
from tests.faults.forwarder import Forwarder, parse_address
from tests.faults.oracles import judge
from tests.faults.town import Shape
from tests.kit.processes import Instance
from tests.kit.waiting import until
from tests.shared_kafka import SharedKafka

Fault = Callable[[EmbeddedValkey, Scene], None]

NOWHERE = ("127.0.0.1", 1)


@contextmanager
def connect(url: str) -> Iterator[redis.Redis]:
    with closing(redis.Redis.from_url(url)) as client:
        yield client


def restart(store: EmbeddedValkey, _scene: Scene) -> None:
    """Kill the store and start it empty."""
    store.kill()
    store.restart()


def flush(store: EmbeddedValkey, _scene: Scene) -> None:
    with connect(store.url) as client:
        client.flushall()


def flush_twice(store: EmbeddedValkey, scene: Scene) -> None:
    """Flush the store again while the lost facts are being read again."""
    flush(store, scene)
    scene.subscriber.wait_new()
    flush(store, scene)


def flush_scripts(store: EmbeddedValkey, _scene: Scene) -> None:
    with connect(store.url) as client:
        client.script_flush()


def run_out_of_memory(store: EmbeddedValkey, scene: Scene) -> None:
    """Let the store run out of memory for a slot or two."""
    with connect(store.url) as client:
        client.config_set("maxmemory", "1")
        scene.subscriber.wait_new()
        client.config_set("maxmemory", "0")


def become_read_only(store: EmbeddedValkey, scene: Scene) -> None:
    """Make the store a replica of an absent primary, then a primary again."""
    with connect(store.url) as client:
        client.config_set("replica-serve-stale-data", "yes")
        client.replicaof("127.0.0.1", "1")
        scene.subscriber.wait_new()
        client.replicaof("NO", "ONE")


def delete_half(store: EmbeddedValkey, _scene: Scene) -> None:
    """Delete every second meta key, as an operator may by mistake."""
    with connect(store.url) as client:
        metas = sorted(client.scan_iter(match="*:meta", count=1_000))
        client.delete(*metas[::2])


def pause(store: EmbeddedValkey, scene: Scene) -> None:
    """Keep connections open and answer nothing for two slots."""
    store.pause()
    try:
        time.sleep(4)  # the duration is part of the fault, so there is no condition to wait for
    finally:
        store.resume()


def spoil_a_key(store: EmbeddedValkey, scene: Scene) -> None:
    """Make a data command fail within its transaction, until the keys are deleted. Progress must not advance."""
    with connect(store.url) as client:
        key = min(client.scan_iter(match="*:w:*", count=1_000))
        client.delete(key)
        client.set(key, "not ours")
        until(lambda: "has data of another program" in find_running(scene).text, 40, "it is noticed")
        scene.subscriber.wait_new()
        tag = key.partition(b"}")[0].decode()
        client.delete(*client.scan_iter(match=f"{tag}*", count=1_000))


def evict_by_a_fast_clock(_store: EmbeddedValkey, scene: Scene) -> None:
    """Evict present facts, as an instance with a fast clock would: answers are unknown until a window has passed."""
    town = scene.town
    wanted = list_topic_needs(town.settings.parameters, town.settings.config.kafka)
    preflight = run_preflight(town.settings.kafka, town.settings.parameters, wanted, town.topics.alerts)
    with closing(create_windows(town.settings, preflight)) as windows:
        windows.evict(range(4), town.now() + 2, [], [])


FAULTS: dict[str, Fault] = {
    fault.__name__: fault
    for fault in (
        restart,
        flush,
        flush_twice,
        flush_scripts,
        run_out_of_memory,
        become_read_only,
        delete_half,
        pause,
        spoil_a_key,
        evict_by_a_fast_clock,
    )
}


@pytest.fixture(scope="module")
def broken_store(valkey: EmbeddedValkey) -> Iterator[EmbeddedValkey]:
    with EmbeddedValkey() as server:
        yield server


@pytest.fixture(scope="module")
def scene(kafka: SharedKafka, broken_store: EmbeddedValkey, make_module_scene: MakeScene) -> Scene:
    """A service that runs through all faults without a restart."""
    scene = make_module_scene(kafka.bootstrap_servers, broken_store.url)
    scene.start()
    scene.subscriber.wait_complete()
    return scene


def find_running(scene: Scene) -> Instance:
    return next(instance for instance in scene.town.instances if instance.code is None)


@pytest.mark.parametrize("fault", FAULTS)
def test_redis_fault_breaks_no_promise(fault: str, scene: Scene, broken_store: EmbeddedValkey) -> None:
    """After the fault, the service recovers without a restart, and no answer is false."""
    FAULTS[fault](broken_store, scene)
    scene.subscriber.wait_complete(60)
    assert judge(scene.town).broken == []


@pytest.mark.promise(6)
def test_promises_after_redis_faults(scene: Scene) -> None:
    """After all faults of Redis, no promise is broken."""
    verdict = scene.settle(find_running(scene))
    assert verdict.broken == []
    assert verdict.count("safe") > 0
    assert verdict.report.noisy > 0


def test_persisted_facts_are_not_read_again(
    kafka: SharedKafka, lasting_store: EmbeddedValkey, make_scene: MakeScene
) -> None:
    """With an append-only file that is written at once, facts survive a kill and are not read again."""
    scene = make_scene(kafka.bootstrap_servers, lasting_store.url, Shape(inputs=1, ledger_partitions=1))
    instance = scene.start()
    scene.subscriber.wait_complete()
    lasting_store.kill()
    lasting_store.restart()
    scene.subscriber.wait_complete()
    assert 'recoveries_total{cause="no_progress"} 1.0' in instance.page()
    verdict = scene.settle(instance)
    assert verdict.broken == []


@pytest.mark.promise(6)
def test_lagging_replica_is_promoted(kafka: SharedKafka, fragile_store: EmbeddedValkey, make_scene: MakeScene) -> None:
    """After the promotion of a lagging replica, the missing facts are read again before any answer is "safe".

    primary  ├── facts ───────┤ killed
    replica  ├── facts ┤ cut off  ├── promoted, some seconds behind
    """
    link = Forwarder(parse_address(fragile_store.url))
    replica_of = ("--replicaof", f"127.0.0.1 {link.port}")
    with EmbeddedValkey(ValkeySettings(arguments=replica_of)) as replica:
        forwarder = Forwarder(parse_address(fragile_store.url))
        scene = make_scene(kafka.bootstrap_servers, f"redis://127.0.0.1:{forwarder.port}/0")
        instance = scene.start()
        with connect(replica.url) as client:
            until(lambda: client.info("replication")["master_link_status"] == "up", 20, "the replica follows")
            scene.subscriber.wait_complete()
            link.turn(NOWHERE)
            scene.subscriber.wait_new()
            scene.subscriber.wait_new()
            fragile_store.kill()
            client.replicaof("NO", "ONE")
        forwarder.turn(parse_address(replica.url))
        scene.subscriber.wait_complete(60)
        assert 'recoveries_total{cause="windows_behind"}' in instance.page()
        verdict = scene.settle(instance)
        forwarder.close()
        link.close()
    assert verdict.broken == []
