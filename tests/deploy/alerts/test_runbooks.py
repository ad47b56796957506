"""Runbooks on real servers: a fault fires the alert, the commands of the runbook run, and the alert clears.

A real Prometheus scrapes a real service and evaluates the rules of deploy/prometheus/ every half second. This is the
sample of `make test`; test_drills.py is for every alert.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest

from tests.conftest import Eventually
from tests.deploy.alerts.faults import foreign_member, full_store
from tests.deploy.alerts.runbooks import RULES
from tests.deploy.alerts.site import JOB, Site, run_site
from tests.deploy.grafana.queries import Query, list_event_queries, list_panel_queries
from tests.shared_kafka import SharedKafka

pytestmark = pytest.mark.long

DETECT_SECONDS = 60.0
CLEAR_SECONDS = 90.0


@pytest.fixture(scope="module")
def site(kafka: SharedKafka, tmp_path_factory: pytest.TempPathFactory, eventually: Eventually) -> Iterator[Site]:
    """A service that is ready, watched by Prometheus."""
    folder = tmp_path_factory.mktemp("runbooks")
    with run_site(folder, kafka, eventually, [RULES], audited=False, scrape="500ms") as site:
        yield site


FAULTS: dict[str, tuple[str, Callable[[Site, Eventually], AbstractContextManager[None]]]] = {
    "LocationMonitorTicksMissing": ("ticks-missing", foreign_member),
    "LocationMonitorAnswersUnknown": ("answers-unknown", full_store),
}


WITHOUT_DATA = {
    "Alerts that fire": "no alert fires in a sound service",
}
"""Panels of the dashboards without data here, and why."""


def test_dashboards_show_data(site: Site, eventually: Eventually) -> None:
    """Each query of the dashboards returns data; those of WITHOUT_DATA may return none."""
    site.report_now()
    eventually(lambda: find_empty(site) <= set(WITHOUT_DATA), 60)  # an alert may fire on a machine that is too busy


def find_empty(site: Site) -> set[str]:
    """Return the titles of the panels and events whose query has no data."""
    queries = [*list_panel_queries(), *map(_remove_condition, list_event_queries())]
    assert set(WITHOUT_DATA) <= {query.title for query in queries}
    asked = {query: query.with_values(JOB, "1m", "5m") for query in queries}
    return {query.title for query, expression in asked.items() if not site.query(expression)}


def _remove_condition(query: Query) -> Query:
    """Return the query without its last comparison, which selects the events to mark."""
    return replace(query, expression=re.split(" > 0$| unless ", query.expression)[0])


@pytest.mark.parametrize("alert", FAULTS)
def test_fault_alerts_and_clears(site: Site, alert: str, eventually: Eventually) -> None:
    """The fault fires its alert, and it clears afterwards. Meanwhile the commands run, and all panels have data."""
    anchor, fault = FAULTS[alert]
    eventually(lambda: alert not in site.firing() and site.ready(), CLEAR_SECONDS)
    began = time.monotonic()
    with fault(site, eventually):
        eventually(lambda: alert in site.firing(), DETECT_SECONDS)
        detected = time.monotonic()
        executed = site.run_commands(anchor)
        assert len(executed) >= 3
        eventually(lambda: not find_empty(site), 30)
    mitigated = time.monotonic()
    eventually(lambda: alert not in site.firing(), CLEAR_SECONDS)
    seconds = f"detected after {detected - began:.0f} s, cleared after {time.monotonic() - mitigated:.0f} s"
    print(f"{alert}: {seconds}")
