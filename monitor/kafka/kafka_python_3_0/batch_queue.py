"""Hand encoded batches to a producer (`monitor.kafka.record_batches`), which kafka-python has no public way to do.

`KafkaProducer.send` takes a record at a time, and 50 µs for each. Upstream: dpkp/kafka-python#1877 ("Writing data using
KafkaProducer is too slow") was closed without a change.
"""

# ruff: noqa: SLF001  # the queue and the builder of batches are private
from __future__ import annotations

from typing import Any, Final

from kafka import TopicPartition
from kafka.errors import KafkaError
from kafka.producer.producer_batch import ProducerBatch
from kafka.record.memory_records import MemoryRecordsBuilder

from monitor.kafka.record_batches import RecordBatch

_MAGIC: Final = 2


class _FilledBuilder(MemoryRecordsBuilder):  # type: ignore[misc]  # kafka-python ships no types
    """A builder of kafka-python that already contains its records, and accepts no others."""

    def __init__(self, batch: RecordBatch) -> None:
        super().__init__(_MAGIC, 0, len(batch.body))
        builder = self._builder
        builder._buffer += batch.body
        builder._num_records, builder._last_offset = batch.records, batch.records - 1
        builder._first_timestamp, builder._max_timestamp = batch.first_timestamp, batch.max_timestamp
        self._next_offset = batch.records

    def append(self, *_record: object) -> None:
        """Return None, as a full batch does: it has no space for the record."""


def enqueue_batch(producer: Any, topic: str, partition: int, batch: RecordBatch) -> Any:
    """Add a batch to a partition's queue in an idempotent producer; return the future of its first offset.

    `KafkaProducer.flush` sends it. Read the future with `find_first_offset` after the flush.
    """
    topic_partition = TopicPartition(topic, partition)
    accumulator = producer._accumulator
    if producer._transaction_manager.is_transactional():
        producer._transaction_manager.maybe_add_partition_to_transaction(topic_partition)
    enqueued = ProducerBatch(topic_partition, _FilledBuilder(batch))
    with accumulator._tp_lock(topic_partition):
        accumulator._batches[topic_partition].append(enqueued)
        accumulator._incomplete.add(enqueued)
    producer._sender.wakeup()
    return enqueued.produce_future


def find_error(future: Any) -> KafkaError | None:
    """Return why a batch is not known to be in the log; None if it is there."""
    failure: KafkaError | None = None
    try:
        find_first_offset(future)
    except KafkaError as error:
        failure = error
    return failure


def find_first_offset(future: Any) -> int:
    """Return the offset of the first record of a batch that was sent.

    Raises:
        KafkaError: the batch was refused, or its outcome is not known.
    """
    if not future.is_done:
        raise KafkaError("a batch was not acknowledged")
    if future.failed():
        raise future.exception
    offset, _, errors = future.value
    if errors is not None:
        raise errors(0)
    return int(offset)


def find_timestamp(future: Any, given: int) -> int:
    """Return the latest timestamp of a batch that is in the log, in milliseconds.

    This is the broker's, if the topic has `LogAppendTime`. Otherwise it is the one that was `given`.
    """
    appended = int(future.value[1])
    return given if appended < 0 else appended
