"""Fixtures for all tests: small parameters, and separate topics on a real Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
from kafka import OffsetSpec, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from monitor.config.kafka_and_redis import KafkaSettings, TopicNames
from monitor.contracts.instants import DAY, HOUR
from monitor.contracts.parameters import AtTimes, Parameters
from monitor.contracts.schedule import Schedule
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.topics import (
    TopicDescription,
    TopicNeeds,
    check_topics,
    create_topics,
    describe_topics,
    list_topic_needs,
)
from monitor.privacy.over_time import OverTimeRule
from monitor.service.create_topics import Beginning, SetupResult, set_up
from monitor.service.preflight import Preflight, run_preflight
from tests.builders import build_parameters, watch
from tests.shared_kafka import SharedKafka

_POLL_SECONDS = 0.05


def read_topic_id(admin: Any, topic: str, deadline_seconds: float = 20.0) -> str:
    """Return the id of a new topic, once the broker that is asked knows the topic.

    Raises:
        AssertionError: no broker returned an id in time.
    """
    deadline = time.monotonic() + deadline_seconds
    while (described := admin.describe_topics([topic])[0])["error_code"] or not described["topic_id"]:
        assert time.monotonic() < deadline, f"{topic} has no id: {described}"
        time.sleep(_POLL_SECONDS)
    return str(described["topic_id"])


@pytest.fixture(scope="session")
def parameters() -> Parameters:
    """Hourly slots; "stations" watches two of eight places in two shards, W = 24, F = 1; noon has a horizon of 6 hours.

    A period of three days touches 73 slots, whose visits are in the counts of N = 97 ticks, 3·25 + 22.
    """
    stations = watch("stations", (0, 1), OverTimeRule(Fraction(1, 2), 1, 3, 24, 1))
    noon = AtTimes("noon", Schedule.of(("12:00",), "UTC"), Fraction(1), 3, 6 * HOUR)
    return build_parameters(8, shards=2, max_lead=1, over_time=[stations], at_times=[noon], period=3 * DAY)


@pytest.fixture
def connections(kafka: SharedKafka) -> KafkaConnections:
    """Connections to the session's Kafka."""
    return KafkaConnections((kafka.bootstrap_servers,))


@pytest.fixture
def admin(connections: KafkaConnections) -> Iterator[Any]:
    """An admin client."""
    with closing(connections.create_admin()) as client:
        yield client


@pytest.fixture
def kafka_settings(topic: Callable[[str], str]) -> KafkaSettings:
    """The section `kafka` of a configuration, with unique topics."""
    return KafkaSettings.model_validate(
        {
            "bootstrap_servers": ["localhost:9092"],
            "topics": {name: topic(name.replace("_", "-")) for name in ("visits", "alerts", "dead_letters")},
            "partitions": {"visits": 3, "alerts": 2},
        }
    )


@dataclass(frozen=True)
class TopicSet:
    """The three topics of `settings` on the session's Kafka, which do not exist yet, and their ledger."""

    connections: KafkaConnections
    parameters: Parameters
    settings: KafkaSettings
    admin: Any
    eventually: Callable[..., Any]

    @property
    def names(self) -> TopicNames:
        """The names of the topics."""
        return self.settings.topics

    @property
    def needs(self) -> tuple[TopicNeeds, ...]:
        """What each topic needs."""
        return list_topic_needs(self.parameters, self.settings)

    def describe(self, *topics: str) -> dict[str, TopicDescription]:
        """Return the description of those topics that exist."""
        return describe_topics(self.admin, topics)

    def create(
        self,
        beginning: Beginning = Beginning.UNSPECIFIED,
        now: int = 0,
        parameters: Parameters | None = None,
        lost_by: int | None = None,
    ) -> SetupResult:
        """Create the topics and begin the ledger, as `topics --create` does."""
        at = now or self.parameters.grid.start(10)
        return set_up(self.connections, parameters or self.parameters, self.needs, beginning, at, lost_by=lost_by)

    def create_topics(self) -> list[str]:
        """Create those topics that do not exist, with one replica and without a ledger, and return their names."""
        return create_topics(self.connections, self.needs, 1)

    def check(self) -> dict[str, TopicDescription]:
        """Check the settings of the topics."""
        return check_topics(self.connections, self.needs)

    def preflight(self, parameters: Parameters | None = None) -> Preflight:
        """Run the preflight checks as `run` does."""
        of = parameters or self.parameters
        return run_preflight(self.connections, of, list_topic_needs(of, self.settings), self.names.alerts)

    def alter(self, topic: str, **settings: str) -> None:
        """Change settings, such as retention_ms="1000", and wait until the broker returns them."""
        configs = {key.replace("_", "."): value for key, value in settings.items()}
        self.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=configs)])
        self.eventually(lambda: self.describe(topic)[topic].settings.items() >= configs.items())

    def empty(self, partition: int) -> None:
        """Delete the first record of a ledger partition and its marker, as retention does."""
        place = TopicPartition(self.names.alerts, partition)
        # The transaction marker is written shortly after the commit.
        self.eventually(lambda: self.admin.list_partition_offsets({place: OffsetSpec.LATEST})[place].offset == 2)
        self.admin.delete_records({place: 2})


@pytest.fixture
def topic_set(
    connections: KafkaConnections,
    parameters: Parameters,
    kafka_settings: KafkaSettings,
    admin: Any,
    eventually: Callable[..., Any],
) -> TopicSet:
    """The three topics of `kafka_settings`."""
    return TopicSet(connections, parameters, kafka_settings, admin, eventually)
