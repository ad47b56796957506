"""A town of two places and four people, small enough to count by hand, and a faultless run of it.

slot           0     1     2     3     4     5     6        slots of 1 h from midnight; W = 3, F = 1
p1 at park     ──
p2 at park           ──
p3 at shop                 ──                               02:20 to 02:40, reported at 02:40
p4 at shop                 ──                               the same, reported at 03:10, in slot 3
people, park   1     2     2     1     0     0     0        `walk`: T = 2, ε = 1, one answer per window
answer         safe  3 until tick 4      safe  safe         paused at the ticks 2 to 4
shop at 02:30  -     1     2     2                          `night`, from tick 2 on: T = 2, ε = 1/2, horizon 3 h
                                 shop at most 3             `busiest`, where tests ask for it: once, at tick 4
"""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from monitor.tools.audit import AuditReport, audit

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


def as_of(tick: int) -> str:
    """Return the time at which a tick closes its slot."""
    return f"2026-01-01T{tick + 1:02}:00:00Z"


def start(slot: int) -> str:
    """Return the start of a slot."""
    return f"2026-01-01T{slot:02}:00:00Z" if slot >= 0 else f"2025-12-31T{24 + slot:02}:00:00Z"


def record(key: str, tick: int, value: dict[str, Any]) -> dict[str, Any]:
    """Return one line of the file of alerts."""
    headers = {
        "ce_specversion": "1.0",
        "ce_id": f"{key}/{tick}",
        "ce_source": "tiny",
        "ce_type": f"org.location-monitor.{value['kind']}",
        "ce_time": as_of(tick),
        "content-type": "application/json",
    }
    return {"key": key, "headers": headers, "value": value, "partition": 0, "offset": 0}


def owner_value(**more: Any) -> dict[str, Any]:
    """Return the value of an owner record."""
    value: dict[str, Any] = {"service": "tiny", "fingerprint": "0" * 16, "input_topic_id": "", "partitions": 1}
    return value | {"lost_at": None, "input_since": None, "input_partitions": 1} | more


