"""Replay a file of visits through the whole service, on embedded servers too, and write the output to a file.

Only the clock and the source of visits differ from `run`.
"""

from __future__ import annotations

import heapq
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

import msgspec
from kafka import OffsetSpec, TopicPartition
from pydantic import SecretStr

from monitor.config.kafka_and_redis import KafkaSettings, RedisSettings
from monitor.config.valid_config import ValidConfig
from monitor.config.whole_config import Config
from monitor.errors import NotEmptyError, ReplayError, UsageError
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.topics import FOREVER, MESSAGE_BYTES, TopicNeeds, describe_topics, require_exactly
from monitor.kinds.parameters import Parameters
from monitor.ledger.read_ledger import read_partition
from monitor.observe.health import Health
from monitor.observe.prometheus_metric import PREFIX
from monitor.observe.service_metrics import FATES
from monitor.observe.update_service_metrics import Metrics
from monitor.operate.replay.produce_visits import Feed
from monitor.operate.replay.read_visits import Extent, Refusals, SortedLines, read_lines
from monitor.operate.servers.start_servers import start_servers
from monitor.records.output_records import OutputRecord
from monitor.service.create_topics import Beginning, set_up
from monitor.service.preflight import Preflight, run_preflight
from monitor.service.wiring import Service, Settings, create_noise, create_store, prepare_settings
from monitor.store.redis_store import RedisStore
from monitor.time.clock import SteppedClock

START_SECONDS: Final = 60.0
TICK_SECONDS: Final = 120.0
TICKS_FED: Final = 64  # ticks whose visits are produced at once

