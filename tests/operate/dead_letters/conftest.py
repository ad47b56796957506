"""A town on the session's Kafka whose topic of dead letters has refused visits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from monitor.kafka.topics import create_topics, list_topic_needs
from monitor.time.clock import SystemClock
from monitor.time.instants import SECOND
from tests.kit.town import HOURS, Town, build_tree, over_time
from tests.operate.dead_letters.refused import Refused
from tests.shared_kafka import SharedKafka


@pytest.fixture
def refused(kafka: SharedKafka, topic: Callable[[str], str], tmp_path: Path) -> Refused:
    """A town with its three topics, which are empty."""
    monitors = [over_time("places", ["inn"], 5, "3h", epsilon=80)]
    visits = HOURS["visits"] | {"accept_ahead": "1h"}
    servers = kafka.bootstrap_servers, "redis://localhost:1"
    tree = build_tree(topic("town"), *servers, monitors, **HOURS | {"visits": visits})
    town = Town(tmp_path, tree, ["inn", "bath"])
    settings = town.apply()
    create_topics(settings.kafka, list_topic_needs(settings.parameters, settings.config.kafka), 1)
    return Refused(settings, town.config, SystemClock().now() // SECOND * SECOND)
