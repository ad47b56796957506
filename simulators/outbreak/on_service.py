"""Replay the epidemic through the service itself, on a real Kafka and Valkey, and audit what it published."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from monitor.audit import AuditReport, audit
from monitor.operate.replay.driver import Summary
from monitor.privacy.epsilon import format_epsilon
from monitor.time.instants import DAY, format_duration, format_instant
from simulators.outbreak.designated import Designated
from simulators.outbreak.reports import Report, Timeline
from simulators.outbreak.ways import Answers, make_empty
from simulators.service_replay import ALERTS, CONFIG, VISITS, Entry, replay_files, write_files


@dataclass(frozen=True, slots=True)
class OverTimeSetting:
    """An `over_time` monitor of every place: T, the ε of one place, and k.

    A visit to the place pays `visit_epsilon`, because it is in one number.
    """

    threshold: int
    epsilon: Fraction
    answers: int = 1

    @property
    def visit_epsilon(self) -> Fraction:
        """The ε of a number."""
        return self.epsilon / self.answers

    def with_answers(self, answers: int) -> OverTimeSetting:
        """Return the setting with other k and the same noise."""
        return OverTimeSetting(self.threshold, self.visit_epsilon * answers, answers)

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

    def observe(self, tick: int, entry: Entry) -> None:
        """Add an answer published at a tick."""
        row = tick - self.line.first
        if entry.kind == "over_time":
            if row < self.line.ticks:  # the replay ends with the horizons, after the last window
                place, found = self.places[entry.location_id], self.answers[entry.monitor]
                found.alarms[row, place] = entry.status == "noisy_count"
                found.paused[row, place] = entry.status == "paused"
                found.since[row, place] = entry.is_below_since
        else:
            rows = self.designated.alarm_rows[self.designated.find(entry.instant)]
            for name, (at, _) in entry.counts.items():
                rows[self.places[name]] = at - self.line.first


def run_service(
    line: Timeline, settings: Sequence[OverTimeSetting], designated: Designated, console: Console
) -> ServiceRun:
    """Replay the reports with all monitors at once, and audit the output.

    Raises:
        EmbeddedError: the servers cannot start.
        FailedError: an answer was "unknown", or the replay failed.
    """
    places = [f"place-{number}" for number in range(line.places)]
    answers = {setting.name: make_empty(line, float(setting.visit_epsilon)) for setting in settings}
    watcher = _Watcher(line, answers, designated, {name: row for row, name in enumerate(places)})
    with TemporaryDirectory(prefix="location-monitor-outbreak-") as name:
        folder = Path(name)
        visits = (_make_row(report, places) for report in line.reports)
        write_files(folder, places, visits, _make_sections(line, settings, designated, places))
        began = time.monotonic()
        summary = replay_files(folder, "The epidemic", watcher.observe, console)
        replayed = time.monotonic()
        report = audit(folder / VISITS, folder / CONFIG, folder / ALERTS)
        ended = time.monotonic()
    return ServiceRun(tuple(settings), answers, designated, summary, report, replayed - began, ended - replayed)


def _make_row(report: Report, places: Sequence[str]) -> tuple[str, ...]:
    times = (format_instant(instant) for instant in (report.start, report.end, report.reported))
    return (f"person-{report.person}", places[report.place], *times)


def _make_sections(
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
        "visits": {"default_stay": "15m", "accept_ahead": "0s"},
        "privacy": {"epsilon": str(most.__ceil__()), "period": format_duration(14 * DAY)},
        "monitors": [*monitors, designated.make_monitor()],
    }
