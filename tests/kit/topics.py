"""Reading whole topics with a plain consumer of kafka-python, without the service's code."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final, Literal

from kafka import KafkaConsumer, TopicPartition

POLL_MS: Final = 100

Isolation = Literal["read_committed", "read_uncommitted"]


def read_topic(servers: Sequence[str], topic: str, isolation: Isolation = "read_committed") -> list[Any]:
    """Return all records up to the present end offsets, by partition and offset, as kafka-python's records."""
    all_records: list[Any] = []
    with closing(open_consumer(servers, isolation)) as consumer:
        partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        consumer.seek_to_beginning(*partitions)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            for records in consumer.poll(timeout_ms=POLL_MS).values():
                all_records += records
    return sorted(all_records, key=lambda record: (record.partition, record.offset))


def open_consumer(servers: Sequence[str], isolation: Isolation) -> Any:
    """Return a consumer without a group that reads from the beginning and sees new partitions within a second."""
    return KafkaConsumer(
        bootstrap_servers=list(servers),
        isolation_level=isolation,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        allow_auto_create_topics=False,
        metadata_max_age_ms=1_000,
        fetch_max_wait_ms=100,
    )


def read_header(record: Any, name: str) -> str:
    """Return a header's text; empty if there is none."""
    return next((value.decode() for key, value in record.headers if key == name), "")
