"""Faults of Kafka and of Redis: one instance recovers from each without a restart, and no answer is false."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from monitor.operate.servers import EmbeddedKafka, EmbeddedValkey
from monitor.stop_signals import STOP_SECONDS
from tests.faults import steps
from tests.faults.conftest import MakeTown
from tests.faults.oracles import settle
from tests.faults.steps import Step, Walk
from tests.kit.waiting import until
from tests.shared_kafka import SharedKafka


def flush_twice(walk: Walk, step: Step) -> None:
    """Flush the store again while the lost facts are being read again."""
    steps.flush(walk, step)
    walk.town.subscriber.wait_new()
    steps.flush(walk, step)


def evict_by_a_fast_clock(walk: Walk, _step: Step) -> None:
    """Evict present facts, as an instance with a fast clock would: answers are unknown until a window has passed."""
    town = walk.town
    with closing(town.open_store()) as windows:
        windows.evict(range(4), town.now() + 2, [], [])


def let_reading_lag(walk: Walk, _step: Step) -> None:
    """Stop the only instance for more than F + 2 slots, so that it reads old records later.

    The stamp decides a visit's fate: an arrival more than accept_ahead after it makes a dead letter, even if that slot
    has begun at the time of reading, and a departure is cut F slots after it.
    """
    town, instance = walk.town, walk.running[0]
    instance.pause()
    since = town.now()
    until(lambda: town.now() > since + town.settings.parameters.max_lead + 2, 30, "slots pass by")
    instance.resume()


FAULTS = {
    fault.__name__: (fault, noticed)
    for fault, noticed in (
        (steps.restart_kafka, ""),
        (steps.add_an_input_partition, ""),
        (steps.add_an_output_partition, ""),
        (steps.leave_a_transaction_open, ""),
        (steps.refuse_answers, "taken over again"),
        (steps.refuse_dead_letters, "reading pauses"),
        (steps.stamp_by_producers, "have their producers' timestamps"),
        (let_reading_lag, ""),
        (steps.restart_store, ""),
        (flush_twice, ""),
        (steps.flush_scripts, ""),
        (steps.run_out_of_memory, ""),
        (steps.become_read_only, ""),
        (steps.delete_some_progress, ""),
        (steps.spoil_a_key, "has data of another program"),
        (evict_by_a_fast_clock, ""),
    )
}
"""The faults by name, and what the instance must log meanwhile."""


@pytest.fixture(scope="module")
def broker(kafka: SharedKafka) -> Iterator[EmbeddedKafka]:
    """A Kafka that the tests of this module may break."""
    with EmbeddedKafka() as server:
        yield server


@pytest.fixture(scope="module")
def broken_store(valkey: EmbeddedValkey) -> Iterator[EmbeddedValkey]:
    """A Valkey that the tests of this module may break."""
    with EmbeddedValkey() as server:
        yield server


@pytest.fixture(scope="module")
def walk(broker: EmbeddedKafka, broken_store: EmbeddedValkey, make_module_town: MakeTown) -> Walk:
    """A service that runs through all faults without a restart."""
    walk = Walk(make_module_town(broker.bootstrap_servers, broken_store.url), broker, broken_store)
    walk.start()
    walk.town.subscriber.wait_complete()
    return walk


@pytest.mark.promise(6, 24)
@pytest.mark.parametrize("name", FAULTS)
def test_instance_recovers_from_server_fault(name: str, walk: Walk) -> None:
    """After the fault, the service recovers without a restart."""
    fault, noticed = FAULTS[name]
    (instance,) = walk.running
    logged = len(instance.text)
    fault(walk, Step.alone(name))
    walk.town.subscriber.wait_complete(90)
    assert noticed in instance.text[logged:]
    assert walk.town.instances == walk.running == [instance]


@pytest.mark.promise(6, 13, 25, 26, 28)
def test_promises_after_server_faults(walk: Walk) -> None:
    """After all faults of Kafka and Redis, no promise is broken."""
    verdict = settle(walk.town, walk.running[0])
    assert verdict.broken == []
    assert verdict.count("safe") > 0
    assert verdict.report.noisy > 0


def test_stop_while_servers_hang(walk: Walk, broker: EmbeddedKafka, broken_store: EmbeddedValkey) -> None:
    """An instance that is stopped while Kafka and Redis do not answer ends by itself, within the time for a stop."""
    instance = walk.start()
    until(lambda: '"ok": true' in instance.page("/readyz"), 60, "it is ready")
    broker.pause()
    broken_store.pause()
    began = time.monotonic()
    try:
        assert instance.terminate(STOP_SECONDS) == 0
    finally:
        print(f"stopped after {time.monotonic() - began:.1f} s")
        broken_store.resume()
        broker.resume()