_LONGEST: Final = str(2**63 - 1)
_BY_OTHER_CLOCK: Final = (
    require_exactly("cleanup.policy", "delete", "compaction would delete records that still count"),
    require_exactly("retention.ms", FOREVER, "the replay is in the past: Kafka would delete the records at once"),
    require_exactly("retention.bytes", "-1", "retention by size would delete records that still count"),
    require_exactly("message.timestamp.type", "CreateTime", "records have timestamps of the replay's clock"),
    require_exactly("message.timestamp.before.max.ms", _LONGEST, "the replay may be far in the past"),
    require_exactly("message.timestamp.after.max.ms", _LONGEST, "the replay may be in the future"),
)


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """The plan of a replay: the lines in order of report, what they contain, and the first and the last tick."""

    lines: SortedLines
    extent: Extent
    first_tick: int
    last_tick: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of a replay."""

    visits: dict[str, int]
    """By fate, each counted at least once."""
    answers: dict[tuple[str, str], int]
    """By monitor and status."""
    ticks: int
    seconds: float
    refusals: Refusals = field(default_factory=Refusals)
    """The lines of the file that the service refused."""


def plan_replay(path: Path, parameters: Parameters, until: int | None, on_line: Callable[[], None]) -> ReplayPlan:
    """Read and sort a file, and find its first and last tick.

    Args:
        path: the file.
        parameters: the parameters of the service.
        until: the latest as_of (an instant) to replay; None for no limit.
        on_line: called for each line.

    Raises:
        UsageError: the file cannot be read, or has no valid visit.
        ReplayError: no visit is at a location of the registry.
    """
    extent = Extent(parameters)
    lines = SortedLines(read_lines(path, extent), on_line)
    if extent.first_tick is None or extent.last_tick is None:
        lines.close()
        raise ReplayError(
            f"{path}: no visit is at a location of the registry (locations.file), so there is nothing to replay"
        )
    last = extent.last_tick if until is None else min(extent.last_tick, parameters.grid.find_last_tick(until))
    return ReplayPlan(lines, extent, extent.first_tick, last)


def adapt_topic_needs(needs: Sequence[TopicNeeds]) -> tuple[TopicNeeds, ...]:
    """Return the needs of a service's topics (visits, alerts, dead letters) in a replay.

    Records keep the timestamps of the replay's clock, and never expire.
    """
    visits, alerts, dead_letters = needs
    size = [setting for setting in alerts.settings if setting.key == MESSAGE_BYTES]
    return (
        replace(visits, settings=_BY_OTHER_CLOCK, durable=False),
        replace(alerts, settings=(*_BY_OTHER_CLOCK, *size), durable=False),
        dead_letters,
    )


def prepare_empty(settings: Settings, clock: SteppedClock) -> Preflight:
    """Check that nothing was ever written to the existing topics, and create the missing ones.

    Raises:
        NotEmptyError: a topic has records.
        TopicError: an existing topic has settings that do not work with another clock.
    """
    config, parameters = settings.config, settings.parameters
    wanted = adapt_topic_needs(settings.needs)
    _require_empty(settings.kafka, wanted)
    factor = config.kafka.replication_factor
    made = set_up(settings.kafka, parameters, wanted, Beginning.FIRST_START, clock.now(), factor)
    return run_preflight(settings.kafka, parameters, wanted, ledger_reader=made.ledger_reader)


def _require_empty(connections: KafkaConnections, wanted: tuple[TopicNeeds, ...]) -> None:
    with connections.translate_errors():
        admin = connections.create_admin()
        try:
            topics = describe_topics(admin, [need.topic for need in wanted])
            ends = {name: _count_offsets(admin, name, topic.partitions) for name, topic in topics.items()}
        finally:
            admin.close()
    used = [name for name, end in ends.items() if end > 0]
    if used:
        raise NotEmptyError(
            f"replay needs topics that were never written to, but records were written to {', '.join(used)}: set other "
            "names in kafka.topics, or use --embedded. If they contain published answers about the same visits, do not "
            "publish another replay: the lowest of several noisy counts is close to the true count"
        )


def _count_offsets(admin: Any, topic: str, partitions: int) -> int:
    topic_partitions = {TopicPartition(topic, partition): OffsetSpec.LATEST for partition in range(partitions)}
    return sum(end.offset for end in admin.list_partition_offsets(topic_partitions).values())


class Replay:
    """One service that runs tick by tick on a stepped clock. As a context manager, it starts and stops the service.

    `resumes`: the store may have keys of this service.

    Raises:
        NotEmptyError: (in the constructor) the store has keys of this service.
    """

    def __init__(self, settings: Settings, found: Preflight, clock: SteppedClock, *, resumes: bool = False) -> None:
        self._parameters = settings.parameters
        self._clock = clock
        self.metrics = Metrics()
        self.store: RedisStore = create_store(settings, found, clock.now)
        if not resumes and not self.store.is_empty():
            self.store.close()
            raise NotEmptyError(
                f"replay needs a Redis without keys of service.name {settings.parameters.name!r}: choose another name, "
                "another database, or --embedded"
            )
        self.service = Service(settings, found, self.store, clock, create_noise(), self.metrics, Health())

    def __enter__(self) -> Self:
        """Start, and wait until every ledger partition is taken over."""
        self.service.start()
        try:
            self._wait(lambda: len(self.service.loop.owners) == self.service.ledger_partitions, START_SECONDS, "start")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop."""
        self.close()

    def close(self) -> None:
        """Stop the service and close the store."""
        self.service.stop()
        self.store.close()

    def run_tick(self, tick: int) -> Sequence[OutputRecord]:
        """Decide a tick, wait until its answers are in the ledger, and return its records.

        The clock stays at the tick's end until every ledger partition waits for the release time, however long the
        facts take to arrive. Then it moves to the release time.

        Raises:
            ReplayError: the tick takes longer than two minutes, or a ledger partition is taken over again. The new
                owner would wait for a later release time, which this clock does not reach.
        """
        loop = self.service.loop
        owners = dict(loop.owners)

        def is_decided() -> bool:
            if any(owner is not owners.get(partition) for partition, owner in loop.owners.items()):
                raise ReplayError(
                    f"tick {tick}: a ledger partition was taken over again, and the tick may not be decided: see the "
                    "log, and run the replay again from the start"
                )
            return loop.last_tick is not None and loop.last_tick >= tick

        as_of, parameters = self._parameters.grid.as_of(tick), self._parameters
        self._clock.move_to(as_of + parameters.tolerance)
        self._clock.move_when_awaited(as_of + parameters.release_delay, self.service.ledger_partitions)
        self._wait(is_decided, TICK_SECONDS, f"tick {tick}")
        return loop.last_records

    def _wait(self, is_done: Callable[[], bool], seconds: float, step: str) -> None:
        signal = self.service.loop.decided
        deadline = time.monotonic() + seconds
        while True:
            seen = signal.number
            if is_done():
                return
            if self.service.ended.is_set():
                raise ReplayError(f"{step}: the service ended: {self.service.failure}") from self.service.failure
            if time.monotonic() > deadline:
                raise ReplayError(f"{step}: not done within {seconds:.0f} s; see the log for what is unavailable")
            signal.wait(seen, 0.05)

    def summarize(self, ticks: int, seconds: float) -> Summary:
        """Return the visits by fate and the answers by status, as the service counted them."""
        value = self.metrics.registry.get_sample_value
        visits = {fate: int(value(f"{PREFIX}_visits_total", {"fate": fate}) or 0) for fate in FATES}
        answers = {
            (sample.labels["monitor"], sample.labels["status"]): int(sample.value)
            for family in self.metrics.registry.collect()
            if family.name == f"{PREFIX}_answers"
            for sample in family.samples
            if sample.name.endswith("_total")
        }
        return Summary(visits, answers, ticks, seconds)


