"""Whole topics, read back by a plain consumer of kafka-python: none of the service's reading code is used."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final, Literal

from kafka import KafkaConsumer, TopicPartition

POLL_MS: Final = 100

Isolation = Literal["read_committed", "read_uncommitted"]


def read_topic(servers: Sequence[str], topic: str, isolation: Isolation) -> list[Any]:
    """Every record of all partitions, up to its present end, by partition and offset (kafka-python's records)."""
    read: list[Any] = []
    with closing(plain_consumer(servers, isolation)) as consumer:
        places = [TopicPartition(topic, partition) for partition in sorted(consumer.partitions_for_topic(topic) or ())]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        consumer.seek_to_beginning(*places)
        while any(consumer.position(place) < end for place, end in ends.items()):
            for records in consumer.poll(timeout_ms=POLL_MS).values():
                read += records
    return sorted(read, key=lambda record: (record.partition, record.offset))


def plain_consumer(servers: Sequence[str], isolation: Isolation) -> Any:
    """A consumer in no group that begins where the log does, and sees new partitions within a second."""
    return KafkaConsumer(
        bootstrap_servers=list(servers),
        isolation_level=isolation,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        allow_auto_create_topics=False,
        metadata_max_age_ms=1_000,
        fetch_max_wait_ms=100,
    )


def header(record: Any, name: str) -> str:
    """A header's text; empty if it is not there."""
    return next((value.decode() for key, value in record.headers if key == name), "")
