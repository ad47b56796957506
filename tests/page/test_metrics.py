"""The metrics of the page: its subscribers, responses and age, on an address that is not the public one."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.routing import Route

from monitor.page.metrics import OTHER, PAGE_METRICS, ROUTES
from monitor.page.server import Page
from monitor.time.instants import SECOND
from tests.conftest import Eventually
from tests.page.conftest import OpenPage
from tests.page.test_http import Stream, by_id, get
from tests.page.world import FIRST, Town, get_feed

Samples = dict[tuple[str, tuple[str, ...]], float]


def parse(text: str) -> Samples:
    """Return the samples of the page by name, without prefix, and labels."""
    return {
        (sample.name.removeprefix("location_monitor_page_"), tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("location_monitor_page_")
    }


def request(page: Page, path: str = "/metrics") -> tuple[int, str]:
    """Request a path of the address of the metrics, and return status and body."""
    connection = http.client.HTTPConnection(urlsplit(page.metrics_url).netloc, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def scrape(page: Page) -> Samples:
    return parse(request(page)[1])


@pytest.fixture
def watched(town: Town, open_page: OpenPage) -> Page:
    """The page of a town with one tick, with metrics."""
    town.publish(FIRST)
    return open_page(town, metrics_port=0)


@pytest.mark.promise(22)
def test_responses_are_counted(watched: Page, town: Town) -> None:
    """Each response counts by its route and the class of its status; paths and ids appear nowhere."""
    for path in ("/", "/v1/locations", "/v1/locations/library/history", "/v1/locations/planted/history", "/planted"):
        get(watched, path)
    tag = get(watched, "/v1/locations").headers["etag"]
    get(watched, "/v1/locations", If_None_Match=tag)
    get(watched, "/v1/locations?planted=1")
    get(watched, "/v1/locations", method="OPTIONS")
    counted = {
        labels: value for (name, labels), value in scrape(watched).items() if name == "responses_total" and value
    }
    assert counted == {
        ("page", "2xx"): 1,
        ("locations_json", "2xx"): 2,
        ("locations_json", "3xx"): 1,
        ("locations_json", "4xx"): 1,
        ("history", "2xx"): 1,
        ("history", "4xx"): 1,
        (OTHER, "4xx"): 1,
        (OTHER, "2xx"): 1,
    }
    _, text = request(watched)
    assert "planted" not in text
    assert not any(place in text for place in town.parts.parameters.registry.ids)


def test_subscribers_are_counted(watched: Page, town: Town, eventually: Eventually) -> None:
    """Subscribers count while they are connected, and the age is that of the latest answer."""
    with Stream(watched):
        eventually(lambda: scrape(watched)["subscribers", ()] == 1)
    eventually(lambda: scrape(watched)["subscribers", ()] == 0)
    values, grid = scrape(watched), town.parts.parameters.grid
    assert values["responses_total", ("stream", "2xx")] == 1
    assert values["as_of_timestamp_seconds", ()] == grid.as_of(FIRST) / SECOND
    town.publish(FIRST + 1)
    eventually(lambda: scrape(watched)["as_of_timestamp_seconds", ()] == grid.as_of(FIRST + 1) / SECOND)
    assert values["slot_seconds", ()] == grid.length / SECOND
    assert 0 <= values["source_age_seconds", ()] < 30


def test_empty_page_has_no_age(town: Town, open_page: OpenPage) -> None:
    """Before the first answer, the series of its time is absent; all series with closed labels exist."""
    values = scrape(open_page(town, metrics_port=0))
    assert ("as_of_timestamp_seconds", ()) not in values
    expected = {metric.name.removeprefix("page_") for metric in PAGE_METRICS} - {"as_of_timestamp_seconds"}
    assert {name.removesuffix("_total") for name, _ in values} == expected
    assert sum(name == "responses_total" for name, _ in values) == 4 * len(ROUTES)


def test_metrics_are_not_public(watched: Page, town: Town, open_page: OpenPage) -> None:
    """The public address has no metrics; without the key nothing listens; the metrics' address has no answers."""
    assert get(watched, "/metrics").status == 404
    assert request(watched, "/v1/locations")[0] == 404
    assert urlsplit(watched.metrics_url).hostname == "localhost"
    assert open_page(town).metrics_url == ""


def test_routes_are_closed(watched: Page) -> None:
    """The routes of the catalog are those of the application, so no response is counted as another route's."""
    site = watched._site  # noqa: SLF001  # the routes that are served, not those of a copy
    names = {route.name for route in site.create_app(()).routes if isinstance(route, Route)}
    assert names == set(ROUTES) - {OTHER}


def test_silent_kafka_makes_all_unknown(watched: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """If Kafka does not answer for `page.unreachable_after`, every place is unknown, and the page is not ready."""
    feed = get_feed(watched)
    later = feed.monotonic() + 61
    monkeypatch.setattr(feed, "monotonic", lambda: later)
    monkeypatch.setattr(feed, "_reached", later - 59)
    assert request(watched, "/readyz")[0] == 200
    monkeypatch.setattr(feed, "_reached", later - 61)
    status, text = request(watched, "/readyz")
    assert (status, "61 s" in text) == (503, True)
    place = by_id(watched)["market-north"]
    assert (place["state"], place["reason"]) == ("unknown", "unreachable")
    assert "count_at_most" not in place
