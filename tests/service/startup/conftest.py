"""Published ledgers on a real Kafka."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from monitor.ticks.owner import LedgerTopic
from monitor.time.clock import SteppedClock
from tests.ticks import deciding
from tests.topic_fixtures import TopicSet


@pytest.fixture
def published(topic_set: TopicSet) -> Callable[..., None]:
    """A function that initialises the ledger and publishes a noisy answer of a tick for each watched location."""

    def publish(tick: int, ledger_partitions: int = 2) -> None:
        topic_set.create()
        ledger, parameters = topic_set.names.alerts, topic_set.parameters
        topics = topic_set.describe(ledger, topic_set.names.visits)
        input_topic = topics.get(topic_set.names.visits)
        input_id = "input" if input_topic is None else input_topic.topic_id
        place = LedgerTopic(ledger, topics[ledger].topic_id, input_id, "fingerprint", parameters.grid.start(tick))
        clock = SteppedClock(parameters.grid.start(tick))
        for partition in range(ledger_partitions):
            with closing(deciding.own(topic_set.connections, place, partition, parameters, clock)) as owner:
                deciding.decide(owner, tick, people=10)

    return publish
