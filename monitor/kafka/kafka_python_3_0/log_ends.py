"""Ask the leaders of partitions for their log end offsets, for which kafka-python has no request.

No issue upstream was found: clients normally need the offset up to which records are replicated.
"""

# ruff: noqa: SLF001  # requests to a given broker are private
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka import OffsetSpec
from kafka.errors import for_code
from kafka.protocol.admin import DescribeProducersRequest
from kafka.protocol.consumer import ListOffsetsRequest

# A leader returns the high watermark to a consumer, and its log end offset to this replica id.
_DEBUGGING_REPLICA_ID: Final = -2
_EPOCHS_VERSION: Final = 4  # the first version of the request in which the broker checks the leader epoch


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of a partition, and its epoch."""

    node: int
    epoch: int


def read_log_ends(admin: Any, topic: str, leaders: Mapping[int, Leader]) -> dict[int, int]:
    """Return the log end offset by partition, as its leader reports it.

    A leader may have stamped a batch that it is still decompressing, so each leader first has to finish these batches.

    Raises:
        KafkaError: a broker does not answer, or is not the leader any more.
    """
    return dict(admin._manager.run(_request_log_ends, admin, topic, leaders))


async def _request_log_ends(admin: Any, topic: str, leaders: Mapping[int, Leader]) -> list[tuple[int, int]]:
    """Send all requests before the first answer is awaited. A broker answers those of one connection in their order."""
    sent = []
    for node in sorted({leader.node for leader in leaders.values()}):
        led = {partition: leader.epoch for partition, leader in leaders.items() if leader.node == node}
        requests = (_build_barrier(topic, led), _build_request(topic, led))
        sent += [admin._manager.send(request, node_id=node) for request in requests]
    answered = [_require_answer(await response, topic) for response in sent]
    return [(partition.partition_index, partition.offset) for ends in answered[1::2] for partition in ends]


def _require_answer(response: Any, topic: str) -> Any:
    """Return what a broker answers about partitions of the topic. Raises a KafkaError if it refuses one."""
    answered = response.topics[0].partitions
    for partition in answered:
        if partition.error_code:
            raise for_code(partition.error_code)(f"log end offset of {topic}-{partition.partition_index}")
    return answered


def _build_barrier(topic: str, partitions: Iterable[int]) -> Any:
    """Return a request that a leader answers only after it has appended every batch that it has stamped.

    Until then it does not begin the next request of the connection.

    A leader stamps a batch, decompresses it and appends it under the lock of the partition's log, and it takes the same
    lock to list the active producers (`UnifiedLog.append` and `activeProducers` of Apache Kafka 3 and 4). It takes no
    lock to return its log end offset. What it lists is not used.
    """
    asked = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=list(partitions))
    return DescribeProducersRequest(topics=[asked])


def _build_request(topic: str, epochs: Mapping[int, int]) -> Any:
    asked = ListOffsetsRequest.ListOffsetsTopic
    partitions = [
        asked.ListOffsetsPartition(partition_index=partition, current_leader_epoch=epoch, timestamp=OffsetSpec.LATEST)
        for partition, epoch in epochs.items()
    ]
    return ListOffsetsRequest(
        replica_id=_DEBUGGING_REPLICA_ID,
        isolation_level=0,
        topics=[asked(name=topic, partitions=partitions)],
        min_version=_EPOCHS_VERSION,
    )
