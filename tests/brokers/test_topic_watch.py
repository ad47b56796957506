"""Settings that somebody changes while the service runs are seen, on a real Kafka."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError

from monitor.brokers.connections import KafkaConnections
from monitor.brokers.topic_watch import TopicWatch
from monitor.brokers.topics import TopicNeeds, create_topics, list_topic_needs
from monitor.config.servers import KafkaSettings
from monitor.errors import TopicError
from monitor.public.parameters import Parameters


class Monotonic:
    """A monotonic clock that is moved by hand, in seconds."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def wanted(
    connections: KafkaConnections, parameters: Parameters, kafka_settings: KafkaSettings
) -> tuple[TopicNeeds, ...]:
    """What the topics must be like, and are."""
    made = list_topic_needs(parameters, kafka_settings, simulated=False)
    create_topics(connections, made, 1)
    return made


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
def test_a_setting_that_no_longer_suffices_is_told_at_the_next_look_with_what_mends_it(
    topic_of: str,
    setting: str,
    value: str,
    connections: KafkaConnections,
    wanted: tuple[TopicNeeds, ...],
    kafka_settings: KafkaSettings,
    altered: Callable[..., None],
) -> None:
    """Nothing is asked before it is time to."""
    monotonic = Monotonic()
    watch = TopicWatch(connections, wanted, 60, monotonic)
    monotonic.now = 60
    assert watch.look()
    name = getattr(kafka_settings.topics, topic_of)
    altered(name, **{setting.replace(".", "_"): value})
    monotonic.now = 119
    assert not watch.look()
    monotonic.now = 120
    with pytest.raises(TopicError, match=f"{name}', whose {setting} is {value}: expected .*kafka-configs.sh"):
        watch.look()


def test_a_topic_that_is_gone_is_left_to_who_uses_it(
    connections: KafkaConnections, wanted: tuple[TopicNeeds, ...], admin: Any, eventually: Callable[..., Any]
) -> None:
    """A tick finds that the input was made anew, a letter that the dead letters' topic is away."""
    monotonic = Monotonic()
    watch = TopicWatch(connections, wanted, 60, monotonic)
    admin.delete_topics([wanted[2].topic])
    monotonic.now = 60
    assert watch.look()


def test_brokers_that_are_away_are_asked_later(wanted: tuple[TopicNeeds, ...]) -> None:
    """That they are away is said by all who need them."""

    class Away(KafkaConnections):
        def admin(self) -> Any:
            raise self.unreachable_error(KafkaConnectionError("refused"))

    monotonic = Monotonic()
    watch = TopicWatch(Away(("nowhere:9092",)), wanted, 60, monotonic)
    monotonic.now = 60
    assert not watch.look()
