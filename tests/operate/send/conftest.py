"""A town whose topics exist on the session's Kafka."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from monitor.kafka.topics import create_topics, list_topic_needs
from tests.kit.town import HOURS, Town, build_tree, over_time
from tests.shared_kafka import SharedKafka


@pytest.fixture
def town(kafka: SharedKafka, topic: Callable[[str], str], tmp_path: Path) -> Town:
    """A town with its three topics, which are empty. It watches the inn, and not the bath."""
    return make_town(kafka.bootstrap_servers, topic("town"), tmp_path)


def make_town(address: str, name: str, folder: Path) -> Town:
    """Return a town with its topics on a broker. Its visits have two partitions."""
    sections = HOURS | {"visits": HOURS["visits"] | {"accept_ahead": "1h"}}
    tree = build_tree(
        name, address, "redis://localhost:1", [over_time("places", ["inn"], 5, "3h", 80)], inputs=2, **sections
    )
    town = Town(folder, tree, ["inn", "bath"])
    settings = town.apply()
    create_topics(settings.kafka, list_topic_needs(settings.parameters, settings.config.kafka), 1)
    return town
