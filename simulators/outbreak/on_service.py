"""Replay the epidemic through the service itself, on a real Kafka and Valkey, and audit what it published."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import Console

from monitor.config import load_valid_config
from monitor.contracts.instants import DAY, format_duration, format_instant
from monitor.contracts.ledger_entries import AtTimesEntry, OverTimeEntry, read_record
from monitor.contracts.output_records import OutputRecord
from monitor.errors import FailedError
from monitor.privacy.epsilon import format_epsilon
from monitor.service.wiring import Settings
from monitor.tools.audit import AuditReport, audit
from monitor.tools.convert.files import REGISTRY_HEADER, VISITS_HEADER
from monitor.tools.replay.driver import ReplayPlan, Summary, plan_replay, replay
from monitor.tools.replay.embedded import start_embedded
from monitor.tools.replay.output import write_output
from monitor.tools.replay.progress import show_progress
from simulators.outbreak.designated import Designated
from simulators.outbreak.reports import Report, Timeline
from simulators.outbreak.ways import Answers, make_empty

_TOPIC: Final = "alerts"


@dataclass(frozen=True, slots=True)
class OverTimeSetting:
    """An `over_time` monitor of every place: T, the ε of one place, and k."""

    threshold: int
    epsilon: Fraction
    answers: int = 1

    @property
    def name(self) -> str:
        """The name of the monitor."""
        return f"t{self.threshold}-e{self.epsilon.numerator}-{self.epsilon.denominator}-k{self.answers}"


@dataclass(frozen=True)
class ServiceRun:
    """What the service published: answers by monitor, alarms of the designated times, and the audit's report."""

    settings: tuple[OverTimeSetting, ...]
    answers: dict[str, Answers]
    designated: Designated
    summary: Summary
    report: AuditReport
    seconds: float
    audit_seconds: float


@dataclass(slots=True)
class _Watcher:
    """An observer of the published answers."""

    line: Timeline
    answers: dict[str, Answers]
    designated: Designated
    places: dict[str, int]
    unknown: int = 0

    def observe(self, tick: int, records: Sequence[OutputRecord]) -> None:
        """Add the records of a tick."""
        row = tick - self.line.first
        for record in records:
            entry = read_record(record.key, record.value, record.headers)
            if isinstance(entry, OverTimeEntry):
                self._add_answer(entry, row)
            elif isinstance(entry, AtTimesEntry):
                self.unknown += entry.status != "complete"
                rows = self.designated.alarm_rows[self.designated.find(entry.time)]
                for name, (at, _) in entry.noisy_counts.items():
                    rows[self.places[name]] = at - self.line.first

    def _add_answer(self, entry: OverTimeEntry, row: int) -> None:
        if row >= self.line.ticks:
            return  # the replay ends with the horizons, after the last window
        place, found = self.places[entry.location_id], self.answers[entry.monitor]
        self.unknown += entry.status == "unknown"
        found.alarms[row, place] = entry.status == "noisy_count"
        found.paused[row, place] = entry.status == "paused"


def run_service(
    line: Timeline, settings: Sequence[OverTimeSetting], designated: Designated, console: Console
) -> ServiceRun:
    """Replay the reports with all monitors at once, and audit the output.

    Raises:
        EmbeddedError: the servers cannot start.
        FailedError: an answer was "unknown", or the replay failed.
    """
    places = [f"place-{number}" for number in range(line.places)]
    answers = {setting.name: make_empty(line, float(setting.epsilon / setting.answers)) for setting in settings}
    watcher = _Watcher(line, answers, designated, {name: row for row, name in enumerate(places)})
    with TemporaryDirectory(prefix="location-monitor-outbreak-") as name:
        folder = Path(name)
        _write_files(folder, line, places, _make_config(line, settings, designated, places))
        began = time.monotonic()
        summary = _replay(folder, watcher, console)
        replayed = time.monotonic()
        report = audit(folder / "visits.csv", folder / "config.yaml", folder / "alerts.jsonl")
        ended = time.monotonic()
    if watcher.unknown:
        raise FailedError(f"{watcher.unknown} answers were unknown; run it again on a less busy machine")
    return ServiceRun(tuple(settings), answers, designated, summary, report, replayed - began, ended - replayed)


def _replay(folder: Path, watcher: _Watcher, console: Console) -> Summary:
    config = load_valid_config(folder / "config.yaml", {})
    with start_embedded(config, lambda text: console.print(text, highlight=False, soft_wrap=True)) as settings:
        planned = plan_replay(folder / "visits.csv", settings.parameters, None, lambda: None)
        try:
            summary = _run_ticks(settings, planned, watcher, console)
        finally:
            planned.lines.close()
        write_output(settings.kafka, _TOPIC, 1, folder / "alerts.jsonl")
    return summary


def _run_ticks(settings: Settings, planned: ReplayPlan, watcher: _Watcher, console: Console) -> Summary:
    total = max(0, planned.last_tick - planned.first_tick + 1)
    with show_progress("The epidemic, by the service", total, "ticks", console) as steps:

        def on_tick(tick: int, records: Sequence[OutputRecord]) -> None:
            watcher.observe(tick, records)
            steps.advance()

        return replay(settings, planned, on_tick)


def _write_files(folder: Path, line: Timeline, places: Sequence[str], config: object) -> None:
    with (folder / "locations.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(REGISTRY_HEADER)
        writer.writerows((name, "", "", "") for name in places)
    with (folder / "visits.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(VISITS_HEADER)
        writer.writerows(_make_row(report, places) for report in line.reports)
    (folder / "config.yaml").write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML


def _make_row(report: Report, places: Sequence[str]) -> tuple[str, ...]:
    times = (format_instant(instant) for instant in (report.start, report.end, report.reported))
    return (f"person-{report.person}", places[report.place], *times)


def _make_config(
    line: Timeline, settings: Sequence[OverTimeSetting], designated: Designated, places: Sequence[str]
) -> dict[str, object]:
    # `check` counts a person who is at every place in every slot. The data is public, so ε may be as large as that.
    most = sum(2 * setting.epsilon * line.places for setting in settings) + designated.most_epsilon
    monitors: list[dict[str, object]] = [
        {
            "name": setting.name,
            "kind": "over_time",
            "locations": list(places),
            "epsilon": format_epsilon(setting.epsilon * line.places),
            "threshold": setting.threshold,
            "window": format_duration(line.window * line.grid.length),
            "answers_per_window": setting.answers,
        }
        for setting in settings
    ]
    return {
        "service": {"name": "outbreak", "shards": 1},
        "clock": {
            "slot": format_duration(line.grid.length),
            "origin": format_instant(line.grid.origin),
            "release_delay": "30s",
        },
        "locations": {"file": "locations.csv"},
        "visits": {"default_stay": "15m", "accept_ahead": "0s"},
        "privacy": {"epsilon": str(most.__ceil__()), "period": format_duration(14 * DAY)},
        "monitors": [*monitors, designated.make_monitor()],
        "kafka": {
            "bootstrap_servers": ["localhost:9092"],
            "topics": {"visits": "visits", "alerts": _TOPIC, "dead_letters": "dead-letters"},
            "partitions": {"visits": 1, "alerts": 1},
        },
        "redis": {"url": "redis://localhost:6379/0"},
    }
