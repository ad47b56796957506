"""The kinds of faults that the walk deals, each done as it was drawn to whatever runs at that moment."""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import redis
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError

from monitor.errors import EXIT_REFUSED, MonitorError
from monitor.failpoints import PLACES
from monitor.public.instants import HOUR
from monitor.tools.embedded import EmbeddedKafka, EmbeddedValkey
from tests.faults.conftest import Scene
from tests.faults.oracles import judge
from tests.faults.processes import Instance, until

RUN_PLACES: Final = tuple(place for place in PLACES if not place.startswith("setup."))
CROWD: Final = 3
NO_LIMIT: Final = "1048588"


@dataclass(frozen=True, slots=True)
class Step:
    """One fault as it was drawn from the seed and its number alone.

    `index` picks among whatever is there then (modulo how many), `lasts` (0 to 1) is how long the state lasts between
    the least and the most of its kind, `rest` are the seconds afterwards, and `place` and `nth` where to die.
    """

    number: int
    kind: str
    index: int
    lasts: float
    rest: float
    place: str
    nth: int

    def __str__(self) -> str:
        return f"{self.number}. {self.kind} (index {self.index}, lasts {self.lasts:.2f}, {self.place}:{self.nth})"


def schedule(seed: int) -> Iterator[Step]:
    """The faults of a seed, without end: each kind is dealt once, in a drawn order, then any is drawn.

    Each has a generator of its own, so that none depends on how much an earlier one drew.
    """
    chance = random.Random(seed)
    dealt = sorted(FAULTS)
    chance.shuffle(dealt)
    for number in itertools.count(1):
        kind = dealt[number - 1] if number <= len(dealt) else chance.choice(sorted(FAULTS))
        own = random.Random(f"{seed}/{number}")
        yield Step(
            number,
            kind,
            own.getrandbits(32),
            own.random(),
            own.uniform(0.1, 1.5),
            own.choice(RUN_PLACES),
            own.randint(1, 9),
        )


@dataclass
class Walk:
    """The servers, the instances, and what was done to them."""

    scene: Scene
    kafka: EmbeddedKafka
    store: EmbeddedValkey
    done: Counter[str] = field(default_factory=Counter)

    @property
    def running(self) -> list[Instance]:
        return [instance for instance in self.scene.town.instances if instance.code is None]

    def start(self, *arguments: str) -> Instance:
        """One more instance, with a clock that can be set."""
        clock = self._clock(len(self.scene.town.instances))
        clock.write_text("0")
        return self.scene.start("--clock", str(clock), *arguments)

    def clock(self, instance: Instance) -> Path:
        """The file that its clock is off by."""
        return self._clock(self.scene.town.instances.index(instance))

    def _clock(self, number: int) -> Path:
        return self.scene.town.folder / f"clock-{number}"

    def picked(self, index: int) -> Instance:
        """One of those that run now."""
        if not self.running:
            self.start()
        running = self.running
        return running[index % len(running)]

    def do(self, step: Step) -> None:
        """One fault, and a moment that may be too short to recover."""
        began = time.monotonic()
        FAULTS[step.kind](self, step)
        self.done[step.kind] += 1
        if not self.running:
            self.start()
        time.sleep(step.rest)
        print(f"{step}: {time.monotonic() - began:.1f} s", flush=True)

    def rest(self) -> None:
        """All is known again, and nothing said so far is false."""
        self.scene.subscriber.wait_whole(90)
        broken = judge(self.scene.town).broken
        assert not broken, "\n".join(broken)  # pytest shows what it compared in tests alone

    def redis(self) -> redis.Redis:
        return redis.Redis.from_url(self.store.url)

    def administer(self, action: Callable[[Any], object]) -> None:
        """Have Kafka do something, as soon as it can after what befell it before."""

        def done() -> bool:
            try:
                with self.scene.town.admin() as admin:
                    action(admin)
            except (KafkaError, MonitorError):
                return False
            return True

        until(done, 60, "Kafka does it")


def lasting(step: Step, least: float, most: float) -> None:
    """How long a state lasts is part of the fault; there is nothing to wait for."""
    time.sleep(least + step.lasts * (most - least))


def kill(walk: Walk, step: Step) -> None:
    walk.picked(step.index).kill()


def kill_all(walk: Walk, _step: Step) -> None:
    for instance in walk.running:
        instance.kill()


def kill_at_a_place(walk: Walk, step: Step) -> None:
    """Another instance joins, and dies where the seed says."""
    walk.start("--at", f"{step.place}:{step.nth}:kill")
    crowd(walk)


def join(walk: Walk, _step: Step) -> None:
    """One more instance, at most three."""
    walk.start()
    crowd(walk)


def crowd(walk: Walk) -> None:
    while len(running := walk.running) > CROWD:
        running[0].kill()


def leave(walk: Walk, step: Step) -> None:
    left(walk.picked(step.index))


def left(instance: Instance) -> None:
    """It ends in order; or as one that can't listen for signals yet, or that just found a topic to be wrong."""
    code = instance.terminate()
    refused = code == EXIT_REFUSED and "max.message.bytes" in instance.text
    assert code in {0, -15} or refused, instance.text[-2_000:]


def stop_beyond_the_session(walk: Walk, step: Step) -> None:
    instance = walk.picked(step.index)
    instance.pause()
    if len(walk.running) == 1:
        walk.start()
    lasting(step, 2.0, 4.0)
    instance.resume()


