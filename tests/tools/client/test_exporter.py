"""The published answers as metrics: the states of places over time, from the output topic alone."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from monitor.contracts.clock import SteppedClock
from monitor.contracts.instants import HOUR, SECOND
from monitor.contracts.output_records import OutputRecord
from monitor.errors import UsageError
from monitor.service.wiring import Settings
from monitor.tools.client.exporter import (
    CODES,
    MOST_PLACES,
    PUBLIC_METRICS,
    STATES,
    ExportOptions,
    PublicMetrics,
    export,
    export_command,
)
from monitor.tools.client.places import open_places
from tests.conftest import Eventually
from tests.tools.client.records import REGISTRY, SLOTS, over_time

Publish = Callable[[list[tuple[OutputRecord, int]]], None]


def series(metrics: PublicMetrics) -> dict[tuple[str, ...], float]:
    """Return the values by name, without prefix, and labels, without the metrics of the process."""
    return {
        (sample.name.removeprefix("location_monitor_public_"), *sample.labels.values()): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name.startswith("location_monitor_")
    }


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock(SLOTS.as_of(7))


@pytest.fixture
def exported(settings: Settings, publish: Publish, clock: SteppedClock) -> Iterator[Callable[..., PublicMetrics]]:
    """A function that exports the topic with a number of own series until the end of the test."""
    running: list[tuple[threading.Event, threading.Thread]] = []

    def start(most: int = 50) -> PublicMetrics:
        metrics, stop = PublicMetrics(REGISTRY.ids, HOUR, most), threading.Event()
        topic = settings.config.kafka.topics.alerts

        def run() -> None:
            with open_places(settings.kafka, topic, REGISTRY, HOUR, clock) as places:
                export(places, metrics, stop)

        running.append((stop, threading.Thread(target=run)))
        running[-1][1].start()
        return metrics

    yield start
    for stop, thread in running:
        stop.set()
        thread.join(30)


def test_states_follow_the_topic(
    exported: Callable[..., PublicMetrics], publish: Publish, clock: SteppedClock, eventually: Eventually
) -> None:
    """Each place has the state of its latest answer, and becomes unknown when the answer expires."""
    first, second = REGISTRY.ids[:2]
    publish([(over_time(first, 7, 0), SLOTS.as_of(7)), (over_time(second, 7, 12), SLOTS.as_of(7))])
    metrics = exported()
    eventually(lambda: ("as_of_timestamp_seconds",) in series(metrics), 30)
    values = series(metrics)
    assert values["as_of_timestamp_seconds",] == SLOTS.as_of(7) / SECOND
    assert (values["state", first], values["state", second]) == (CODES["safe"], CODES["noisy_count"])
    counts = {state: values["places", state] for state in STATES}
    assert counts == {"safe": 1, "noisy_count": 1, "paused": 0, "unknown": len(REGISTRY.ids) - 2}
    publish([(over_time(first, 8, None), SLOTS.as_of(8))])
    clock.move_to(SLOTS.as_of(8))
    eventually(lambda: series(metrics)["state", first] == CODES["unknown"])
    assert series(metrics)["state", second] == CODES["noisy_count"]
    clock.move_to(SLOTS.as_of(12))
    eventually(lambda: series(metrics)["places", "unknown"] == len(REGISTRY.ids))


def test_series_are_capped() -> None:
    """Only the first places have series, and the counts are of all; a million places have no more series."""
    metrics = PublicMetrics(REGISTRY.ids, HOUR, 1)
    values = series(metrics)
    assert [key[1] for key in values if key[0] == "state"] == [REGISTRY.ids[0]]
    assert values["places_left_out",] == len(REGISTRY.ids) - 1
    assert values["places", "unknown"] == len(REGISTRY.ids)
    many = PublicMetrics([f"place-{number}" for number in range(MOST_PLACES + 10)], HOUR, 10**6)
    assert sum(key[0] == "state" for key in series(many)) == MOST_PLACES


def test_every_catalogued_metric_is_exported() -> None:
    """The metrics are those of the catalog; the time of the latest answer is absent without an answer."""
    names = {f"public_{key[0]}" for key in series(PublicMetrics(REGISTRY.ids, HOUR, 5))}
    assert names == {metric.name for metric in PUBLIC_METRICS} - {"public_as_of_timestamp_seconds"}


@pytest.mark.promise(22)
def test_command_needs_the_topic_only(settings: Settings, publish: Publish, tmp_path: Path) -> None:
    """The command runs without Redis, person key and password, and serves nothing but public answers."""
    publish([])
    file, lines, stop = _write_configuration(tmp_path, settings), list[str](), threading.Event()
    serving = threading.Thread(
        target=lambda: export_command(file, ExportOptions(0, places=2), stop, lambda line: _note(lines, line, ready))
    )
    ready = threading.Event()
    serving.start()
    try:
        assert ready.wait(30)
        with closing(
            http.client.HTTPConnection(urlsplit(lines[0].rpartition(" ")[2]).netloc, timeout=10)
        ) as connection:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
    finally:
        stop.set()
        serving.join(30)
    names = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if not line.startswith("#")}
    ours = {name for name in names if not name.startswith(("process_", "python_"))}
    assert ours
    assert all(name.startswith("location_monitor_public_") for name in ours)


def _note(lines: list[str], line: str, ready: threading.Event) -> None:
    lines.append(line)
    ready.set()


def _write_configuration(folder: Path, settings: Settings) -> Path:
    """Write the demo's configuration with this topic, a Redis that nobody serves, and a key that is no file."""
    demo = Path(__file__).parents[3] / "config" / "demo.yaml"
    text = demo.read_text(encoding="utf-8")
    for before, after in (
        ("demo-locations.csv", str(demo.parent / "demo-locations.csv")),
        ("demo-map.geojson", str(demo.parent / "demo-map.geojson")),
        ("localhost:9092", settings.config.kafka.bootstrap_servers[0]),
        ("safety-alerts", settings.config.kafka.topics.alerts),
        ("redis://localhost:6379/0", "redis://127.0.0.1:1/0"),
        ("# person_key_file: person.key", "person_key_file: absent.key"),
    ):
        assert before in text
        text = text.replace(before, after)
    (folder / "watch.yaml").write_text(text, encoding="utf-8")
    return folder / "watch.yaml"


def test_taken_port_is_named(settings: Settings, publish: Publish, tmp_path: Path) -> None:
    """A port that is taken is refused with the name of the option."""
    publish([])
    file, stop = _write_configuration(tmp_path, settings), threading.Event()
    with pytest.raises(UsageError, match="--metrics is 1: cannot listen"):
        export_command(file, replace(ExportOptions(1), host="192.0.2.1"), stop, print)
