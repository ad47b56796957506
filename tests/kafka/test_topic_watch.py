"""Changes of topic settings while the service runs are detected, on a real Kafka."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError

from monitor.config.servers import KafkaSettings
from monitor.contracts.parameters import Parameters
from monitor.errors import TopicError
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.topics import TopicNeeds, TopicWatch, create_topics, list_topic_needs


class Monotonic:
    """A monotonic clock in seconds that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def wanted(
    connections: KafkaConnections, parameters: Parameters, kafka_settings: KafkaSettings
) -> tuple[TopicNeeds, ...]:
    """The needs of topics that exist with these settings."""
    needs = list_topic_needs(parameters, kafka_settings)
    create_topics(connections, needs, 1)
    return needs


@pytest.mark.promise(36)
@pytest.mark.parametrize(
    ("topic_of", "setting", "value"),
    [
        ("visits", "message.timestamp.type", "CreateTime"),
        ("visits", "retention.ms", "60000"),
        ("visits", "cleanup.policy", "compact"),
        ("alerts", "cleanup.policy", "compact,delete"),
        ("alerts", "max.message.bytes", "9000"),
        ("alerts", "unclean.leader.election.enable", "true"),
    ],
)
def test_next_check_refuses_changed_setting(
    topic_of: str,
    setting: str,
    value: str,
    connections: KafkaConnections,
    wanted: tuple[TopicNeeds, ...],
    kafka_settings: KafkaSettings,
    alter_topic: Callable[..., None],
) -> None:
    """A changed setting is refused at the next scheduled check, with the command that corrects it."""
    monotonic = Monotonic()
    watch = TopicWatch(connections, wanted, 60, monotonic)
    monotonic.now = 60
    assert watch.look()
    name = getattr(kafka_settings.topics, topic_of)
    alter_topic(name, **{setting.replace(".", "_"): value})
    monotonic.now = 119
    assert not watch.look()
    monotonic.now = 120
    with pytest.raises(TopicError, match=f"{name}', whose {setting} is {value}: expected .*kafka-configs.sh"):
        watch.look()


def test_deleted_topic_is_ignored(
    connections: KafkaConnections, wanted: tuple[TopicNeeds, ...], admin: Any, eventually: Callable[..., Any]
) -> None:
    """A deleted topic is left to the parts that use it."""
    monotonic = Monotonic()
    watch = TopicWatch(connections, wanted, 60, monotonic)
    admin.delete_topics([wanted[2].topic])
    monotonic.now = 60
    assert watch.look()


def test_unreachable_brokers_are_retried(wanted: tuple[TopicNeeds, ...]) -> None:
    """If Kafka does not answer, the check is repeated later."""

    class Away(KafkaConnections):
        def create_admin(self) -> Any:
            raise self.make_unreachable_error(KafkaConnectionError("refused"))

    monotonic = Monotonic()
    watch = TopicWatch(Away(("nowhere:9092",)), wanted, 60, monotonic)
    monotonic.now = 60
    assert not watch.look()