def replay(settings: Settings, planned: ReplayPlan, on_tick: Callable[[int, Sequence[OutputRecord]], None]) -> Summary:
    """Replay all ticks, and call `on_tick` with each tick and its records. The topics and the store must be empty.

    The input of several ticks is produced at once, which is faster. The counts do not depend on this: visits that are
    reported later wait for their tick in the store.

    Raises:
        RefusedError, ReplayError, UnreachableError: the replay cannot start or finish.
    """
    clock, grid = SteppedClock(settings.parameters.grid.start(planned.first_tick)), settings.parameters.grid
    found = prepare_empty(settings, clock)
    ticks, topic = range(planned.first_tick, planned.last_tick + 1), settings.config.kafka.topics.visits
    with Replay(settings, found, clock) as run, closing(Feed(settings.kafka, topic, planned.lines)) as feed:
        began = time.perf_counter()
        for tick in ticks:
            if (tick - ticks.start) % TICKS_FED == 0:
                feed.produce_until(grid.as_of(min(tick + TICKS_FED, ticks.stop) - 1))
            on_tick(tick, run.run_tick(tick))
        return replace(run.summarize(len(ticks), time.perf_counter() - began), refusals=feed.refusals)


_BEFORE_ALL: Final = -(2**62)


class _Line(msgspec.Struct):
    """A line of the file. The value is copied as it is."""

    key: str
    headers: dict[str, str]
    value: msgspec.Raw
    partition: int
    offset: int


class _Value(msgspec.Struct):
    """What is read of a value."""

    tick: int | None = None


_ENCODER: Final = msgspec.json.Encoder()
_VALUES: Final = msgspec.json.Decoder(_Value)


def write_output(connections: KafkaConnections, topic: str, partitions: int, path: Path) -> int:
    """Write every record of the topic, and return their number. A record without a tick stays after its predecessor.

    Raises:
        UsageError: the file cannot be written.
        UnreachableError: the topic cannot be read.
    """
    parts = [_read_partition(connections, topic, partition) for partition in range(partitions)]
    written = 0
    try:
        with path.open("wb") as file:
            for _tick, _partition, _offset, line in heapq.merge(*parts):
                file.write(line)
                written += 1
    except OSError as error:
        raise UsageError(f"--alerts {path} cannot be written: {error.strerror or error}") from error
    return written


def _read_partition(connections: KafkaConnections, topic: str, partition: int) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield (tick, partition, offset, line)."""
    tick = _BEFORE_ALL
    for offset, record in read_partition(connections, topic, partition):
        named = _VALUES.decode(record.value).tick
        tick = tick if named is None else named
        yield tick, partition, offset, _write_line(record, partition, offset)


def _write_line(record: OutputRecord, partition: int, offset: int) -> bytes:
    headers = {name: value.decode() for name, value in record.headers}
    line = _Line(record.key.decode(), headers, msgspec.Raw(record.value), partition, offset)
    return _ENCODER.encode(line) + b"\n"


KEY_BYTES = 32


@contextmanager
def start_embedded(valid: ValidConfig, report: Callable[[str], None]) -> Iterator[Settings]:
    """Start a real Kafka and Valkey, and yield settings with their addresses and a random key for person ids.

    Raises:
        EmbeddedError: the servers cannot be downloaded or started.
    """
    with start_servers(report) as servers:
        moved = _move(valid.config, servers.kafka.bootstrap_servers, servers.valkey.url)
        yield prepare_settings(replace(valid, config=moved), os.urandom(KEY_BYTES))


def _move(config: Config, bootstrap_servers: str, redis_url: str) -> Config:
    kafka = KafkaSettings(
        bootstrap_servers=(bootstrap_servers,), topics=config.kafka.topics, partitions=config.kafka.partitions
    )
    return config.model_copy(update={"kafka": kafka, "redis": RedisSettings(url=SecretStr(redis_url))})
