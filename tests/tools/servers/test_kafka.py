"""The embedded Kafka is a real Kafka: its records last, and a failed start is explained."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from monitor.errors import EmbeddedError
from monitor.tools.servers import EmbeddedKafka, NodeSettings
from tests.shared_kafka import SharedKafka


def _produce(bootstrap_servers: str, topic: str, value: bytes) -> None:
    with closing(KafkaProducer(bootstrap_servers=bootstrap_servers, acks="all")) as producer:
        producer.send(topic, value).get(timeout=20)


@pytest.mark.usefixtures("kafka")
def test_records_survive_restart_and_kill(topic: Callable[[str], str]) -> None:
    """Records and the port are kept over a restart and a SIGKILL."""
    name = topic("kept")
    with EmbeddedKafka() as server:
        address = server.bootstrap_servers
        with closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
            admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)])
        _produce(address, name, b"before")
        server.restart()
        _produce(address, name, b"between")
        server.kill()
        server.restart()
        assert server.bootstrap_servers == address
        consumer = KafkaConsumer(name, bootstrap_servers=address, group_id=None, auto_offset_reset="earliest")
        with closing(consumer):
            values = [record.value for records in consumer.poll(10_000).values() for record in records]
    assert values == [b"before", b"between"]


def test_failed_start_is_reported(kafka: SharedKafka) -> None:
    """The error of a broker that ends while it starts contains its exit code and the end of its log."""
    with pytest.raises(EmbeddedError, match=r"(?s)Kafka ended with exit code .*last lines.*KafkaServer"):
        EmbeddedKafka(NodeSettings(secure_protocol="SASL_PLAINTEXT")).start()
