"""A Kafka that keeps its connections and does not answer: the reader reports it within seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from monitor.kinds.parameters import Parameters
from monitor.operate.servers import EmbeddedKafka, EmbeddedValkey
from tests.ingest.world import World


@pytest.fixture
def own_kafka() -> Iterator[EmbeddedKafka]:
    """A Kafka that a test may pause."""
    with EmbeddedKafka() as server:
        yield server
        server.resume()


def test_silent_broker_is_reported(
    own_kafka: EmbeddedKafka,
    store: EmbeddedValkey,
    parameters: Parameters,
    topic: Callable[[str], str],
    eventually: Callable[..., Any],
) -> None:
    """The reader is not ready while Kafka is silent, and ready again afterwards.

    Kafka     answers    paused                       answers
    reader    ready      waits: Kafka does not …      ready
    """
    world = World(own_kafka, store, parameters, topic("visits"))
    world.create()
    reasons: list[str] = []
    with world.running(reasons.append):
        eventually(lambda: world.source.positions and reasons and reasons[-1] == "", 30)
        own_kafka.pause()
        eventually(lambda: "Kafka does not return the ends" in reasons[-1], 20)
        own_kafka.resume()
        eventually(lambda: reasons[-1] == "", 30)
    world.close()
