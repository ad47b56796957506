"""Published ledgers on a real Kafka."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, NEVER, Reading
from monitor.ticks.owner import LedgerTopic
from monitor.time.clock import SteppedClock
from tests.builders import build_counts
from tests.ticks import owning
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
            with closing(owning.own(topic_set.connections, place, partition, parameters, clock)) as owner:
                readings = {
                    shard: Reading(
                        {}, COMPLETE_FROM_START, COMPLETE_FROM_START, NEVER, 0, build_counts(question, lambda _: 10), {}
                    )
                    for shard, question in owner.decider.build_questions(tick, owner.state).items()
                }
                owning.publish(owner, tick, readings)

    return publish
