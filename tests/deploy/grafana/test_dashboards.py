"""The dashboards of Grafana: what a query without data would not show.

tests/deploy/alerts/test_runbooks.py proves that each query finds data in a Prometheus that watches a service.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.alerts.runbooks import PAGE as RUNBOOKS
from tests.deploy.alerts.runbooks import RULES, RUNBOOK_BASE, alerts, find_anchor
from tests.deploy.grafana.queries import (
    Query,
    list_event_queries,
    list_panel_queries,
    list_panels,
    read_dashboards,
)

pytestmark = pytest.mark.long

BOARDS = read_dashboards()
PANELS = [panel for board in BOARDS.values() for panel in list_panels(board)]
DOCS = RUNBOOK_BASE.removesuffix("/runbooks.md#")
VARIABLE = "${docs:raw}/"
QUERIES = [*list_panel_queries(), *list_event_queries()]

each_board = pytest.mark.parametrize("uid", BOARDS)
each_query = pytest.mark.parametrize("query", QUERIES, ids=lambda query: f"{query.dashboard}: {query.title}")


@each_board
def test_dashboard_is_fixed(uid: str) -> None:
    """The uid is the name of the file, panels have unique numbers, and nobody edits a provisioned dashboard."""
    board = BOARDS[uid]
    numbers = [panel["id"] for panel in board["panels"]]
    assert board["uid"] == uid
    assert len(set(numbers)) == len(numbers)
    assert board["editable"] is False
    assert board["description"]


@each_board
def test_dashboard_has_variables(uid: str) -> None:
    """Data source, job and documentation are variables; the jobs are asked again when the time range changes."""
    source, job, docs = BOARDS[uid]["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    assert (job["name"], job["type"], job["multi"], job["allValue"]) == ("job", "query", True, ".+")
    assert job["datasource"]["uid"] == "${datasource}"
    assert job["refresh"] == 2
    assert (docs["name"], docs["type"], docs["query"]) == ("docs", "textbox", DOCS)
    assert docs["current"]["value"] == DOCS


@each_board
def test_data_source_is_the_variable(uid: str) -> None:
    """Every data source in the file is the variable `$datasource`."""
    assert set(_list_sources(BOARDS[uid])) == {"${datasource}"}


def _list_sources(tree: Any) -> list[str]:
    """Return the uids of all data sources in a tree of JSON."""
    if isinstance(tree, list):
        return [uid for item in tree for uid in _list_sources(item)]
    if not isinstance(tree, dict):
        return []
    own = [tree["datasource"]["uid"]] if tree.get("datasource") else []
    return own + [uid for value in tree.values() for uid in _list_sources(value)]


@each_query
def test_query_selects_the_job(query: Query) -> None:
    """Every selector of a query matches the variable `$job`."""
    selectors = re.findall(r"{[^}]*}", query.expression)
    assert selectors
    assert all('job=~"$job"' in selector for selector in selectors)
    assert re.search(r"[a-z]\[", query.expression) is None, "a selector without braces"


@each_query
def test_rates_follow_the_time_range(query: Query) -> None:
    """Rates use `$__rate_interval`; a figure, which shows one value, may use the whole `$__range`."""
    allowed = {"$__rate_interval", "$__range"} if query.instant else {"$__rate_interval"}
    assert set(re.findall(r"\[([^]]+)\]", query.expression)) <= allowed


@each_query
def test_counters_are_shown_as_rates(query: Query) -> None:
    """Counters and buckets are only used in rate or increase: their values restart with the process."""
    for before in re.findall(r"(\w+)\(?[a-z_]+_(?:total|bucket){", query.expression):
        assert before in {"rate", "increase"}


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_panel_links_to_its_page(panel: dict[str, Any], root: Path) -> None:
    """The link begins with the variable, and leads to a heading; if the panel names an alert, to its runbook."""
    (link,) = panel["links"]
    page, _, anchor = link["url"].removeprefix(VARIABLE).partition("#")
    assert link["url"].startswith(VARIABLE)
    assert link["title"] == ("Runbook" if page == RUNBOOKS.name else "Documentation")
    headings = re.findall(r"^#+ (.+)$", (root / "docs" / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert anchor in {"", *(re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings)}
    runbooks = {alert["alert"]: find_anchor(alert) for alert in alerts(RULES)}
    named = {runbooks[name] for name in re.findall(r"LocationMonitor\w+", panel["description"])}
    assert named <= {anchor}


def test_alert_links_to_its_runbook() -> None:
    """In the list of alerts, the link of a name leads to the anchor before the heading of its runbook."""
    (panel,) = (panel for panel in PANELS if panel["type"] == "table")
    (override,) = panel["fieldConfig"]["overrides"]
    (links,) = override["properties"]
    assert override["matcher"]["options"] == "alertname"
    assert links["value"][0]["url"] == f"{VARIABLE}{RUNBOOKS.name}#${{__data.fields.alertname}}"
    text = RUNBOOKS.read_text(encoding="utf-8")
    for alert in alerts():
        heading = text.partition(f'<a id="{alert["alert"]}"></a>\n')[2].partition("\n### ")[2].partition("\n")[0]
        assert heading.lower().replace(" ", "-") == find_anchor(alert)


def test_provisioning_matches(root: Path) -> None:
    """The provisioned data source scrapes as often as Prometheus does, and the dashboards come from one folder."""
    folder = root / "deploy" / "grafana" / "provisioning"
    source = yaml.safe_load((folder / "datasources" / "prometheus.yaml").read_text(encoding="utf-8"))["datasources"][0]
    provider = yaml.safe_load((folder / "dashboards" / "location-monitor.yaml").read_text(encoding="utf-8"))
    scraping = yaml.safe_load((root / "deploy" / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    assert source["type"] == "prometheus"
    assert source["jsonData"]["timeInterval"] == scraping["global"]["scrape_interval"]
    assert provider["providers"][0]["type"] == "file"
    assert provider["providers"][0]["options"]["path"] in (root / "docs" / "dashboards.md").read_text(encoding="utf-8")
