"""The dashboards of Grafana: what a query without data would not show.

tests/deploy/alerts/test_runbooks.py proves that each query finds data in a Prometheus that watches a service.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.grafana.queries import (
    Query,
    list_event_queries,
    list_panel_queries,
    read_dashboards,
)

pytestmark = pytest.mark.long

BOARDS = read_dashboards()
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
    """Data source and job are variables; the jobs are asked again when the time range changes."""
    source, job = BOARDS[uid]["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    assert (job["name"], job["type"], job["multi"], job["allValue"]) == ("job", "query", True, ".+")
    assert job["datasource"]["uid"] == "${datasource}"
    assert job["refresh"] == 2


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
