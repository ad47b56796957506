"""Find out what a configuration would read again, without reading it: for `check --live`.

`StartOffsets` decides, as in the service. Here it is connected to a consumer without a group, and to windows that
record what it would change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from monitor.contracts.parameters import Parameters
from monitor.ingest.interfaces import DeadLetter
from monitor.ingest.offsets import InputOffsets
from monitor.ingest.start_offsets import StartOffsets
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.kafka_python_3_0.batches import Unreadable
from monitor.store.probe import StoredShard

CONTINUES: Final = ""
"""The cause of a reading that continues where the facts end."""


@dataclass(frozen=True, slots=True)
class PlannedReading:
    """What a new instance would read of an input partition.

    `start`, `end`: the offset at which it starts, and the present end. `complete_from`: the slot from which the facts
    of all shards are then complete. `cause`: why it does not continue where the facts end (the label of
    `recoveries_total`); `CONTINUES` if it does.
    """

    partition: int
    start: int
    end: int
    complete_from: int
    cause: str

    @property
    def records(self) -> int:
        """The most records that it reads until it has caught up."""
        return max(0, self.end - self.start)


class InputProbe(InputOffsets):
    """The input topic, read without a group. The caller must `close` it. Not thread-safe.

    Raises:
        UnreachableError: (any method) Kafka does not answer.
    """

    def __init__(self, connections: KafkaConnections, topic: str, topic_id: str, service: str) -> None:
        super().__init__(connections, topic, topic_id, service)
        self.truncated: dict[int, int] = {}
        self.unread: dict[int, Unreadable] = {}
        self._consumer = connections.create_consumer(isolation_level="read_committed")

    def commit_starts(self, offsets: Mapping[int, int]) -> None:
        """Do nothing: a probe has no group."""

    def close(self) -> None:
        """Close the consumers."""
        self.close_single()
        self._consumer.close(autocommit=False)


@dataclass(slots=True)
class _Notes:
    """A recorder of what `StartOffsets` would change, in place of the windows, the metrics and the dead letters."""

    now: int
    cause: str = CONTINUES
    complete_from: int | None = None
    letters: list[DeadLetter] = field(default_factory=list)

    def begin(self, partition: int, offset: int, complete_from: int) -> None:
        """Record from which slot the facts would be complete."""
        del partition, offset
        self.complete_from = complete_from

    restart = begin

    def time(self, shards: Collection[int] = (0,)) -> int:
        """Return the present instant by Redis's clock."""
        del shards
        return self.now

    def count_recovery(self, cause: str) -> None:
        """Record why reading would start elsewhere."""
        self.cause = cause

    def count_batch(self, records: int, fates: Mapping[str, int], reasons: Mapping[str, int], seconds: float) -> None:
        """Do nothing: nothing is read."""

    def put(self, letters: Sequence[DeadLetter]) -> None:
        """Keep dead letters that would be written. There are none, because nothing is read."""
        self.letters += letters


def plan_readings(
    parameters: Parameters, source: InputProbe, stored: Sequence[StoredShard], partitions: int, now: int
) -> list[PlannedReading]:
    """Return what a new instance would read of each input partition.

    Args:
        parameters: the parameters of the new configuration.
        source: the input topic.
        stored: what Redis contains for this configuration, by shard.
        partitions: the number of input partitions.
        now: the present instant by Redis's clock.

    Raises:
        UnreachableError: Kafka does not answer.
    """
    return [_plan(parameters, source, stored, partition, now) for partition in range(partitions)]


def _plan(
    parameters: Parameters, source: InputProbe, stored: Sequence[StoredShard], partition: int, now: int
) -> PlannedReading:
    notes = _Notes(now)
    starts = StartOffsets(parameters, source, notes, notes, notes)
    start = starts.find(partition, [shard.progress for shard in stored])
    since = [shard.complete_from for shard in stored]
    if notes.complete_from is not None:
        since.append(notes.complete_from)
    return PlannedReading(partition, start, source.read_bounds(partition)[1], max(since), notes.cause)
