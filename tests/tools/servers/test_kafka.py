"""The embedded Kafka is a real Kafka: records, restarts, several nodes, secured listeners."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from monitor.errors import EmbeddedError
from monitor.tools.servers import EmbeddedKafka, NodeSettings
from tests.shared_kafka import SharedKafka


@pytest.fixture(scope="module")
def own_kafka(kafka: SharedKafka) -> Iterator[EmbeddedKafka]:
    """A broker that tests may kill. The fixture `kafka` skips them where Kafka is not available."""
    with EmbeddedKafka() as server:
        yield server


def _create(bootstrap_servers: str, topic: str, replicas: int = 1) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers)) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=replicas)])


def _produce(bootstrap_servers: str, topic: str, value: bytes) -> None:
    with closing(KafkaProducer(bootstrap_servers=bootstrap_servers, acks="all")) as producer:
        producer.send(topic, value).get(timeout=20)


def _read_values(bootstrap_servers: str, topic: str) -> list[bytes]:
    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap_servers, group_id=None, auto_offset_reset="earliest")
    with closing(consumer):
        return [record.value for records in consumer.poll(10_000).values() for record in records]


def test_produce_and_consume_record(kafka: SharedKafka, topic: Callable[[str], str]) -> None:
    """A record can be produced and consumed."""
    name = topic("records")
    _create(kafka.bootstrap_servers, name)
    _produce(kafka.bootstrap_servers, name, b"here")
    assert _read_values(kafka.bootstrap_servers, name) == [b"here"]


def test_records_survive_restart_and_kill(own_kafka: EmbeddedKafka, topic: Callable[[str], str]) -> None:
    """Records and the port are kept over a restart and a SIGKILL."""
    name, address = topic("kept"), own_kafka.bootstrap_servers
    _create(address, name)
    _produce(address, name, b"before")
    own_kafka.restart()
    _produce(address, name, b"between")
    own_kafka.kill()
    own_kafka.restart()
    assert own_kafka.bootstrap_servers == address
    assert _read_values(address, name) == [b"before", b"between"]


def test_second_node_joins_and_replicates(own_kafka: EmbeddedKafka, topic: Callable[[str], str]) -> None:
    """A second node joins the cluster and becomes a replica."""
    name = topic("replicated")
    with EmbeddedKafka(NodeSettings(node_id=2, quorum=own_kafka.quorum)) as second:
        _create(second.bootstrap_servers, name, replicas=2)
        _produce(second.bootstrap_servers, name, b"twice")
        with closing(KafkaAdminClient(bootstrap_servers=second.bootstrap_servers)) as admin:
            partition = admin.describe_topics([name])[0]["partitions"][0]
        assert sorted(partition["replica_nodes"]) == [1, 2]


def test_secured_listener_accepts_password(kafka: SharedKafka) -> None:
    """A client with the right password can use the secured listener."""
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="wonderland";'
    properties = {"sasl.enabled.mechanisms": "PLAIN", "listener.name.secure.plain.sasl.jaas.config": login}
    with EmbeddedKafka(NodeSettings(properties=properties, secure_protocol="SASL_PLAINTEXT")) as server:
        admin = KafkaAdminClient(
            bootstrap_servers=server.secure_bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username="alice",
            sasl_plain_password="wonderland",  # noqa: S106 - of this test's server
        )
        with closing(admin):
            assert len(admin.describe_cluster()["brokers"]) == 1


def test_failed_start_is_reported(kafka: SharedKafka) -> None:
    """The error of a broker that ends while it starts contains its exit code and the end of its log."""
    with pytest.raises(EmbeddedError, match=r"(?s)Kafka ended with exit code .*last lines.*KafkaServer"):
        EmbeddedKafka(NodeSettings(secure_protocol="SASL_PLAINTEXT")).start()
