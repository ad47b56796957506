"""Write the dashboards of Grafana as JSON: `python -m deploy.grafana.generate --write` (`make dashboards`)."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    Dashboard,
    DashboardLinkType,
    RowPanel,
    VariableOption,
    VariableRefresh,
)

from deploy.grafana import budget, glance, public, running
from deploy.grafana.panels import SOURCE, Rows

FOLDER: Final = Path(__file__).parent / "dashboards"
JOBS_OF_SERVICE: Final = "location_monitor_ready"


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard: its title, its purpose, its panels by row, and the events that are marked in its charts.

    `annotations` has, for each kind of event, its query and its colour. `jobs` selects series whose jobs the dashboard
    offers.
    """

    title: str
    purpose: str
    rows: Rows
    annotations: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    jobs: str = JOBS_OF_SERVICE


BOARDS: Final[dict[str, Board]] = {
    "location-monitor-glance": Board(
        "Location monitor: at a glance", "Whether the public gets answers. Begin here after a page.", glance.ROWS
    ),
    "location-monitor-operations": Board(
        "Location monitor: operations",
        "Ingest, release, dependencies and processes, to find the cause of a problem.",
        running.ROWS,
        running.ANNOTATIONS,
    ),
    "location-monitor-privacy": Board(
        "Location monitor: privacy budget",
        "What the configuration may cost a person, and which answers were published.",
        budget.ROWS,
    ),
    "location-monitor-public": Board(
        "Location monitor: public answers",
        "What the public knows over time, from a subscriber, and the public page. Everything about places is public.",
        public.ROWS,
        jobs=public.JOBS,
    ),
}
"""The dashboards by their uid, which is also the name of their file."""


def render(uid: str) -> str:
    """Return the JSON of a dashboard."""
    built = _build(uid, BOARDS[uid])
    return json.dumps(built, cls=JSONEncoder, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _build(uid: str, board: Board) -> Dashboard:
    builder = dashboard.Dashboard(board.title).uid(uid).description(board.purpose).tags(["location-monitor"])
    builder.readonly().refresh("30s").time("now-24h", "now").timezone("browser")
    builder.variables([_make_source_variable(), _make_job_variable(board.jobs)])
    builder.links([_make_link(other, same_jobs=BOARDS[other].jobs == board.jobs) for other in BOARDS if other != uid])
    builder.annotations(
        [
            dashboard.AnnotationQuery()
            .name(name)
            .expr(expression)
            .icon_color(colour)
            .datasource(SOURCE)
            .enable(enable=True)
            for name, (expression, colour) in board.annotations.items()
        ]
    )
    for title, panels in board.rows.items():
        builder.with_row(dashboard.Row(title))
        for panel in panels:
            builder.with_panel(panel)
    return _number_panels(builder.build())


def _number_panels(built: Dashboard) -> Dashboard:
    """Number the panels, so that links to a panel stay valid when Grafana loads the file again."""
    for number, panel in enumerate(built.panels or (), start=1):
        panel.id_val = number
        if isinstance(panel, RowPanel):
            panel.datasource = None
    return built


def _make_source_variable() -> dashboard.DatasourceVariable:
    return dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")


def _make_job_variable(jobs: str) -> dashboard.QueryVariable:
    variable = dashboard.QueryVariable("job").label("Job").datasource(SOURCE)
    variable.query(f"label_values({jobs}, job)").refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    everything = VariableOption(selected=True, text="All", value="$__all")
    return variable.multi(multi=True).include_all(include_all=True).all_value(".+").current(everything)


def _make_link(uid: str, *, same_jobs: bool) -> dashboard.DashboardLink:
    """Return a link to a dashboard. A dashboard with other jobs would show nothing for the selected ones."""
    title = BOARDS[uid].title.partition(": ")[2].capitalize()
    link = dashboard.DashboardLink(title).type(DashboardLinkType.LINK)
    return link.url(f"/d/{uid}").include_vars(include_vars=same_jobs).keep_time(keep_time=True)


def write() -> None:
    """Write the files of all dashboards."""
    for uid in BOARDS:
        (FOLDER / f"{uid}.json").write_text(render(uid), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m deploy.grafana.generate --write")
    write()
