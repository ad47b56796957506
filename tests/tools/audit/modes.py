"""The two modes of the audit on the same records: once, as a file, and with --follow, as topics in memory."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from monitor.tools.audit import AuditReport, audit, render
from monitor.tools.audit.follow import Follower, Sources
from monitor.tools.audit.terms import read_terms
from monitor.tools.audit.text import parse_instant
from tests.tools.audit.conftest import Tiny
from tests.tools.audit.test_follow import Reports
from tests.tools.audit.topics_in_memory import Topics, place_records, place_visits


def encode(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return records with JSON as values."""
    return [line | {"value": json.dumps(line["value"])} for line in records]


def audit_once(tiny: Tiny, encoded: list[dict[str, Any]], *, every_tick: bool = True) -> AuditReport:
    """Audit records with JSON as values, as a file."""
    visits, config, alerts = *tiny.write()[:2], tiny.folder / "encoded.jsonl"
    lines = [json.dumps(line | {"value": "@value@"}).replace('"@value@"', line["value"]) for line in encoded]
    tiny.write_text(alerts, "".join(f"{line}\n" for line in lines))
    return audit(visits, config, alerts, every_tick=every_tick)


def follow(tiny: Tiny, encoded: list[dict[str, Any]]) -> Reports:
    """Follow records with JSON as values, and the visits, as topics. Return what was reported."""
    return follow_to_end(tiny, encoded)[0]


def follow_to_end(tiny: Tiny, *parts: list[dict[str, Any]], configs: Sequence[Path] = ()) -> tuple[Reports, Follower]:
    """Follow as `follow` does, one part of the records after the other. Return the follower too.

    The clock is at the end of the run's slot 7. `configs`: instead of the configuration of the run, newest first.
    """
    alerts: list[Any] = []
    topics = Topics({"alerts": alerts, "visits": place_visits(tiny.lines)})
    now = parse_instant("2026-01-01T08:00:00Z")
    sources = Sources("alerts", topics.open, topics, "visits", topics.open, lambda: now)
    reports = Reports()
    follower = Follower([read_terms(path) for path in configs or [tiny.write()[1]]], sources, reports)
    for part in parts:
        alerts += place_records(part, len(alerts))
        while follower.take_turn():
            pass
        assert follower.cut_off == ""
        assert follower.waiting_ticks == 0
    return reports, follower


def show(report: AuditReport) -> str:
    """Return everything that the command prints."""
    output = io.StringIO()
    render(report, Console(file=output, width=200))
    return output.getvalue()
