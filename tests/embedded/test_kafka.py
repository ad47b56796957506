"""The embedded Kafka is a real one: records, restarts, several nodes, secured listeners."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from monitor.errors import EmbeddedError
from monitor.tools.embedded import EmbeddedKafka, NodeSettings


@pytest.fixture(scope="module")
def own_kafka(kafka: EmbeddedKafka) -> Iterator[EmbeddedKafka]:
    """A broker that tests may harm; asking for the shared one first skips them where Kafka cannot be had."""
    with EmbeddedKafka() as server:
        yield server


def _create(bootstrap_servers: str, topic: str, replicas: int = 1) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers)) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=replicas)])


def _produce(bootstrap_servers: str, topic: str, value: bytes) -> None:
    with closing(KafkaProducer(bootstrap_servers=bootstrap_servers, acks="all")) as producer:
        producer.send(topic, value).get(timeout=20)


def _values(bootstrap_servers: str, topic: str) -> list[bytes]:
    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap_servers, group_id=None, auto_offset_reset="earliest")
    with closing(consumer):
        return [record.value for records in consumer.poll(10_000).values() for record in records]


def test_a_record_goes_in_and_comes_out(kafka: EmbeddedKafka, topic: Callable[[str], str]) -> None:
    name = topic("records")
    _create(kafka.bootstrap_servers, name)
    _produce(kafka.bootstrap_servers, name, b"here")
    assert _values(kafka.bootstrap_servers, name) == [b"here"]


def test_records_and_port_outlive_a_restart_and_a_kill(own_kafka: EmbeddedKafka, topic: Callable[[str], str]) -> None:
    name, address = topic("kept"), own_kafka.bootstrap_servers
    _create(address, name)
    _produce(address, name, b"before")
    own_kafka.restart()
    _produce(address, name, b"between")
    own_kafka.kill()
    own_kafka.restart()
    assert own_kafka.bootstrap_servers == address
    assert _values(address, name) == [b"before", b"between"]


def test_a_second_node_joins_and_takes_over_when_asked_to_replicate(
    own_kafka: EmbeddedKafka, topic: Callable[[str], str]
) -> None:
    name = topic("replicated")
    with EmbeddedKafka(NodeSettings(node_id=2, quorum=own_kafka.quorum)) as second:
        _create(second.bootstrap_servers, name, replicas=2)
        _produce(second.bootstrap_servers, name, b"twice")
        with closing(KafkaAdminClient(bootstrap_servers=second.bootstrap_servers)) as admin:
            partition = admin.describe_topics([name])[0]["partitions"][0]
        assert sorted(partition["replica_nodes"]) == [1, 2]


def test_a_secured_listener_lets_in_who_knows_the_password(kafka: EmbeddedKafka) -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="wonderland";'
    properties = {"sasl.enabled.mechanisms": "PLAIN", "listener.name.secure.plain.sasl.jaas.config": login}
    with EmbeddedKafka(NodeSettings(properties=properties, secure_protocol="SASL_PLAINTEXT")) as server:
        admin = KafkaAdminClient(
            bootstrap_servers=server.secure_bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username="alice",
            sasl_plain_password="wonderland",  # noqa: S106 - of a server that lives for this test
        )
        with closing(admin):
            assert len(admin.describe_cluster()["brokers"]) == 1


def test_a_setting_that_kafka_refuses_is_shown_with_its_reason(kafka: EmbeddedKafka) -> None:
    with pytest.raises(EmbeddedError, match=r"(?s)Kafka could not be prepared.*last lines.*num\.io\.threads"):
        EmbeddedKafka(NodeSettings(properties={"num.io.threads": "many"})).start()


def test_a_broker_that_ends_while_starting_is_shown_with_its_reason(kafka: EmbeddedKafka) -> None:
    with pytest.raises(EmbeddedError, match=r"(?s)Kafka ended with exit code .*last lines.*KafkaServer"):
        EmbeddedKafka(NodeSettings(secure_protocol="SASL_PLAINTEXT")).start()
