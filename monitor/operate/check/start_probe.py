"""Find out what a configuration would read again, without reading it: for `check --live`.

`StartOffsets` decides, as in the service, with a consumer without a group. Nothing is recorded.
"""

from __future__ import annotations

from monitor.ingest.offsets import InputOffsets
from monitor.ingest.start_offsets import CONTINUES, StartOffsets
from monitor.kafka.connections import KafkaConnections
from monitor.kinds.parameters import Parameters
from monitor.operate.check.live_report import PartitionStart
from monitor.store.redis_store import RedisStore


class InputProbe(InputOffsets):
    """The input topic, read without a group. The caller must `close` it. Not thread-safe.

    Raises:
        UnreachableError: (any method) Kafka does not answer.
    """

    def __init__(
        self, connections: KafkaConnections, topic: str, topic_id: str, service: str, *, read_before: bool = False
    ) -> None:
        super().__init__(connections, topic, topic_id, service, read_before=read_before)
        self._consumer = connections.create_consumer(isolation_level="read_committed")

    def close(self) -> None:
        """Close the consumers."""
        self.close_single()
        self._consumer.close(autocommit=False)


def plan_starts(
    parameters: Parameters, source: InputProbe, store: RedisStore, partitions: int
) -> tuple[tuple[PartitionStart, ...], int]:
    """Return what a new instance would read of each input partition, and the slot from which its facts are complete.

    Args:
        parameters: the parameters of the new configuration.
        source: the input topic.
        store: the facts of this configuration.
        partitions: the number of input partitions.

    Raises:
        UnreachableError: a server does not answer.
    """
    stored, starts = store.read_shards(), StartOffsets(parameters, source, store)
    progress = [shard.progress for shard in stored]
    complete_from = max(shard.complete_from for shard in stored)
    planned = []
    for partition in range(partitions):
        start = starts.find(partition, progress)
        if start.cause != CONTINUES:
            complete_from = max(complete_from, start.complete_from)
        planned.append(PartitionStart(partition, start.offset, source.read_bounds(partition)[1], start.cause))
    return tuple(planned), complete_from
