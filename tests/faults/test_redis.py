"""Faults of Redis: facts are read again from the input, answers are unknown meanwhile, and no answer is false."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
import redis

from monitor.service.preflight import run_preflight
from monitor.service.wiring import create_windows
from monitor.tools.servers import EmbeddedValkey
from tests.faults import steps
from tests.faults.conftest import MakeScene
from tests.faults.steps import Step, Walk
from tests.faults.town import Shape
from tests.kit.waiting import until
from tests.shared_kafka import SharedKafka


@contextmanager
def connect(url: str) -> Iterator[redis.Redis]:
    with closing(redis.Redis.from_url(url)) as client:
        yield client


def flush_twice(walk: Walk, step: Step) -> None:
    """Flush the store again while the lost facts are being read again."""
    steps.flush(walk, step)
    walk.scene.subscriber.wait_new()
    steps.flush(walk, step)


def spoil_a_key(walk: Walk, _step: Step) -> None:
    """Make a data command fail within its transaction, until the keys are deleted. Progress must not advance."""
    with connect(walk.store.url) as client:
        key = min(client.scan_iter(match="*:w:*", count=1_000))
        client.delete(key)
        client.set(key, "not ours")
        until(lambda: "has data of another program" in walk.running[0].text, 40, "it is noticed")
        walk.scene.subscriber.wait_new()
        tag = key.partition(b"}")[0].decode()
        client.delete(*client.scan_iter(match=f"{tag}*", count=1_000))


def evict_by_a_fast_clock(walk: Walk, _step: Step) -> None:
    """Evict present facts, as an instance with a fast clock would: answers are unknown until a window has passed."""
    town = walk.scene.town
    settings = town.settings
    preflight = run_preflight(settings.kafka, settings.parameters, settings.needs, town.topics.alerts)
    with closing(create_windows(settings, preflight)) as windows:
        windows.evict(range(4), town.now() + 2, [], [])


FAULTS = {
    fault.__name__: fault
    for fault in (
        steps.restart_store,
        steps.flush,
        flush_twice,
        steps.flush_scripts,
        steps.run_out_of_memory,
        steps.become_read_only,
        steps.delete_some_progress,
        steps.pause_store,
        steps.cut_connections,
        spoil_a_key,
        evict_by_a_fast_clock,
    )
}


@pytest.fixture(scope="module")
def broken_store(valkey: EmbeddedValkey) -> Iterator[EmbeddedValkey]:
    with EmbeddedValkey() as server:
        yield server


@pytest.fixture(scope="module")
def walk(kafka: SharedKafka, broken_store: EmbeddedValkey, make_module_scene: MakeScene) -> Walk:
    """A service that runs through all faults without a restart."""
    walk = Walk(make_module_scene(kafka.bootstrap_servers, broken_store.url), kafka, broken_store)
    walk.start()
    walk.scene.subscriber.wait_complete()
    return walk


@pytest.mark.parametrize("fault", FAULTS)
def test_redis_fault_breaks_no_promise(fault: str, walk: Walk) -> None:
    """After the fault, the service recovers without a restart, and no answer is false."""
    FAULTS[fault](walk, Step.alone(fault))
    walk.rest()
    assert len(walk.running) == len(walk.scene.town.instances) == 1


@pytest.mark.promise(6)
def test_promises_after_redis_faults(walk: Walk) -> None:
    """After all faults of Redis, no promise is broken."""
    verdict = walk.scene.settle(walk.running[0])
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
