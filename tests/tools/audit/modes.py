"""The two ways to judge records of files: as a run that ends, and as a run that goes on, as `audit --follow` does."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from monitor.tools.audit import AuditReport, audit, render
from monitor.tools.audit.audit import judge_records
from monitor.tools.audit.configuration import read_terms
from monitor.tools.audit.engine import Engine, Run
from monitor.tools.audit.forms import read_file
from monitor.tools.audit.parsing import parse_instant
from monitor.tools.audit.recount import create_recounts
from monitor.tools.audit.visits import read_visits
from tests.tools.audit.conftest import Tiny


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


def follow(tiny: Tiny, *parts: list[dict[str, Any]], configs: Sequence[Path] = ()) -> Engine:
    """Judge records with JSON as values as a run that goes on, one part after the other. Return the engine.

    The clock is at the end of the run's slot 7. `configs`: instead of the configuration of the run, newest first.
    """
    visits, config, _alerts = tiny.write()
    terms, now = [read_terms(path) for path in configs or [config]], "2026-01-01T08:00:00Z"
    recounts = create_recounts(terms)
    for recount in recounts:
        for line in read_visits(visits, recount.terms):
            recount.take(line)
    engine = Engine(terms, recounts, Run(ends=False, now=lambda: parse_instant(now)))
    for part in parts:
        engine.begin_turn()
        judge_records(engine, read_file(write(tiny, part), engine.terms.grid))
    return engine


def show(report: AuditReport) -> str:
    """Return everything that the command prints."""
    output = io.StringIO()
    render(report, Console(file=output, width=200))
    return output.getvalue()
