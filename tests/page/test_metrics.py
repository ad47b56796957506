"""The metrics of the page: its files, its age and its health, on an address that is not the public one."""

from __future__ import annotations

import http.client
import time
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from monitor.page.current_places import Present
from monitor.page.metrics import PAGE_METRICS
from monitor.time.instants import SECOND
from tests.conftest import Eventually
from tests.page.conftest import OpenPage, Served
from tests.page.world import FIRST, Town

Samples = dict[tuple[str, tuple[str, ...]], float]


def parse(text: str) -> Samples:
    """Return the samples of the page by name, without prefix, and labels."""
    return {
        (sample.name.removeprefix("location_monitor_page_"), tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("location_monitor_page_")
    }


def request(page: Served, path: str = "/metrics") -> tuple[int, str]:
    """Request a path of the address of the metrics, and return status and body."""
    connection = http.client.HTTPConnection(urlsplit(page.metrics_url).netloc, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def scrape(page: Served) -> Samples:
    return parse(request(page)[1])


@pytest.fixture
def watched(town: Town, open_page: OpenPage) -> Served:
    """The page of a town with one tick, with metrics."""
    town.publish(FIRST)
    return open_page(town, metrics_port=0)


@pytest.mark.promise(22)
def test_no_place_is_in_the_metrics(watched: Served, town: Town) -> None:
    """The metrics name no place."""
    _, text = request(watched)
    assert not any(place in text for place in town.parts.parameters.registry.ids)


def test_age_is_that_of_the_answers(watched: Served, town: Town, eventually: Eventually) -> None:
    """The age is that of the latest answer, and the files are counted."""
    values, grid = scrape(watched), town.parts.parameters.grid
    assert values["as_of_timestamp_seconds", ()] == grid.as_of(FIRST) / SECOND
    town.publish(FIRST + 1)
    eventually(lambda: scrape(watched)["as_of_timestamp_seconds", ()] == grid.as_of(FIRST + 1) / SECOND)
    eventually(lambda: scrape(watched)["files", ()] > len(town.parts.locations))
    assert values["slot_seconds", ()] == grid.length / SECOND
    assert values["write_failures_total", ()] == 0
    assert 0 <= values["source_age_seconds", ()] < 30
    assert 0 <= time.time() - scrape(watched)["written_timestamp_seconds", ()] < 30


def test_empty_page_has_no_age(town: Town, open_page: OpenPage) -> None:
    """Before the first answer, the series of its time is absent; all others exist."""
    values = scrape(open_page(town, metrics_port=0))
    assert ("as_of_timestamp_seconds", ()) not in values
    expected = {metric.name.removeprefix("page_") for metric in PAGE_METRICS} - {"as_of_timestamp_seconds"}
    assert {name.removesuffix("_total") for name, _ in values} == expected


def test_metrics_are_not_public(watched: Served, town: Town, open_page: OpenPage) -> None:
    """Without the key nothing listens; the metrics' address has no files, and is that of the host itself."""
    assert request(watched, "/states.json")[0] == 404
    assert urlsplit(watched.metrics_url).hostname == "localhost"
    assert open_page(town).metrics_url == ""


def test_unwritable_folder_is_unhealthy(watched: Served, town: Town, eventually: Eventually) -> None:
    """If a file cannot be written, the page is not ready and says why, until it can be written again."""
    folder = watched.page.folder.path
    eventually(lambda: request(watched, "/readyz")[0] == 200)
    (folder / "states.json").unlink()
    (folder / "states.json").mkdir()  # as on a full disk, a file cannot take this name
    town.publish(FIRST + 1)
    status, text = eventually(lambda: (found := request(watched, "/readyz"))[0] == 503 and found)
    assert (status, "it cannot be written (Is a directory)" in text) == (503, True)
    assert scrape(watched)["write_failures_total", ()] > 0
    assert request(watched, "/healthz")[0] == 200
    (folder / "states.json").rmdir()
    eventually(lambda: request(watched, "/readyz")[0] == 200)
    assert watched.read_json("states.json")["as_of"] == "2026-01-06T02:00:00Z"


def test_silent_kafka_makes_all_unknown(
    watched: Served, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    """If Kafka does not answer for `page.unreachable_after`, every place is unknown, and the page is not ready."""
    present = watched.page.present
    monkeypatch.setattr(Present, "silent_seconds", 59.0)
    assert request(watched, "/readyz")[0] == 200
    monkeypatch.setattr(Present, "silent_seconds", 61.0)
    assert not present.is_reachable
    status, text = request(watched, "/readyz")
    assert (status, "61 s" in text) == (503, True)
    eventually(lambda: watched.list_places()["market-north"]["reason"] == "unreachable")
    place = watched.list_places()["market-north"]
    assert (place["state"], "count_at_most" in place) == ("unknown", False)
    assert watched.read_json("states.json")["silent_seconds"] == 61
    assert {answer["state"] for answer in watched.read_json("states.json")["answers"]} == {"unknown"}
