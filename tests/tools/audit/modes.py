"""The two ways to judge records of files: as a run that ends, and as a run that goes on, as `audit --follow` does."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from monitor.tools.audit import AuditReport, audit, render
from monitor.tools.audit.audit import judge_records
from monitor.tools.audit.engine import Engine, Run
from monitor.tools.audit.records import read_file
from monitor.tools.audit.recount import create_recounts
from monitor.tools.audit.terms import read_terms
from monitor.tools.audit.text import parse_instant
from monitor.tools.audit.visits import read_visits
from monitor.tools.audit.watching import Outcome, Watcher
from tests.tools.audit.conftest import Tiny


@dataclass
class Reports(Watcher):
    """A watcher that keeps all reports."""

    findings: list[tuple[str, str | None]] = field(default_factory=list)
    records: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    gaps: list[tuple[int, int, int]] = field(default_factory=list)
    stretches: list[tuple[int, bool]] = field(default_factory=list)
    last: dict[int, int] = field(default_factory=dict)

    def report_finding(self, kind: str, text: str | None) -> None:
        self.findings.append((kind, text))

    def report_record(self, kind: str) -> None:
        self.records[kind] += 1

    def report_tick(self, partition: int, tick: int, as_of: int) -> None:
        assert as_of > 0
        self.last[partition] = tick

    def report_outcome(self, outcome: Outcome) -> None:
        self.outcomes[outcome] += 1

    def report_missing(self, partition: int, first: int, last: int) -> None:
        self.gaps.append((partition, first, last))

    def report_unjudged(self, partition: int, position: str, *, begins: bool) -> None:
        assert position
        self.stretches.append((partition, begins))

    @property
    def kinds(self) -> set[str]:
        return {kind for kind, _text in self.findings}


def encode(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return records with JSON as values."""
    return [line | {"value": json.dumps(line["value"])} for line in records]


def write(tiny: Tiny, encoded: list[dict[str, Any]]) -> Path:
    """Write records with JSON as values to a file."""
    path = tiny.folder / "encoded.jsonl"
    lines = [json.dumps(line | {"value": "@value@"}).replace('"@value@"', line["value"]) for line in encoded]
    tiny.write_text(path, "".join(f"{line}\n" for line in lines))
    return path


def audit_once(tiny: Tiny, encoded: list[dict[str, Any]], *, every_tick: bool = True) -> AuditReport:
    """Audit records with JSON as values, as a file."""
    visits, config, _alerts = tiny.write()
    return audit(visits, config, write(tiny, encoded), every_tick=every_tick)


def follow(tiny: Tiny, encoded: list[dict[str, Any]]) -> Reports:
    """Judge records with JSON as values as a run that goes on. Return what was reported."""
    return follow_parts(tiny, encoded)[0]


def follow_parts(tiny: Tiny, *parts: list[dict[str, Any]], configs: Sequence[Path] = ()) -> tuple[Reports, Engine]:
    """Judge as `follow` does, one part of the records after the other. Return the engine too.

    The clock is at the end of the run's slot 7. `configs`: instead of the configuration of the run, newest first.
    """
    visits, config, _alerts = tiny.write()
    terms, reports, now = [read_terms(path) for path in configs or [config]], Reports(), "2026-01-01T08:00:00Z"
    recounts = create_recounts(terms)
    for recount in recounts:
        for line in read_visits(visits, recount.terms):
            recount.take(line)
    engine = Engine(terms, recounts, reports, Run(ends=False, now=lambda: parse_instant(now)))
    for part in parts:
        engine.begin_turn()
        judge_records(engine, read_file(write(tiny, part)))
    return reports, engine


def show(report: AuditReport) -> str:
    """Return everything that the command prints."""
    output = io.StringIO()
    render(report, Console(file=output, width=200))
    return output.getvalue()