def owner(charges: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return an owner record."""
    made = record("owner", 0, owner_value(charges=charges, kind="owner", **more))
    made["headers"] |= {"ce_id": f"owner/0/{uuid.uuid4().hex}"}
    return made


def charges(night_at: str = "02:30:00") -> dict[str, Any]:
    """Return the charges of the tiny configuration."""
    places = [{"monitor": "walk", "answers": 1, "window": 3, "shares": {"1": ["park"]}}]
    night = {"monitor": "night", "kind": "at_times", "epsilon": "1/2", "horizon": "3h", "at": [night_at]}
    times = [night | {"timezone": "Europe/London", "instants": "0" * 16}]
    return {"digest": "0" * 16, "max_lead": 1, "places": places, "times": times}


def walk(tick: int, status: str, answers: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Return a record of `walk` about the park."""
    value = {
        "monitor": "walk",
        "kind": "over_time",
        "location_id": "park",
        "tick": tick,
        "as_of": as_of(tick),
        "window_start": start(tick - 2),
        "status": status,
        "threshold": 2,
        "epsilon": "1",
        "answers": answers,
        **more,
    }
    return record("walk/park", tick, value)


def night(tick: int, noisy: dict[str, Any], status: str = "complete") -> dict[str, Any]:
    """Return a record of `night` about 02:30."""
    value = {
        "monitor": "night",
        "kind": "at_times",
        "time": "2026-01-01T02:30:00Z",
        "shard": 0,
        "shards": 1,
        "tick": tick,
        "as_of": as_of(tick),
        "status": status,
        "final": tick == 4,
        "registry": hashlib.sha256(b"park\nshop\n").hexdigest(),
        "locations": 2,
        "threshold": 2,
        "epsilon": "1/2",
        "noisy_counts": noisy,
    }
    return record("night/2026-01-01T02:30:00Z/0", tick, value)


def busiest(named: dict[str, int], tick: int, top: int, status: str) -> dict[str, Any]:
    """Return a record of `busiest` about 02:30."""
    value = {
        "monitor": "busiest",
        "kind": "hot_spots",
        "time": "2026-01-01T02:30:00Z",
        "tick": tick,
        "as_of": as_of(tick),
        "status": status,
        "final": True,
        "registry": hashlib.sha256(b"park\nshop\n").hexdigest(),
        "locations": 2,
        "top": top,
        "epsilon": "1/3",
        "hot_spots": [{"location_id": location, "noisy_count": count} for location, count in named.items()],
    }
    return record("busiest/2026-01-01T02:30:00Z", tick, value)


def build_faultless_run() -> list[dict[str, Any]]:
    """Return the records of a faultless run."""
    mark = [{"tick": 1, "noisy_count": 3, "epsilon": "1", "until": 4}]
    shop = {"shop": {"tick": 3, "noisy_count": 2}}
    records = [
        walk(0, "safe", []),
        walk(1, "noisy_count", mark, noisy_count=3, count_at_most=3, p_value=math.exp(-2)),
        *(walk(tick, "paused", mark, resumes_at=as_of(5)) for tick in (2, 3, 4)),
        walk(5, "safe", []),
        walk(6, "safe", []),
        night(2, {}),
        night(3, shop),
        night(4, shop),
    ]
    records.sort(key=lambda line: line["value"]["tick"])
    return records


@dataclass
class Tiny:
    """The files of the run, which tests change before they audit them."""

    folder: Path
    lines: list[str] = field(default_factory=lambda: list(LINES))
    config: str = CONFIG
    records: list[dict[str, Any]] = field(default_factory=build_faultless_run)
    _written: dict[Path, str] = field(default_factory=dict)

    def __getitem__(self, ce_id: str) -> dict[str, Any]:
        """Return the value of a record."""
        value: dict[str, Any] = self.find(ce_id)["value"]
        return value

    def walk(self, tick: int, status: str, answers: list[dict[str, Any]], **more: Any) -> None:
        """Replace a record about the park."""
        place = next(n for n, line in enumerate(self.records) if line["headers"]["ce_id"] == f"walk/park/{tick}")
        self.records[place] = walk(tick, status, answers, **more)

    def state_enough(self) -> None:
        """State enough ε for all monitors that tests add."""
        self.config = self.config.replace('privacy: {epsilon: "2"', 'privacy: {epsilon: "9"')

    def watch_busiest(
        self, named: dict[str, int] | None = None, *, top: int = 1, tick: int = 4, status: str = "complete"
    ) -> None:
        """Add a monitor of hot spots, and a record that names these; None: no record."""
        self.config += (
            '  - {name: busiest, kind: hot_spots, at: ["02:30"], timezone: Europe/London, reporting_horizon: 3h, '
            f'epsilon: "1/3", top: {top}}}\n'
        )
        if named is not None:
            self.insert(busiest(named, tick, top, status))

    def insert(self, line: dict[str, Any]) -> None:
        """Insert a record after the others of its tick."""
        self.records.append(line)
        self.records.sort(key=lambda line: line["value"].get("tick", 0))

    def find(self, ce_id: str) -> dict[str, Any]:
        """Return a record."""
        return next(line for line in self.records if line["headers"]["ce_id"] == ce_id)

    def remove(self, *ce_ids: str) -> None:
        """Remove records."""
        self.records = [line for line in self.records if line["headers"]["ce_id"] not in ce_ids]

    def write(self) -> tuple[Path, Path, Path]:
        """Write the visits, the configuration and the alerts to files."""
        self.write_text(self.folder / "locations.csv", "location_id\npark\nshop\n")
        visits, config, alerts = (self.folder / name for name in ("visits.csv", "config.yaml", "alerts.jsonl"))
        self.write_text(visits, "\n".join(self.lines) + "\n")
        self.write_text(config, self.config)
        self.write_text(alerts, "".join(json.dumps(line) + "\n" for line in self.records))
        return visits, config, alerts

    def write_text(self, path: Path, text: str) -> None:
        """Write a file, unless it has this text already."""
        if self._written.get(path) != text:
            path.write_text(text)
            self._written[path] = text

    def audit(self, *, every_tick: bool = True, fates: Mapping[str, int] | None = None) -> AuditReport:
        """Audit the files as they are now."""
        visits, config, alerts = self.write()
        return audit(visits, config, alerts, every_tick=every_tick, fates=fates)


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    """A faultless run."""
    return Tiny(tmp_path)


def find(tiny: Tiny, oracle: str, *, every_tick: bool = True) -> list[str]:
    """Return the violations of one oracle, and require that there are no others."""
    report = tiny.audit(every_tick=every_tick)
    assert set(report.totals) == {oracle}, report.violations
    violations: list[str] = report.violations[oracle]
    assert report.totals[oracle] == len(violations)
    return violations
