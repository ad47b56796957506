"""The queries of the committed dashboards."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parents[3] / "deploy" / "grafana" / "dashboards"


@dataclass(frozen=True, slots=True)
class Query:
    """A query, and its place: the uid of the dashboard, and the title of the panel or of the kind of event."""

    dashboard: str
    title: str
    expression: str
    instant: bool = False

    def with_values(self, job: str, rate_interval: str, whole_range: str) -> str:
        """Return the expression with values for the variables, as Grafana sends it."""
        values = {"$__rate_interval": rate_interval, "$__range": whole_range, "$job": job}
        return re.sub(r"\$\w+", lambda found: values[found.group()], self.expression)


def read_dashboards() -> dict[str, dict[str, Any]]:
    """Return the committed dashboards by the names of their files."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}


def list_panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the panels of a dashboard without its rows."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def list_panel_queries() -> list[Query]:
    """Return the queries of all panels."""
    return [
        Query(uid, panel["title"], target["expr"], target["instant"])
        for uid, board in read_dashboards().items()
        for panel in list_panels(board)
        for target in panel["targets"]
    ]


def list_event_queries() -> list[Query]:
    """Return the queries of the events that charts mark."""
    return [
        Query(uid, event["name"], event["expr"])
        for uid, board in read_dashboards().items()
        for event in board["annotations"]["list"]
    ]
