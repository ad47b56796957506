"""A random walk over faults: each is drawn from a seed that is printed, and FAULTS_SEED walks it once more.

Faults follow each other while the service is still recovering from those before. `make soak` walks for hours
(FAULTS_SOAK_MINUTES, 120 unless told).
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Final

import pytest
import redis

from monitor.embedded import EmbeddedKafka, EmbeddedValkey
from monitor.failpoints import PLACES
from tests.faults.conftest import MakeScene, Scene
from tests.faults.oracles import judge
from tests.faults.processes import Instance

FAULTS: Final = 52
RESTS: Final = 4  # how often, on the way, all is waited for and judged
SOAK_LEG_MINUTES: Final = 20  # designated times are there for 30


@dataclass
class Walk:
    """The servers, the instances, and what was done to them."""

    scene: Scene
    kafka: EmbeddedKafka
    store: EmbeddedValkey
    chance: random.Random
    done: Counter[str] = field(default_factory=Counter)

    @property
    def running(self) -> list[Instance]:
        return [instance for instance in self.scene.town.instances if instance.code is None]

    def step(self) -> None:
        """One fault, and a moment that may be too short to recover."""
        name = self.chance.choice(sorted(STEPS))
        began = time.monotonic()
        STEPS[name](self)
        self.done[name] += 1
        if not self.running:
            self.scene.start()
        self.wait(0.1, 1.5)
        print(f"{name}, {time.monotonic() - began:.1f} s", flush=True)

    def wait(self, least: float, most: float) -> None:
        """A moment drawn from the seed: how long a state lasts is part of the fault."""
        time.sleep(self.chance.uniform(least, most))

    def rest(self) -> None:
        """All is known again, and nothing said so far is false."""
        self.scene.subscriber.wait_whole(90)
        assert judge(self.scene.town).broken == []

    def redis(self) -> redis.Redis:
        return redis.Redis.from_url(self.store.url)


def kill(walk: Walk) -> None:
    walk.chance.choice(walk.running).kill()


def kill_at_a_place(walk: Walk) -> None:
    """Another instance joins, and dies where the seed says."""
    place, nth = walk.chance.choice(PLACES), walk.chance.randint(1, 9)
    walk.scene.start("--at", f"{place}:{nth}:kill")
    print(f"armed: {place}:{nth}")
    crowd(walk)


def join(walk: Walk) -> None:
    """One more instance, at most three."""
    walk.scene.start()
    crowd(walk)


def crowd(walk: Walk) -> None:
    while len(walk.running) > 3:
        walk.running[0].kill()


def leave(walk: Walk) -> None:
    instance = walk.chance.choice(walk.running)
    assert instance.terminate() in {0, -15}  # -15: before it could listen for signals


def stop_beyond_the_session(walk: Walk) -> None:
    instance = walk.chance.choice(walk.running)
    instance.pause()
    if len(walk.running) == 1:
        walk.scene.start()
    walk.wait(2.0, 4.0)
    instance.resume()


def flush(walk: Walk) -> None:
    with closing(walk.redis()) as client:
        client.flushall()


def delete_some_progress(walk: Walk) -> None:
    with closing(walk.redis()) as client:
        metas = sorted(client.scan_iter(match="*:meta", count=1_000))
        if metas:
            client.delete(*walk.chance.sample(metas, walk.chance.randint(1, len(metas))))


def run_out_of_memory(walk: Walk) -> None:
    with closing(walk.redis()) as client:
        client.config_set("maxmemory", "1")
        walk.wait(0.5, 3.0)
        client.config_set("maxmemory", "0")


def become_read_only(walk: Walk) -> None:
    with closing(walk.redis()) as client:
        client.replicaof("127.0.0.1", "1")
        walk.wait(0.5, 3.0)
        client.replicaof("NO", "ONE")


def cut_connections(walk: Walk) -> None:
    with closing(walk.redis()) as client:
        for kind in ("normal", "pubsub"):
            with suppress(redis.ConnectionError):
                client.client_kill_filter(_type=kind, skipme=True)


def restart_store(walk: Walk) -> None:
    walk.store.kill()
    walk.wait(0.0, 1.0)
    walk.store.restart()


def pause_store(walk: Walk) -> None:
    walk.store.pause()
    walk.wait(0.5, 3.0)
    walk.store.resume()


def restart_kafka(walk: Walk) -> None:
    walk.kafka.kill()
    walk.kafka.restart()


def pause_kafka(walk: Walk) -> None:
    walk.kafka.pause()
    walk.wait(0.5, 3.0)
    walk.kafka.resume()


def leave_a_transaction_open(walk: Walk) -> None:
    town = walk.scene.town
    with closing(town.settings.kafka.producer(transactional_id=f"{town.name}-open")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(town.topics.visits, value=b"never committed", partition=0).get(timeout=10)
        walk.wait(0.5, 3.0)
        producer.abort_transaction()


STEPS: Final[dict[str, Callable[[Walk], None]]] = {
    step.__name__: step
    for step in (
        kill,
        kill_at_a_place,
        join,
        leave,
        stop_beyond_the_session,
        flush,
        delete_some_progress,
        run_out_of_memory,
        become_read_only,
        cut_connections,
        restart_store,
        pause_store,
        restart_kafka,
        pause_kafka,
        leave_a_transaction_open,
    )
}


@pytest.fixture
def start(kafka: EmbeddedKafka, valkey: EmbeddedValkey, make_scene: MakeScene) -> Iterator[Callable[[int], Walk]]:
    """Starts walks on servers of the test's own: `start(seed)`."""
    with EmbeddedKafka() as broker, EmbeddedValkey() as store:

        def started(seed: int) -> Walk:
            scene = make_scene(broker.bootstrap_servers, store.url, seed=seed)
            walk = Walk(scene, broker, store, random.Random(seed))
            scene.start()
            scene.subscriber.wait_whole(60)
            return walk

        yield started


def seeded() -> int:
    return int(os.environ.get("FAULTS_SEED") or random.SystemRandom().getrandbits(32))


def finish(walk: Walk) -> None:
    """One instance stays, and everything is judged."""
    for instance in walk.running:
        instance.kill()
    last = walk.scene.start()
    walk.scene.subscriber.wait_whole(90)
    verdict = walk.scene.settle(last)
    print(f"{walk.done.total()} faults: {dict(walk.done)}; answers: {verdict.report.answers}", flush=True)
    assert verdict.broken == []
    assert verdict.count("safe") > 0
    assert verdict.report.noisy > 0


@pytest.mark.timeout(600)
def test_fifty_faults_one_after_another(start: Callable[[int], Walk]) -> None:
    walk = start(seeded())
    for number in range(1, FAULTS + 1):
        walk.step()
        if number % (FAULTS // RESTS) == 0:
            walk.rest()
    finish(walk)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_faults_for_hours(start: Callable[[int], Walk]) -> None:
    """Legs of twenty minutes, each in a town of its own."""
    seed = seeded()
    end = time.monotonic() + 60 * float(os.environ.get("FAULTS_SOAK_MINUTES", "120"))
    total: Counter[str] = Counter()
    while time.monotonic() < end:
        walk = start(seed)
        leg = time.monotonic() + 60 * SOAK_LEG_MINUTES
        while time.monotonic() < min(leg, end):
            for _ in range(10):
                walk.step()
            walk.rest()
        finish(walk)
        total += walk.done
        seed += 1
    print(f"{total.total()} faults by kind: {dict(total)}")
