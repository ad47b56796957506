"""Fixtures for all tests: small parameters, and separate topics on a real Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
from kafka import OffsetSpec, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from monitor.config.kafka_and_redis import KafkaSettings, TopicNames
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.topics import (
    TopicDescription,
    TopicNeeds,
    check_topics,
    create_topics,
    describe_topics,
    list_topic_needs,
)
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.parameters import Parameters
from monitor.ledger.append_to_ledger import Writer
from monitor.privacy.over_time import OverTimeRule
from monitor.service.create_topics import Beginning, SetupResult, set_up
from monitor.service.preflight import Preflight, run_preflight
from monitor.time.instants import DAY, HOUR, parse_instant
from monitor.time.schedule import Schedule
from monitor.time.slot_grid import SlotGrid
from tests.builders import build_parameters, watch
from tests.kit.topics import ANY_TIME
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


@pytest.fixture
def make_topic(admin: Any, topic: Callable[[str], str]) -> Callable[..., tuple[str, str]]:
    """A function that makes topics: `make_topic("ledger", 2, **{"max.message.bytes": "9000"})` returns name and id."""

    def make(label: str, partitions: int = 1, **configs: str) -> tuple[str, str]:
        name = topic(label)
        wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": ANY_TIME | configs}
        admin.create_topics({name: wanted}, wait_for_metadata=True)
        return name, read_topic_id(admin, name)

    return make


@pytest.fixture
def open_writer(connections: KafkaConnections) -> Iterator[Callable[[str, str, int], Writer]]:
    """A function that opens writers, which are closed at the end."""
    with ExitStack() as opened:

        def open_one(topic: str, topic_id: str, partition: int = 0) -> Writer:
            return opened.enter_context(closing(Writer(connections, topic, topic_id, partition)))

        yield open_one


def _parameters(
    *,
    places: int = 3,
    shards: int = 1,
    window: int = 3,
    max_lead: int = 0,
    answers: int = 1,
    threshold: int = 2,
    epsilon: Fraction = Fraction(1),
    watched: Mapping[str, Sequence[int]] | None = None,
    at_times: tuple[AtTimes, ...] = (),
    grid: SlotGrid | None = None,
    name: str = "town",
) -> Parameters:
    rule = OverTimeRule(epsilon, answers, threshold, window, max_lead)
    named = {"stations": range(places)} if watched is None else watched
    monitors = [watch(monitor, rows, rule) for monitor, rows in named.items()]
    return build_parameters(
        places, shards=shards, max_lead=max_lead, over_time=monitors, at_times=at_times, grid=grid, name=name
    )


@pytest.fixture(scope="session")
def make_parameters() -> Callable[..., Parameters]:
    """A function that makes parameters: hourly slots from 2026, by default 3 places, all watched, W = 3, F = 0."""
    return _parameters


def _at(name: str, *times: str, horizon: int = 2, threshold: int = 2) -> AtTimes:
    return AtTimes(name, Schedule(tuple(map(parse_instant, times))), Fraction(1, 2), threshold, horizon * HOUR)


@pytest.fixture(scope="session")
def make_at_times() -> Callable[..., AtTimes]:
    """A function that makes monitors: `make_at_times("noon", "2026-01-01T12:30:00Z", horizon=2)`, in slots."""
    return _at


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
        return run_preflight(self.connections, of, list_topic_needs(of, self.settings))

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
