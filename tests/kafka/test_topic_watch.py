"""Changes of topic settings while the service runs are detected, on a real Kafka."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import KafkaConnectionError

from monitor.errors import TopicError
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.topics import TopicWatch
from tests.topic_fixtures import TopicSet


class Monotonic:
    """A monotonic clock in seconds that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def _create(topic_set: TopicSet) -> None:
    topic_set.create_topics()


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
def test_next_check_refuses_changed_setting(topic_of: str, setting: str, value: str, topic_set: TopicSet) -> None:
    """A changed setting is refused at the next scheduled check, with the command that corrects it."""
    monotonic = Monotonic()
    watch = TopicWatch(topic_set.connections, topic_set.needs, 60, monotonic)
    monotonic.now = 60
    assert watch.look()
    name = getattr(topic_set.names, topic_of)
    topic_set.alter(name, **{setting.replace(".", "_"): value})
    monotonic.now = 119
    assert not watch.look()
    monotonic.now = 120
    with pytest.raises(TopicError, match=f"{name}', whose {setting} is {value}: expected .*kafka-configs.sh"):
        watch.look()


def test_deleted_topic_is_ignored(topic_set: TopicSet) -> None:
    """A deleted topic is left to the parts that use it."""
    monotonic = Monotonic()
    watch = TopicWatch(topic_set.connections, topic_set.needs, 60, monotonic)
    topic_set.admin.delete_topics([topic_set.needs[2].topic])
    monotonic.now = 60
    assert watch.look()


def test_unreachable_brokers_are_retried(topic_set: TopicSet) -> None:
    """If Kafka does not answer, the check is repeated later."""

    class Away(KafkaConnections):
        def create_admin(self) -> Any:
            raise self.make_unreachable_error(KafkaConnectionError("refused"))

    monotonic = Monotonic()
    watch = TopicWatch(Away(("nowhere:9092",)), topic_set.needs, 60, monotonic)
    monotonic.now = 60
    assert not watch.look()
