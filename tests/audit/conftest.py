"""The files of the run that records.py draws, which tests change, and the two ways to judge them."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest
from rich.console import Console

from monitor.audit import AuditReport, audit, render
from monitor.audit.audit_once import judge_records
from monitor.audit.compare_ticks import Engine, Run
from monitor.audit.configuration import read_terms
from monitor.audit.parse_values import parse_instant
from monitor.audit.read_records import read_file
from monitor.audit.recount_visits import create_recounts
from monitor.audit.visits import read_visits
from tests.audit.records import LENGTHS, NIGHT, as_of, build_faultless_run, busiest, lengths, walk
from tests.kinds.examples import LENGTHS as LENGTHS_KIND

LINES = (
    "person_id,location_id,arrived_at,left_at,reported_at",
    "p1,park,2026-01-01T00:10:00Z,2026-01-01T00:50:00Z,",
    "p2,park,2026-01-01T01:10:00Z,2026-01-01T01:50:00Z,",
    "p3,shop,2026-01-01T02:20:00Z,2026-01-01T02:40:00Z,",
    "p4,shop,2026-01-01T02:20:00Z,2026-01-01T02:40:00Z,2026-01-01T03:10:00Z",
)
CONFIG = """
service: {name: tiny, shards: 1}
clock: {slot: 1h, origin: 2026-01-01T00:00:00Z, release_delay: 30s}
locations: {file: locations.csv}
visits: {default_stay: 15m, accept_ahead: 0s}
privacy: {epsilon: "2", period: 12h}
monitors:
  - {name: walk, kind: over_time, locations: [park], epsilon: "1", threshold: 2, window: 3h}
  - name: night
    kind: at_times
    at: ["02:30"]
    timezone: Europe/London
    reporting_horizon: 3h
    epsilon: "1/2"
    threshold: 2
