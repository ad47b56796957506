"""The service on real servers, compared with the recount: its answers about a random town are true."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from monitor.audit import AuditReport, audit
from monitor.audit.compare_ticks import Run
from monitor.audit.configuration import read_terms
from monitor.audit.findings import Outcome
from monitor.audit.follow_topic import Follower
from monitor.audit.live.topic_facts import KafkaTopics
from monitor.audit.topic_reader import Sources
from monitor.cli import main
from monitor.config.load import load_config
from monitor.kafka.connections import build_kafka_connections
from monitor.operate.servers import EmbeddedValkey
from tests.kinds.examples import LENGTHS as LENGTHS_KIND
from tests.kit.topics import open_input
from tests.shared_kafka import SharedKafka

PLACES = [f"place-{n}" for n in range(6)]
START = datetime(2026, 3, 2, tzinfo=UTC)
MONITORS = """
  - {name: days, kind: over_time, locations: {place-0: 3, place-1: 1}, epsilon: "6", threshold: 9, window: 12h}
  - {name: pairs, kind: over_time, locations: [place-0, place-2], epsilon: "4", threshold: 5, window: 5h, answers_per_window: 2}
  - {name: noons, kind: at_times, at: ["12:00", "20:30"], timezone: Asia/Tokyo, reporting_horizon: 9h, epsilon: "2", threshold: 2, at_least: {epsilon: "3"}}
  - {name: nights, kind: at_times, at: ["20:30"], timezone: Asia/Tokyo, reporting_horizon: 20h, epsilon: "4", threshold: 2, answers_per_time: 2}
  - {name: busiest, kind: hot_spots, at: ["12:00", "2026-03-03T03:30:00Z"], timezone: Asia/Tokyo, reporting_horizon: 7h, epsilon: "1", top: 3}
  - {name: all, kind: hot_spots, at: ["Tue-Wed,Sat 21:00"], timezone: UTC, reporting_horizon: 90m, epsilon: "1/2", top: 9}
  - {name: lengths, kind: LENGTHS, at: ["20:30"], timezone: Asia/Tokyo, reporting_horizon: 9h, epsilon: "1", longest_visit: 3h, visits_per_person: 2}
  - {name: curve, kind: upper_bound, locations: {place-0: 1, place-1: 2}, epsilon: "9", window: 6h, bucket: 2h}
