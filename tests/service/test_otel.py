"""What a running service sends to a collector of OpenTelemetry: its work, and nothing about people or places."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from monitor.observe.metric_catalog import METRICS
from monitor.observe.spans import ATTRIBUTES
from monitor.tools.servers import EmbeddedValkey
from tests.conftest import Eventually
from tests.observe.collector import Collector, attributes, points, run_collector
from tests.service.test_run import PLANTED, RunTown
from tests.shared_kafka import SharedKafka

PEOPLE = [PLANTED, "second-8123", "third-5309", "fourth-2718"]
PLACES = ("inn", "bath", "attic")
RESOURCE = {"service.name", "service.version", "service.instance.id", "telemetry.sdk.language", "telemetry.sdk.name"}


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A running collector."""
    with run_collector() as running:
        yield running


@pytest.fixture
def town(
    kafka: SharedKafka, valkey: EmbeddedValkey, tmp_path: Any, topic: Callable[[str], str], collector: Collector
) -> RunTown:
    """A town that exports to the collector."""
    town = RunTown(tmp_path, topic("otel"), kafka.bootstrap_servers, valkey.url)
    town.tree["otel"] = {"enabled": True, "endpoint": collector.endpoint, "interval": "1s"}
    return town


def test_export_contains_nothing_about_people(town: RunTown, collector: Collector, eventually: Eventually) -> None:
    """A collector gets the spans of batches and ticks, and all metrics, but no person id, no place and no key."""
    town.command("topics", "--create")
    with town.running() as process:
        eventually(lambda: process.fetch("/readyz")[0] == 200, 60)
        town.put(PEOPLE, "inn")
        eventually(lambda: [value for value in town.answers("inn") if value["status"] == "noisy_count"], 60)
        assert process.terminate() == 0
    require_work(collector)
    require_only_listed(collector)
    received = b"\n".join(collector.raw)
    for word in (*PEOPLE, *PLACES, "person.key"):
        assert re.search(rb"(?<![a-z])" + re.escape(word.encode()) + rb"(?![a-z])", received) is None, word
    assert b"qn/TGe6D7vsXiFKstZA9GykOnGMmd6iBzgSziHXuhUA=" not in received


def require_work(collector: Collector) -> None:
    """Check that each kind of work has spans, that parts belong to their tick, and that the metrics have counted."""
    by_name: dict[str, list[Any]] = {}
    for span in collector.spans:
        by_name.setdefault(span.name, []).append(span)
    assert by_name.keys() == {"batch.prepare", "batch.write", "tick", "tick.read", "tick.wait", "tick.append"}
    ticks = {span.span_id for span in by_name["tick"]}
    assert all(span.parent_span_id in ticks for span in by_name["tick.append"])
    assert all(span.end_time_unix_nano > span.start_time_unix_nano for span in collector.spans)
    applied = next(
        point.as_double
        for point in points(collector.metrics["location_monitor_visits"])
        if attributes(point) == {"fate": "applied"}
    )
    assert applied == len(PEOPLE)


def require_only_listed(collector: Collector) -> None:
    """Check that spans, metrics and their sender have only listed attributes, and spans no events and no links."""
    labels = {f"location_monitor_{metric.name}": set(metric.labels) for metric in METRICS}
    for span in collector.spans:
        found = attributes(span)
        assert found.keys() <= set(ATTRIBUTES)
        assert not list(span.events)
        assert not list(span.links)
    for name, metric in collector.metrics.items():
        if name in labels:
            assert all(attributes(point).keys() == labels[name] for point in points(metric)), name
        else:
            assert name.startswith(("process_", "python_")), name
    assert {frozenset(resource) - {"telemetry.sdk.version"} for resource in collector.resources} == {
        frozenset(RESOURCE)
    }
