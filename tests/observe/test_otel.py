"""The export by OpenTelemetry: off by default, configured in one place, and the same metrics as /metrics."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any, cast

import pytest

from monitor.config.kafka_and_redis import OtelSettings
from monitor.errors import UsageError
from monitor.observe.metrics import Metrics
from monitor.observe.otel import OtelExport
from monitor.observe.spans import NO_SPANS
from monitor.service.wiring import Settings, open_telemetry
from monitor.stop_times import EXPORT_SECONDS
from tests.observe.collector import Collector, attributes, points, run_collector


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A running collector. No standard variable is set."""
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    with run_collector() as running:
        yield running


def make_enabled(**changes: Any) -> OtelSettings:
    """Return settings that are enabled. Metrics are sent only at the end."""
    return OtelSettings.model_validate({"enabled": True, "interval": "1h", **changes})


def make_settings(otel: OtelSettings) -> Settings:
    """Return settings that have only what the export reads."""
    config = SimpleNamespace(otel=otel, service=SimpleNamespace(name="town"))
    return cast("Settings", SimpleNamespace(config=config))


def export_once(otel: OtelSettings, metrics: Metrics | None = None) -> None:
    """Begin and end an export, which sends everything once."""
    with open_telemetry(make_settings(otel), metrics or Metrics()) as spans, spans.span("tick", ledger_partition=3):
        pass


def test_nothing_is_sent_by_default(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `otel.enabled` nothing is sent, also if the standard variables name a collector."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
    with open_telemetry(make_settings(OtelSettings()), Metrics()) as spans:
        assert spans is NO_SPANS
    assert collector.raw == []


def test_packages_are_not_loaded_by_default() -> None:
    """The program imports neither the exporters nor the module that uses them, unless they are enabled."""
    # redis-py imports parts of the SDK by itself if they are installed, so not everything is absent.
    names = "('opentelemetry.exporter', 'monitor.observe.otel')"
    code = f"import sys, monitor.cli; print([name for name in sys.modules if name.startswith({names})])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the optional packages are missing, the error names the key and the command that installs them."""
    monkeypatch.setitem(sys.modules, "monitor.observe.otel", None)
    otel = make_enabled()
    message = r"otel\.enabled is true.*pip install 'location-monitor\[otel\]'"
    with pytest.raises(UsageError, match=message), open_telemetry(make_settings(otel), Metrics()):
        pass


def test_metrics_equal_the_page(collector: Collector) -> None:
    """Every sample of /metrics arrives with the same name, labels and value, and nothing else arrives."""
    metrics = Metrics(unix_time=lambda: 100.0)
    metrics.count_batch(7, {"applied": 5, "expired": 2}, {"not_json": 1}, 0.003)
    metrics.observe_timestamps(96.0, {0: 99.0, 1: 98.0})
    metrics.count_tick(1, 3_600.0, {"places": "decided"}, {("places", "safe"): 4})
    expected = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if not family.name.startswith("process_")  # they change all the time
    }
    export_once(make_enabled(endpoint=collector.endpoint), metrics)
    received = {
        key: value for name, metric in collector.metrics.items() for key, value in samples(name, metric).items()
    }
    assert {key: value for key, value in received.items() if not key[0].startswith("process_")} == expected


def samples(name: str, metric: Any) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return a metric as samples of Prometheus."""
    kind, found = metric.WhichOneof("data"), {}
    for point in points(metric):
        labels = attributes(point)
        if kind != "histogram":
            ending = "_total" if kind == "sum" else ""
            found[f"{name}{ending}", tuple(sorted(labels.items()))] = point.as_double
            continue
        found[f"{name}_count", tuple(sorted(labels.items()))] = float(point.count)
        found[f"{name}_sum", tuple(sorted(labels.items()))] = point.sum
        assert not point.HasField("min")  # the registry does not know it
        assert not point.HasField("max")
        below = 0
        for bound, count in zip([*point.explicit_bounds, float("inf")], point.bucket_counts, strict=True):
            below += count
            le = "+Inf" if bound == float("inf") else str(bound)
            found[f"{name}_bucket", tuple(sorted({**labels, "le": le}.items()))] = float(below)
    return found


def test_endpoint_from_environment(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `otel.endpoint`, the standard variables name the collector, headers and attributes."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=blue")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=trial")
    export_once(make_enabled())
    assert {"tick"} == {span.name for span in collector.spans}
    assert {headers.get("x-tenant") for headers in collector.headers} == {"blue"}
    assert {resource["deployment.environment"] for resource in collector.resources} == {"trial"}


def test_configured_endpoint_comes_first(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """`otel.endpoint` has precedence over the standard variable, and OTEL_SERVICE_NAME over the service's name."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    export_once(make_enabled(endpoint=f"{collector.endpoint}/"))
    monkeypatch.setenv("OTEL_SERVICE_NAME", "city-hall")
    export_once(make_enabled(endpoint=collector.endpoint))
    assert {resource["service.name"] for resource in collector.resources} == {"town", "city-hall"}
    assert len({resource["service.instance.id"] for resource in collector.resources}) == 2


def test_sdk_can_be_disabled(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """OTEL_SDK_DISABLED stops the export, as in other programs."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    export_once(make_enabled(endpoint=collector.endpoint))
    assert collector.raw == []


def test_traces_can_be_off(collector: Collector) -> None:
    """With `otel.traces: false` only metrics are sent."""
    export_once(make_enabled(endpoint=collector.endpoint, traces=False))
    assert collector.metrics
    assert collector.spans == []


def test_failed_span_has_no_message(collector: Collector) -> None:
    """A span that failed has the class of its error and nothing of its message or its stack."""
    otel = make_enabled(endpoint=collector.endpoint)
    with open_telemetry(make_settings(otel), Metrics()) as spans:  # noqa: SIM117  # the error must not end the export
        with pytest.raises(KeyError), spans.span("batch.write", batch="0:1-2", records=1):
            raise KeyError("planted-4711")
    (span,) = collector.spans
    assert span.status.message == "KeyError"
    assert list(span.events) == []
    assert not [body for body in collector.raw if b"planted-4711" in body]


def test_silent_collector_does_not_delay_stop() -> None:
    """A collector that accepts connections and does not answer delays the end by a few seconds only."""
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        port = silent.getsockname()[1]
        export = OtelExport(make_enabled(endpoint=f"http://127.0.0.1:{port}"), "town", Metrics())
        began = time.monotonic()
        export.close()
        assert EXPORT_SECONDS - 1 <= time.monotonic() - began < EXPORT_SECONDS + 5
