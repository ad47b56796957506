"""A replay produces the visits of several ticks at once. The output has the same bytes as tick by tick."""

from __future__ import annotations

import csv
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

from monitor.ledger.read_ledger import read_partition
from monitor.operate.replay import driver
from monitor.operate.servers import EmbeddedValkey
from monitor.privacy.one_sided_noise import OneSidedNoise, SeededEntropy
from monitor.records.output_records import LEDGER, OWNER, OutputRecord
from monitor.service.wiring import Settings
from monitor.time.instants import HOUR, MINUTE, format_instant, parse_instant
from tests.kit.town import HOURS, Town, build_tree
from tests.shared_kafka import SharedKafka

ORIGIN = parse_instant("2026-01-01T00:00:00Z")
SLOTS = 30
PLACES = [f"place-{number}" for number in range(12)]
WITHOUT_TICK = {LEDGER.encode(), OWNER.encode()}


class Seeded(OneSidedNoise):
    """Repeatable noise that passes for secure, so that two replays draw the same."""

    secure = True

    def __init__(self) -> None:
        super().__init__(SeededEntropy(5))


def make_settings(folder: Path, kafka: SharedKafka, valkey: EmbeddedValkey, service: str, name: str) -> Settings:
    shared: dict[str, Any] = {"epsilon": "12", "threshold": 4}
    monitors = [
        {"name": "walk", "kind": "over_time", "locations": PLACES, "window": "3h", **shared},
        {"name": "noon", "kind": "at_times", "at": ["06:20"], "timezone": "UTC", "reporting_horizon": "9h"} | shared,
        {"name": "top", "kind": "hot_spots", "at": ["09:20"], "timezone": "UTC", "reporting_horizon": "4h"}
        | {"epsilon": "1", "top": 3},
    ]
    clock = HOURS["clock"] | {"origin": "2026-01-01T00:00:00+00:00"}
    visits, privacy = HOURS["visits"] | {"accept_ahead": "1h"}, {"epsilon": "1000000", "period": "1d"}
    sections = {"clock": clock, "visits": visits, "privacy": privacy, "service": {"name": service, "shards": 3}}
    tree = build_tree(name, kafka.bootstrap_servers, valkey.url, monitors, inputs=2, **sections)
    return Town(folder, tree, PLACES).apply()


def write_visits(path: Path) -> None:
    """Write visits of every slot, of which a third are reported up to nine slots late."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["person_id", "location_id", "arrived_at", "left_at", "reported_at"])
        for number in range(600):
            arrived = ORIGIN + (number % SLOTS) * HOUR + 15 * MINUTE
            left = arrived + 10 * MINUTE
            late = (number % 10) * HOUR if number % 3 == 0 else MINUTE
            place = PLACES[number * number % len(PLACES)]
            rows.writerow([f"p-{number % 80}", place, *map(format_instant, (arrived, left, left + late))])


@pytest.fixture
def replay(
    kafka: SharedKafka, valkey: EmbeddedValkey, tmp_path: Path, topic: Callable[[str], str]
) -> Callable[[int], list[OutputRecord]]:
    """A function that replays the visits, of which n ticks are produced at once, and returns the answers."""
    service = topic("town")

    def run(fed: int) -> list[OutputRecord]:
        with closing(redis.Redis.from_url(valkey.url)) as client:
            client.flushall()  # other tests of the session may have used the same name of the service
        settings = make_settings(tmp_path, kafka, valkey, service, topic("replay"))
        write_visits(tmp_path / "visits.csv")
        planned = driver.plan_replay(tmp_path / "visits.csv", settings.parameters, None, lambda: None)
        seen: list[int] = []
        with pytest.MonkeyPatch.context() as patch, closing(planned.lines):
            patch.setattr(driver, "create_noise", Seeded)
            patch.setattr(driver, "TICKS_FED", fed)
            driver.replay(settings, planned, lambda tick, _records: seen.append(tick))
        assert seen == list(range(planned.first_tick, planned.last_tick + 1))
        with closing(redis.Redis.from_url(valkey.url)) as client:
            client.flushall()
        alerts = settings.config.kafka.topics.alerts
        records = [record for _offset, record in read_partition(settings.kafka, alerts, 0)]
        return [record for record in records if dict(record.headers)["ce_type"] not in WITHOUT_TICK]

    return run


@pytest.mark.promise(27)
def test_early_visits_change_no_byte(replay: Callable[[int], list[OutputRecord]]) -> None:
    """With the same noise, all answers are equal byte for byte, however many ticks' visits are already in the topic."""
    one_by_one = replay(1)
    assert {b"noisy_count" in record.value for record in one_by_one} == {True, False}
    assert replay(7) == one_by_one
    assert replay(64) == one_by_one