""".replace("LENGTHS", LENGTHS_KIND)  # noqa: E501  # a monitor to a line


def write_town(path: Path, seed: int) -> None:
    """Write forty people over two days: late reports, plans, repeats, two places at once, invalid lines."""
    draws = random.Random(seed)
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["person_id", "location_id", "arrived_at", "left_at", "reported_at", "consent"])
        for _ in range(400):
            arrived = START + timedelta(seconds=draws.randrange(48 * 3600))
            left = arrived + timedelta(seconds=draws.choice([0, 900, 4_000, 40_000]))
            reported = arrived + timedelta(seconds=draws.choice([-9_000, -1_000, 0, 3_000, 30_000]))
            times = [arrived.isoformat(), draws.choice([left.isoformat(), ""]), reported.isoformat()]
            line = [f"planted-person-{draws.randrange(40)}", draws.choice([*PLACES, "nowhere"]), *times]
            line.append(draws.choice(["true", "true", "false", "", "yes"]))
            lines.writerows([line] * draws.choice([1, 1, 2]))
            if draws.random() < 0.1:
                lines.writerow(["planted-person-0", "place-0", "noon"])


@pytest.fixture
def files(
    tmp_path: Path, kafka: SharedKafka, valkey: EmbeddedValkey, topic: Callable[[str], str]
) -> tuple[Path, Path, Path]:
    """The visits, the configuration and the path of the alerts, with separate topics and keys."""
    (tmp_path / "locations.csv").write_text("\n".join(["location_id", *PLACES]) + "\n")
    (tmp_path / "person.key").write_text("qn/TGe6D7vsXiFKstZA9GykOnGMmd6iBzgSziHXuhUA=")
    names = {name: topic(name) for name in ("visits", "alerts", "dead_letters")}
    (tmp_path / "config.yaml").write_text(
        f"service: {{name: {topic('audit')}, shards: 4}}\n"
        "clock: {slot: 1h, origin: 2026-03-02T06:00:00Z, release_delay: 30s}\n"
        "locations: {file: locations.csv}\n"
        "visits: {default_stay: 15m, accept_ahead: 2h, person_key_file: person.key}\n"
        'privacy: {epsilon: "1000", period: 2d}\n'
        f"monitors:{MONITORS}"
        f"kafka: {{bootstrap_servers: ['{kafka.bootstrap_servers}'], topics: {json.dumps(names)}, "
        "partitions: {visits: 2, alerts: 2}}\n"
        f"redis: {{url: '{valkey.url}'}}\n"
    )
    write_town(tmp_path / "visits.csv", seed=7)
    return tmp_path / "visits.csv", tmp_path / "config.yaml", tmp_path / "alerts.jsonl"


@pytest.mark.promise(1, 26)
def test_replay_on_real_servers_passes(files: tuple[Path, Path, Path]) -> None:
    """A replay of a random town with monitors of every kind passes every check, as a file and as topics."""
    visits, config, alerts = files
    result = CliRunner().invoke(main, ["replay", str(visits), "--config", str(config), "--alerts", str(alerts)])
    assert result.exit_code == 0, result.output
    report = audit(visits, config, alerts)
    assert report.ok, report.violations
    assert report.fates == _read_fates(result.output)
    assert report.last_tick == report.whole_until
    assert (report.answers["busiest", "complete"], report.answers["all", "complete"]) == (4, 2)  # one for each time
    assert _read_partitions(alerts, "busiest") | _read_partitions(alerts, "all") == {0, 1}
    assert {status for _name, status in report.answers} == {"safe", "noisy_count", "paused", "complete"}
    assert report.bounds > 0
    assert report.answers["lengths", "complete"] == 3
    assert report.answers["curve", "complete"] > 40
    _follow(config, report)
    assert '"counted_since":' in alerts.read_text()
    assert '"later":' in alerts.read_text()
    assert "planted-person" not in alerts.read_text()


def _follow(config: Path, report: AuditReport) -> None:
    """Check that the standing auditor proves the same ticks from the topics, and keeps only a part of the visits."""
    loaded = load_config(config, {})
    kafka, topics = build_kafka_connections(loaded.kafka, loaded.service.name), loaded.kafka.topics
    kept = 0
    facts, visits = KafkaTopics(kafka.create_admin), partial(open_input, kafka)
    sources = Sources(topics.alerts, kafka.create_consumer, facts.read_topic_id, facts.log_ends, topics.visits, visits)
    with closing(facts), closing(Follower([read_terms(config)], sources, Run(ends=False))) as follower:
        while follower.take_turn():
            kept = max(kept, follower.kept_visits)
    engine = follower.engine
    assert engine.findings.totals == {}
    assert engine.outcomes == {Outcome.PROVEN: report.ticks}
    assert engine.records.total() >= report.records
    assert 0 < kept < report.fates["applied"]
    assert engine.payments.most_spent == report.spent <= report.may_pay


def _read_partitions(alerts: Path, monitor: str) -> set[int]:
    """Return the output partitions with a monitor's records."""
    records = map(json.loads, alerts.read_text().splitlines())
    return {record["partition"] for record in records if record["value"].get("monitor") == monitor}


def _read_fates(printed: str) -> dict[str, int]:
    """Return the visits by fate from the table that `replay` prints."""
    rows = (line.strip("│ ").split("│") for line in printed.splitlines() if line.startswith("│"))
    return {row[0].strip(): int(row[1].replace(",", "")) for row in rows if len(row) == 2}
