"""The kinds of faults of the random walk. A fault applies to the instances and servers that run at that moment."""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import redis
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError

from monitor.errors import EXIT_REFUSED, MonitorError
from monitor.observe.failpoints import FAILPOINTS
from monitor.operate.servers import EmbeddedKafka, EmbeddedValkey
from monitor.time.instants import HOUR
from tests.faults.facts import compare
from tests.faults.oracles import judge
from tests.faults.town import FaultTown
from tests.kit.processes import Instance
from tests.kit.waiting import until

RUN_FAILPOINTS: Final = tuple(name for name in FAILPOINTS if not name.startswith("setup."))
CROWD: Final = 3
NO_LIMIT: Final = "1048588"
SIZE_LIMIT: Final = "max.message.bytes"
TIMESTAMP_TYPE: Final = "message.timestamp.type"
LONG_AGO: Final = 1
"""A producer's timestamp of 1970."""


@dataclass(frozen=True, slots=True)
class Step:
    """One fault, drawn from the seed and its number only.

    `index` picks an instance or key (modulo their number). `lasts` (0 to 1) is the duration between the least and the
    most of its kind. `rest` is the pause afterwards in seconds. `failpoint` and `nth`: where it is killed.
    """

    number: int
    kind: str
    index: int
    lasts: float
    rest: float
    failpoint: str
    nth: int

    @classmethod
    def alone(cls, kind: str) -> Step:
        """Return a fault of two slots, of every second key, for a test of one kind."""
        return cls(0, kind, int("01" * 16, 2), 1.4, 0.0, "", 1)

    def __str__(self) -> str:
        return f"{self.number}. {self.kind} (index {self.index}, lasts {self.lasts:.2f}, {self.failpoint}:{self.nth})"


def schedule(seed: int, kinds: Iterable[str]) -> Iterator[Step]:
    """Yield the faults of a seed without end: first each of the kinds once, in a random order, then any of them.

    Each fault has a separate generator, so that it does not depend on the draws of earlier ones.
    """
    order, first = random.Random(seed), sorted(kinds)
    order.shuffle(first)
    for number in itertools.count(1):
        kind = first[number - 1] if number <= len(first) else order.choice(sorted(first))
        draws = random.Random(f"{seed}/{number}")
        yield Step(
            number,
            kind,
            draws.getrandbits(32),
            draws.random(),
            draws.uniform(0.1, 1.5),
            draws.choice(RUN_FAILPOINTS),
            draws.randint(1, 9),
        )


@dataclass
class Walk:
    """The servers and instances of a walk, and the number of faults of each kind."""

    town: FaultTown
    kafka: EmbeddedKafka
    store: EmbeddedValkey
    done: Counter[str] = field(default_factory=Counter)

    @property
    def running(self) -> list[Instance]:
        return [instance for instance in self.town.instances if instance.code is None]

    def start(self, *arguments: str) -> Instance:
        """Start one more instance, with a clock that can be set."""
        clock = self._clock(len(self.town.instances))
        clock.write_text("0")
        return self.town.start("--clock", str(clock), *arguments)

    def clock(self, instance: Instance) -> Path:
        """Return the file with the error of the instance's clock."""
        return self._clock(self.town.instances.index(instance))

    def _clock(self, number: int) -> Path:
        return self.town.folder / f"clock-{number}"

    def pick(self, index: int) -> Instance:
        """Return one of the running instances."""
        if not self.running:
            self.start()
        running = self.running
        return running[index % len(running)]

    def do(self, step: Step) -> None:
        """Apply one fault, then pause. The pause may be too short to recover."""
        started = time.monotonic()
        FAULTS[step.kind](self, step)
        self.done[step.kind] += 1
        if not self.running:
            self.start()
        time.sleep(step.rest)
        print(f"{step}: {time.monotonic() - started:.1f} s", flush=True)

    def rest(self) -> None:
        """Wait until no answer is unknown, and check everything so far."""
        self.town.subscriber.wait_complete(90)
        broken = judge(self.town).broken + compare(self.town).broken
        assert not broken, "\n".join(broken)  # pytest shows compared values only for assertions in test modules

    def redis(self) -> redis.Redis:
        return redis.Redis.from_url(self.store.url)

    def administer(self, action: Callable[[Any], object]) -> None:
        """Do something with an admin client, as soon as Kafka has recovered from earlier faults."""

        def succeeds() -> bool:
            try:
                with self.town.admin() as admin:
                    action(admin)
            except (KafkaError, MonitorError):
                return False
            return True

        until(succeeds, 60, "Kafka accepts the change")


