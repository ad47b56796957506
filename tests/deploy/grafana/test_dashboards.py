"""The dashboards of Grafana: their queries are valid, and they follow Grafana's rules.

tests/deploy/alerts/test_runbooks.py runs the queries against a Prometheus that watches a service.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

from monitor.observe.metric_catalog import METRICS
from monitor.tools.client.metric_catalog import PUBLIC_METRICS
from monitor.tools.page.metric_catalog import PAGE_METRICS
from tests.deploy.alerts.runbooks import RULES
from tests.deploy.grafana.queries import (
    Query,
    list_event_queries,
    list_panel_queries,
    list_panels,
    read_dashboards,
)

Skip = Callable[[str, str], NoReturn]
BOARDS = read_dashboards()
CATALOG = (*METRICS, *PAGE_METRICS, *PUBLIC_METRICS)
QUERIES = [*list_panel_queries(), *list_event_queries()]
PROCESS_METRICS = {
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
}
"""Metrics of the Prometheus client for any Python process."""

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
def test_dashboard_links_to_the_others(uid: str) -> None:
    """The dashboard links to the others, with the time range, and with the variables if both offer the same jobs."""
    links = {link["url"]: link for link in BOARDS[uid]["links"]}
    assert set(links) == {f"/d/{other}" for other in BOARDS if other != uid}
    assert all(link["keepTime"] for link in links.values())
    jobs = {f"/d/{other}": board["templating"]["list"][1]["query"] for other, board in BOARDS.items()}
    for url, link in links.items():
        assert link.get("includeVars", False) is (jobs[url] == jobs[f"/d/{uid}"])


@each_board
def test_dashboard_has_variables(uid: str) -> None:
    """Data source and job are variables; the jobs are asked again when the time range changes."""
    source, job = BOARDS[uid]["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    assert (job["name"], job["type"], job["multi"], job["allValue"]) == ("job", "query", True, ".+")
    assert job["datasource"]["uid"] == "${datasource}"
    assert job["refresh"] == 2


@each_board
def test_panels_are_described(uid: str) -> None:
    """Each panel has a unique title, a description of at least one sentence, a unit and a named series."""
    shown = list_panels(BOARDS[uid])
    titles = [panel["title"] for panel in shown]
    assert len(set(titles)) == len(titles)
    for panel in shown:
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["targets"], panel["title"]
        assert all(target["legendFormat"] for target in panel["targets"]), panel["title"]


@each_board
def test_figures_have_thresholds(uid: str) -> None:
    """Each large figure has a colour for every value, so that a person at night need not know what is good."""
    figures = [panel for panel in list_panels(BOARDS[uid]) if panel["type"] == "stat"]
    for panel in figures:
        steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        assert steps[0]["value"] is None, panel["title"]
        assert [step["value"] for step in steps[1:]] == sorted(step["value"] for step in steps[1:])


@each_board
def test_panels_do_not_overlap(uid: str) -> None:
    """No two panels of a dashboard cover the same cell of its grid, which has 24 columns."""
    cells: set[tuple[int, int]] = set()
    for panel in BOARDS[uid]["panels"]:
        place = panel["gridPos"]
        covered = {
            (column, row)
            for column in range(place["x"], place["x"] + place["w"])
            for row in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & covered, panel["title"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        cells |= covered


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
def test_query_names_existing_metrics(query: Query) -> None:
    """Every metric of a query is in the catalog, is recorded by the rules, or belongs to every Python process."""
    series = {
        metric.exposed_name + suffix
        for metric in CATALOG
        for suffix in (("_bucket",) if metric.kind == "histogram" else ("",))
    }
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    recorded = {rule["record"] for group in groups for rule in group["rules"] if "record" in rule}
    named = set(re.findall(r"([a-zA-Z_:][a-zA-Z0-9_:]*){", query.expression))
    assert named
    assert named <= series | recorded | PROCESS_METRICS | {"ALERTS"}


@each_query
def test_query_names_existing_labels(query: Query) -> None:
    """Every label that a query matches by value has that value in the catalog."""
    known = {
        (label, value)
        for metric in CATALOG
        for label, values in metric.labels.items()
        if not isinstance(values, str)
        for value in values
    }
    for label, values in re.findall(r'\b(status|outcome|cause|fate|reason|state)=~?"([^"]+)"', query.expression):
        assert {(label, value) for value in values.split("|")} <= known


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


def test_prometheus_parses_queries(tmp_path: Path, skip_without: Skip) -> None:
    """Prometheus parses every query, given to it as recording rules."""
    promtool = shutil.which("promtool")
    if promtool is None:
        skip_without("Prometheus (no promtool on the PATH)", "make test-tools")
    rules = [
        {"record": f"query:number{number}", "expr": query.with_values("location-monitor", "1m", "1d")}
        for number, query in enumerate(QUERIES)
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}), encoding="utf-8")
    ended = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{len(QUERIES)} rules found" in ended.stdout


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
