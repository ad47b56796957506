"""Preflight checks and published ledgers on a real Kafka."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from monitor.config.servers import KafkaSettings
from monitor.contracts.clock import SteppedClock
from monitor.contracts.parameters import Parameters
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.topics import describe_topics, list_topic_needs
from monitor.service.preflight import Preflight, run_preflight
from monitor.store.facts import COMPLETE_FROM_START, NEVER, Reading
from monitor.ticks.owner import LedgerTopic
from tests.builders import build_counts
from tests.ticks import owning


@pytest.fixture
def preflight(connections: KafkaConnections, kafka_settings: KafkaSettings) -> Callable[[Parameters], Preflight]:
    """A function that runs the preflight checks as `run` does."""

    def check(parameters: Parameters) -> Preflight:
        wanted = list_topic_needs(parameters, kafka_settings)
        return run_preflight(connections, parameters, wanted, kafka_settings.topics.alerts)

    return check


@pytest.fixture
def published(
    connections: KafkaConnections, kafka_settings: KafkaSettings, parameters: Parameters, create: Callable[..., Any]
) -> Callable[..., None]:
    """A function that initialises the ledger and publishes a noisy answer of a tick for each watched location."""

    def publish(tick: int, ledger_partitions: int = 2) -> None:
        create()
        ledger = kafka_settings.topics.alerts
        with closing(connections.create_admin()) as admin:
            topics = describe_topics(admin, [ledger, kafka_settings.topics.visits])
        input_topic = topics.get(kafka_settings.topics.visits)
        input_id = "input" if input_topic is None else input_topic.topic_id
        place = LedgerTopic(ledger, topics[ledger].topic_id, input_id, "fingerprint", parameters.grid.start(tick))
        clock = SteppedClock(parameters.grid.start(tick))
        for partition in range(ledger_partitions):
            with closing(owning.own(connections, place, partition, parameters, clock)) as owner:
                readings = {
                    shard: Reading(
                        {}, COMPLETE_FROM_START, COMPLETE_FROM_START, NEVER, 0, build_counts(question, lambda _: 10), {}
                    )
                    for shard, question in owner.decider.build_questions(tick).items()
                }
                owning.publish(owner, tick, readings)

    return publish
