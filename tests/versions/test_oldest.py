"""The service runs on the oldest servers of docs/supported.md, on which `make versions` runs all protocol tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from monitor.operate.servers import EmbeddedKafka, EmbeddedValkey
from monitor.operate.servers.jars import LOCK
from monitor.time.instants import SECOND
from tests.builders import build_visit
from tests.kit.town import TWO_SECONDS, Town, build_tree, over_time
from tests.kit.waiting import until

pytestmark = pytest.mark.servers

OLDEST: Final = Path(__file__).with_name("kafka-3.9.2.lock")
PLACES: Final = ("inn", "bath")


@pytest.fixture
def oldest_kafka(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedKafka]:
    """A broker of the oldest version."""
    monkeypatch.setenv(LOCK, str(OLDEST))
    with EmbeddedKafka(report=print) as kafka:
        yield kafka


def test_oldest_servers(
    oldest_kafka: EmbeddedKafka, redis_server: EmbeddedValkey, tmp_path: Path, topic: Callable[[str], str]
) -> None:
    """On Kafka 3.9 and Redis 7, `run` counts, a second instance continues the pause, and the audit agrees."""
    monitors = [over_time("places", PLACES, 3, "20s")]
    servers = (oldest_kafka.bootstrap_servers, redis_server.url)
    town = Town(tmp_path, build_tree(topic("oldest"), *servers, monitors, shards=2, **TWO_SECONDS), PLACES)
    assert town.command("topics", "--create").returncode == 0
    with town.running() as first:
        until(lambda: town.answers("bath"), 30)
        now = time.time_ns() // 1_000
        town.report(*(build_visit(person, "inn", now - SECOND, now) for person in ("a", "b", "c")))
        until(lambda: "noisy_count" in {answer["status"] for answer in town.answers("inn")}, 15)
        assert first.terminate() == 0
    before = len(town.answers("inn"))
    with town.running() as second:
        paused = until(lambda: town.answers("inn")[before + 1 :], 30)[-1]
        assert second.terminate() == 0
    assert (paused["status"], paused["answers"][0]["noisy_count"]) == ("paused", 3)
    audited = town.command("audit")
    assert audited.returncode == 0, audited.stdout + audited.stderr