def step_a_clock(walk: Walk, step: Step) -> None:
    """An hour ahead or behind, and back."""
    clock = walk.clock(walk.picked(step.index // 2))
    clock.write_text(str(HOUR if step.index % 2 else -HOUR))
    lasting(step, 0.5, 4.0)
    clock.write_text("0")


def flush(walk: Walk, _step: Step) -> None:
    with closing(walk.redis()) as client:
        client.flushall()


def flush_scripts(walk: Walk, _step: Step) -> None:
    with closing(walk.redis()) as client:
        client.script_flush()


def delete_some_progress(walk: Walk, step: Step) -> None:
    with closing(walk.redis()) as client:
        metas = until(lambda: sorted(client.scan_iter(match="*:meta", count=1_000)), 60, "there is progress")
        chosen = [meta for bit, meta in enumerate(metas) if step.index >> bit & 1]
        client.delete(*(chosen or metas[:1]))


def spoil_a_key(walk: Walk, step: Step) -> None:
    """Something else lies where facts belong, until somebody deletes its shard."""
    with closing(walk.redis()) as client:
        keys = until(lambda: sorted(client.scan_iter(match="*:w:*", count=1_000)), 60, "there are facts")
        key = keys[step.index % len(keys)]
        client.delete(key)
        client.set(key, "not ours")
        lasting(step, 0.5, 3.0)
        client.delete(key, *client.scan_iter(match=f"{key.partition(b'}')[0].decode()}*", count=1_000))


def run_out_of_memory(walk: Walk, step: Step) -> None:
    with closing(walk.redis()) as client:
        client.config_set("maxmemory", "1")
        lasting(step, 0.5, 3.0)
        client.config_set("maxmemory", "0")


def become_read_only(walk: Walk, step: Step) -> None:
    with closing(walk.redis()) as client:
        client.replicaof("127.0.0.1", "1")
        lasting(step, 0.5, 3.0)
        client.replicaof("NO", "ONE")


def cut_connections(walk: Walk, _step: Step) -> None:
    with closing(walk.redis()) as client:
        for kind in ("normal", "pubsub"):
            with suppress(redis.ConnectionError):
                client.client_kill_filter(_type=kind, skipme=True)


def restart_store(walk: Walk, step: Step) -> None:
    walk.store.kill()
    lasting(step, 0.0, 1.0)
    walk.store.restart()


def pause_store(walk: Walk, step: Step) -> None:
    walk.store.pause()
    lasting(step, 0.5, 3.0)
    walk.store.resume()


def restart_kafka(walk: Walk, _step: Step) -> None:
    walk.kafka.kill()
    walk.kafka.restart()


def pause_kafka(walk: Walk, step: Step) -> None:
    walk.kafka.pause()
    lasting(step, 0.5, 3.0)
    walk.kafka.resume()


def leave_a_transaction_open(walk: Walk, step: Step) -> None:
    town = walk.scene.town
    with closing(town.settings.kafka.producer(transactional_id=f"{town.name}-open")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(town.topics.visits, value=b"never committed", partition=0).get(timeout=10)
        lasting(step, 0.5, 3.0)
        producer.abort_transaction()


def add_an_input_partition(walk: Walk, _step: Step) -> None:
    """Visits go to a partition that the readers have not heard of yet."""
    add_partition(walk, walk.scene.town.topics.visits)


def add_an_output_partition(walk: Walk, _step: Step) -> None:
    """Shards stay where they were: Q is pinned by the ledger's first record."""
    add_partition(walk, walk.scene.town.topics.alerts)


def add_partition(walk: Walk, topic: str) -> None:
    def add(admin: Any) -> None:
        admin.create_partitions({topic: len(admin.describe_topics([topic])[0]["partitions"]) + 1})

    walk.administer(add)


def refuse_answers(walk: Walk, step: Step) -> None:
    """The ledger takes no record for a while, which leaves a producer poisoned."""
    refuse(walk, step, walk.scene.town.topics.alerts)


def refuse_dead_letters(walk: Walk, step: Step) -> None:
    """Progress may not pass a bad visit that is no dead letter yet."""
    refuse(walk, step, walk.scene.town.topics.dead_letters)


def refuse(walk: Walk, step: Step, topic: str) -> None:
    """A topic takes no record for a while, but room is left for the 78 bytes of a transaction's end.

    Where Kafka can't write that, the transaction neither ends nor can be fenced before the broker starts again.
    """

    def resized(most: str) -> Callable[[Any], object]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"max.message.bytes": most})
        return lambda admin: admin.alter_configs([resource])

    walk.administer(resized("100"))
    lasting(step, 2.0, 4.0)
    walk.administer(resized(NO_LIMIT))


FAULTS: Final[dict[str, Callable[[Walk, Step], None]]] = {
    fault.__name__: fault
    for fault in (
        kill,
        kill_all,
        kill_at_a_place,
        join,
        leave,
        stop_beyond_the_session,
        step_a_clock,
        flush,
        flush_scripts,
        delete_some_progress,
        spoil_a_key,
        run_out_of_memory,
        become_read_only,
        cut_connections,
        restart_store,
        pause_store,
        restart_kafka,
        pause_kafka,
        leave_a_transaction_open,
        add_an_input_partition,
        add_an_output_partition,
        refuse_answers,
        refuse_dead_letters,
    )
}
