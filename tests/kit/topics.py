"""Topics of tests: their creation, and reading whole topics with a plain consumer, without the service's code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Final, Literal

from kafka import KafkaConsumer, TopicPartition

from monitor.kafka.connections import KafkaConnections
from monitor.kafka.kafka_python_3_0.fetcher import FetchState, read_leniently
from tests.kit.waiting import until

ANY_TIME: Final = {
    "retention.ms": "-1",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.after.max.ms": str(2**63 - 1),
}
"""The settings of a topic that accepts and keeps records of any time."""

POLL_MS: Final = 100

Isolation = Literal["read_committed", "read_uncommitted"]


def create_topic(
    connections: KafkaConnections, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> None:
    """Create a topic with one replica. Without `configs` that say otherwise, it keeps records of any time."""
    settings = {"num_partitions": partitions, "replication_factor": 1, "configs": {**ANY_TIME, **(configs or {})}}
    with closing(connections.create_admin()) as admin:
        admin.create_topics({name: settings}, wait_for_metadata=True)


def recreate_topic(connections: KafkaConnections, name: str, partitions: int = 1) -> None:
    """Delete a topic, and create another one of the same name."""
    with closing(connections.create_admin()) as admin:
        admin.delete_topics([name])
        until(lambda: name not in admin.list_topics(), 30)
        create_topic(connections, name, partitions)


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


def open_input(connections: KafkaConnections, **settings: str) -> Any:
    """Return a consumer as the audit opens it, but for an input whose records have the stamps that tests gave them."""
    return read_leniently(connections.create_consumer(**settings), FetchState(tries=1, stamped_by_brokers=False))


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
