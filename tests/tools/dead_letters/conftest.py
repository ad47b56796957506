"""A town on the session's Kafka whose topic of dead letters has refused visits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.shared_kafka import SharedKafka
from tests.tools.dead_letters.refused import Refused, build_town


@pytest.fixture
def refused(kafka: SharedKafka, topic: Callable[[str], str], tmp_path: Path) -> Refused:
    """A town with its three topics, which are empty."""
    return build_town(kafka.bootstrap_servers, topic("town"), tmp_path)