def sleep_within(step: Step, least: float, most: float) -> None:
    """Sleep. The duration is part of the fault, so there is no condition to wait for."""
    time.sleep(least + step.lasts * (most - least))


def kill(walk: Walk, step: Step) -> None:
    walk.pick(step.index).kill()


def kill_all(walk: Walk, _step: Step) -> None:
    for instance in walk.running:
        instance.kill()


def kill_at_a_failpoint(walk: Walk, step: Step) -> None:
    """Start another instance, to be killed at the step's failpoint."""
    walk.start("--at", f"{step.failpoint}:{step.nth}:kill")
    crowd(walk)


def join(walk: Walk, _step: Step) -> None:
    """Start one more instance, up to three."""
    walk.start()
    crowd(walk)


def crowd(walk: Walk) -> None:
    while len(running := walk.running) > CROWD:
        running[0].kill()


def leave(walk: Walk, step: Step) -> None:
    end_in_order(walk.pick(step.index))


def end_in_order(instance: Instance) -> None:
    """Stop an instance by SIGTERM. It may be too early to handle the signal, or refuse a topic's settings."""
    code = instance.terminate()
    refused = code == EXIT_REFUSED and any(setting in instance.text for setting in (SIZE_LIMIT, TIMESTAMP_TYPE))
    assert code in {0, -15} or refused, instance.text[-2_000:]


def stop_beyond_the_session(walk: Walk, step: Step) -> None:
    instance = walk.pick(step.index)
    instance.pause()
    if len(walk.running) == 1:
        walk.start()
    sleep_within(step, 2.0, 4.0)
    instance.resume()