"""


@dataclass
class Tiny:
    """The files of the run, which tests change before they audit them. A value that is a text is JSON already.

    `every_tick`: whether every tick must be answered. The methods that change the run return it.
    """

    folder: Path
    lines: list[str] = field(default_factory=lambda: list(LINES))
    config: str = CONFIG
    records: list[dict[str, Any]] = field(default_factory=build_faultless_run)
    every_tick: bool = True
    _written: dict[Path, str] = field(default_factory=dict)

    def __getitem__(self, ce_id: str) -> dict[str, Any]:
        """Return the value of a record."""
        value: dict[str, Any] = self.find(ce_id)["value"]
        return value

    def find(self, ce_id: str) -> dict[str, Any]:
        """Return a record."""
        return next(line for line in self.records if line["headers"]["ce_id"] == ce_id)

    def visit(self, person: str, place: str, arrived: str, left: str, reported: str = "") -> Self:
        """Add a visit. Times are of the day, such as 02:30."""
        times = (text and f"2026-01-01T{text}{':00' * (text.count(':') == 1)}Z" for text in (arrived, left, reported))
        self.lines.append(",".join([person, place, *times]))
        return self

    def configure(self, old: str, new: str) -> Self:
        """Replace a part of the configuration."""
        assert old in self.config
        self.config = self.config.replace(old, new)
        return self

    def set(self, ce_id: str, **fields: Any) -> Self:
        """Set fields of a value."""
        self[ce_id].update(fields)
        return self

    def walk(self, tick: int, status: str, answers: list[dict[str, Any]], **more: Any) -> Self:
        """Replace a record about the park."""
        place = self.records.index(self.find(f"walk/park/{tick}"))
        self.records[place] = walk(tick, status, answers, **more)
        return self

    def forge(self, ce_id: str, place: int | None = None, **fields: Any) -> Self:
        """Add a copy of a record with other fields, and with the key and the ids that follow; by default at the end."""
        line = copy.deepcopy(self.find(ce_id))
        value = line["value"] = line["value"] | fields
        about = value["location_id"] if value["kind"] == "over_time" else value["time"]
        line["key"] = f"{value['monitor']}/{about}" + (f"/{value['shard']}" if value["kind"] == "at_times" else "")
        line["headers"]["ce_id"] = f"{line['key']}/{value['tick']}"
        self.records.insert(len(self.records) if place is None else place, line)
        return self

    def insert(self, line: dict[str, Any]) -> Self:
        """Insert a record after the others of its tick."""
        self.records.append(line)
        self.records.sort(key=lambda line: line["value"].get("tick", 0))
        return self

    def remove(self, *ce_ids: str) -> Self:
        """Remove records."""
        self.records = [line for line in self.records if line["headers"]["ce_id"] not in ce_ids]
        return self

    def live(self) -> Self:
        """Let the run be one in real time, in which ticks may be missing."""
        self.every_tick = False
        return self

    def only_walk(self) -> Self:
        """Remove all monitors but `walk`."""
        self.config = self.config.partition("  - name: night")[0]
        self.records = [line for line in self.records if line["value"]["monitor"] == "walk"]
        return self

    def state_enough(self) -> Self:
        """State enough ε for all monitors that tests add."""
        self.config = self.config.replace('privacy: {epsilon: "2"', 'privacy: {epsilon: "9"')
        return self

    def _watch(self, monitor: str) -> None:
        at = 'at: ["02:30"], timezone: Europe/London, reporting_horizon: 3h'
        if monitor not in self.config:
            self.config += f"  - {{{monitor}, {at}}}\n"

    def watch_busiest(
        self, named: dict[str, int] | None = None, *, top: int = 1, tick: int = 4, status: str = "complete"
    ) -> Self:
        """Add a monitor of hot spots, and a record that names these; None: no record."""
        self._watch(f'name: busiest, kind: hot_spots, epsilon: "1/3", top: {top}')
        return self if named is None else self.insert(busiest(named, tick, top, status))

    def watch_lengths(
        self, above: int = 2_400, below: int = 1_200, *, tick: int = 4, status: str = "complete", **fields: Any
    ) -> Self:
        """Add a monitor of lengths, and a record with these totals. The defaults are those of the recount."""
        self.state_enough()
        self._watch(f'name: lengths, kind: {LENGTHS_KIND}, epsilon: "3/2", longest_visit: 30m')
        return self.insert(lengths(above, below, tick, status)).set(f"{LENGTHS}/{tick}", **fields)

    def bound(self, bounds: dict[str, Any] | None, consenting: str = "p3 p4", tick: int = 4) -> Self:
        """Give `night` lower bounds, publish these, and let these people consent."""
        self.state_enough()
        if "at_least" not in self.config:
            start = self.config.index("  - name: night")
            self.config = self.config[:start] + self.config[start:].replace(
                "    threshold: 2\n", '    threshold: 2\n    at_least: {epsilon: "3/4"}\n'
            )
            people = consenting.split()
            self.lines = [
                f"{line},{'consent' if n == 0 else 'true' if line.partition(',')[0] in people else ''}"
                for n, line in enumerate(self.lines)
            ]
        if bounds is not None:
            self.set(f"{NIGHT}/{tick}", at_least_epsilon="3/4", counts_at_least=bounds)
        return self

    def split(self, tick: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the records up to a tick, and the later ones, by the time in their headers."""
        parts: tuple[list[dict[str, Any]], list[dict[str, Any]]] = [], []
        for line in self.records:
            parts[line["headers"]["ce_time"] > as_of(tick)].append(line)
        return parts

    def write(self) -> tuple[Path, Path, Path]:
        """Write the visits, the configuration and the alerts to files."""
        self.write_text(self.folder / "locations.csv", "location_id\npark\nshop\n")
        visits, config, alerts = (self.folder / name for name in ("visits.csv", "config.yaml", "alerts.jsonl"))
        self.write_text(visits, "\n".join(self.lines) + "\n")
        self.write_text(config, self.config)
        self.write_records(self.records)
        return visits, config, alerts

    def write_records(self, records: list[dict[str, Any]]) -> Path:
        """Write records to the file of alerts."""
        path, texts = self.folder / "alerts.jsonl", []
        for line in records:
            value = line["value"] if isinstance(line["value"], str) else json.dumps(line["value"])
            texts.append(json.dumps(line | {"value": "@value@"}).replace('"@value@"', value) + "\n")
        self.write_text(path, "".join(texts))
        return path

    def write_text(self, path: Path, text: str) -> None:
        """Write a file, unless it has this text already."""
        if self._written.get(path) != text:
            path.write_text(text)
            self._written[path] = text

    def audit(self) -> AuditReport:
        """Audit the files as they are now, as a run that ends."""
        visits, config, alerts = self.write()
        return audit(visits, config, alerts, every_tick=self.every_tick)

    def follow(self, *parts: list[dict[str, Any]], configs: Sequence[Path] = (), since: str | None = None) -> Engine:
        """Judge records as a run that goes on, as `audit --follow` does, one part after the other. Return the engine.

        The clock is at the end of the run's slot 7. `configs`: instead of the configuration of the run, newest first.
        """
        visits, config, _alerts = self.write()
        terms, now = [read_terms(path) for path in configs or [config]], "2026-01-01T08:00:00Z"
        recounts = create_recounts(terms)
        for recount in recounts:
            for line in read_visits(visits, recount.terms):
                recount.take(line)
        run = Run(ends=False, since=None if since is None else parse_instant(since), now=lambda: parse_instant(now))
        engine = Engine(terms, recounts, run)
        for part in parts or [self.records]:
            engine.begin_turn()
            judge_records(engine, read_file(self.write_records(part), engine.terms.grid))
        return engine


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    """A faultless run."""
    return Tiny(tmp_path)


def find(tiny: Tiny, oracle: str) -> list[str]:
    """Return the violations of one oracle, and require that there are no others."""
    report = tiny.audit()
    assert set(report.totals) == {oracle}, report.violations
    violations: list[str] = report.violations[oracle]
    assert report.totals[oracle] == len(violations)
    return violations


def show(report: AuditReport) -> str:
    """Return everything that the command prints."""
    output = io.StringIO()
    render(report, Console(file=output, width=200))
    return output.getvalue()