def step_a_clock(walk: Walk, step: Step) -> None:
    """Set a clock an hour ahead or behind, and back."""
    clock = walk.clock(walk.pick(step.index // 2))
    clock.write_text(str(HOUR if step.index % 2 else -HOUR))
    sleep_within(step, 0.5, 4.0)
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
    """Replace a key of facts by a key of another type, until its shard is deleted."""
    with closing(walk.redis()) as client:
        keys = until(lambda: sorted(client.scan_iter(match="*:w:*", count=1_000)), 60, "there are facts")
        key = keys[step.index % len(keys)]
        client.delete(key)
        client.set(key, "not ours")
        sleep_within(step, 0.5, 3.0)
        client.delete(key, *client.scan_iter(match=f"{key.partition(b'}')[0].decode()}*", count=1_000))


def run_out_of_memory(walk: Walk, step: Step) -> None:
    with closing(walk.redis()) as client:
        client.config_set("maxmemory", "1")
        sleep_within(step, 0.5, 3.0)
        client.config_set("maxmemory", "0")


def become_read_only(walk: Walk, step: Step) -> None:
    with closing(walk.redis()) as client:
        client.replicaof("127.0.0.1", "1")
        sleep_within(step, 0.5, 3.0)
        client.replicaof("NO", "ONE")


def cut_connections(walk: Walk, _step: Step) -> None:
    with closing(walk.redis()) as client:
        for kind in ("normal", "pubsub"):
            with suppress(redis.ConnectionError):
                client.client_kill_filter(_type=kind, skipme=True)


def restart_store(walk: Walk, step: Step) -> None:
    walk.store.kill()
    sleep_within(step, 0.0, 1.0)
    walk.store.restart()


def pause_store(walk: Walk, step: Step) -> None:
    walk.store.pause()
    sleep_within(step, 0.5, 3.0)
    walk.store.resume()


def restart_kafka(walk: Walk, _step: Step) -> None:
    walk.kafka.kill()
    walk.kafka.restart()


def pause_kafka(walk: Walk, step: Step) -> None:
    walk.kafka.pause()
    sleep_within(step, 0.5, 3.0)
    walk.kafka.resume()


def leave_a_transaction_open(walk: Walk, step: Step) -> None:
    town = walk.town
    with closing(town.settings.kafka.create_producer(transactional_id=f"{town.name}-open")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(town.topics.visits, value=b"never committed", partition=0).get(timeout=10)
        sleep_within(step, 0.5, 3.0)
        producer.abort_transaction()


def add_an_input_partition(walk: Walk, _step: Step) -> None:
    """Add a partition. Visits go to it before the readers know it."""
    add_partition(walk, walk.town.topics.visits)


def add_an_output_partition(walk: Walk, _step: Step) -> None:
    """Add a partition. Shards stay in their partitions, since the ledger's first record fixes Q."""
    add_partition(walk, walk.town.topics.alerts)


def add_partition(walk: Walk, topic: str) -> None:
    def add(admin: Any) -> None:
        admin.create_partitions({topic: len(admin.describe_topics([topic])[0]["partitions"]) + 1})

    walk.administer(add)


def refuse_answers(walk: Walk, step: Step) -> None:
    """Make the ledger refuse records for a while, which leaves a producer in a fatal state."""
    refuse(walk, step, walk.town.topics.alerts)


def refuse_dead_letters(walk: Walk, step: Step) -> None:
    """Make the topic of dead letters refuse records. Progress must not pass an invalid visit without a dead letter."""
    refuse(walk, step, walk.town.topics.dead_letters)


def refuse(walk: Walk, step: Step, topic: str) -> None:
    """Make a topic refuse records for a while, except the 78 bytes of a transaction's end.

    If Kafka could not write these, the transaction could neither end nor be fenced before the broker restarts.
    """
    set_up(walk, topic, SIZE_LIMIT, "100")
    sleep_within(step, 2.0, 4.0)
    set_up(walk, topic, SIZE_LIMIT, NO_LIMIT)


def set_up(walk: Walk, topic: str, setting: str, value: str) -> None:
    """Change a setting of a topic."""
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs={setting: value})
    walk.administer(lambda admin: admin.alter_configs([resource]))


def stamp_by_producers(walk: Walk, step: Step) -> None:
    """Let producers stamp the input for a while, one of them with old timestamps; then Redis loses all facts.

    The start without facts must not take the records before the old timestamps for older ones.
    """
    town = walk.town
    set_up(walk, town.topics.visits, TIMESTAMP_TYPE, "CreateTime")
    put_old_records(walk, until_stamped=False)
    set_up(walk, town.topics.visits, TIMESTAMP_TYPE, "LogAppendTime")
    put_old_records(walk, until_stamped=True)
    flush(walk, step)


def put_old_records(walk: Walk, *, until_stamped: bool) -> None:
    """Send records without visits and with an old timestamp until each partition has kept it, or replaced it."""
    town = walk.town
    with closing(town.settings.kafka.create_producer()) as producer:

        def has_turned(partition: int) -> bool:
            sent = producer.send(town.topics.visits, b'{"visits": []}', partition=partition, timestamp_ms=LONG_AGO)
            try:
                return bool((sent.get(timeout=10).timestamp != LONG_AGO) == until_stamped)
            except KafkaError:  # of an earlier fault
                return False

        for partition in town.ends(town.topics.visits):
            until(partial(has_turned, partition), 60, f"partition {partition} has the setting")


FAULTS: Final[dict[str, Callable[[Walk, Step], None]]] = {
    fault.__name__: fault
    for fault in (
        kill,
        kill_all,
        kill_at_a_failpoint,
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
        stamp_by_producers,
    )
}
