"""Metrics and spans for OpenTelemetry, as OTLP over HTTP. Loaded only if `otel.enabled` is true.

The metrics are those of /metrics, with the same names and labels. Keys of the configuration that are absent are taken
from the standard variables (`OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_RESOURCE_ATTRIBUTES`, …). The SDK reads them only when
`OtelExport` is created. No global provider is set, so that libraries (redis-py has its own metrics) send nothing
through this export.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_SDK_DISABLED, OTEL_SERVICE_NAME
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Status, StatusCode, Tracer
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample

from monitor import __version__
from monitor.config.kafka_and_redis import OtelSettings
from monitor.contracts.instants import SECOND
from monitor.observe.logs import log_fields
from monitor.observe.metrics import Metrics
from monitor.observe.spans import NO_SPANS, SpanName, Spans
from monitor.stop_times import EXPORT_SECONDS

CUMULATIVE: Final = AggregationTemporality.CUMULATIVE
_UNITS: Final = {"seconds": "s", "bytes": "By", "records": "{record}"}


@dataclass
class _Series:
    """The samples of one histogram with the same labels: the cumulative counts by upper bound, count and sum."""

    buckets: dict[float, float] = field(default_factory=dict)
    count: float = 0.0
    sum: float = 0.0


class MetricsTranslator:
    """A reader of a Prometheus registry as metrics of OpenTelemetry. Counters keep their names, without `_total`."""

    def __init__(self, resource: Resource, scope: str, registry: CollectorRegistry) -> None:
        self._resource, self._registry = resource, registry
        self._scope = InstrumentationScope(scope, __version__)
        self._began = time.time_ns()

    def read(self) -> MetricsData:
        """Return the present values of all metrics."""
        now = time.time_ns()
        metrics = [self._translate(family, now) for family in self._registry.collect() if family.samples]
        scope = ScopeMetrics(self._scope, metrics, "")
        return MetricsData([ResourceMetrics(self._resource, [scope], "")])

    def _translate(self, family: Family, now: int) -> Metric:
        unit = next((unit for ending, unit in _UNITS.items() if family.name.endswith(f"_{ending}")), "")
        if family.type == "histogram":
            points = [self._make_histogram_point(labels, series, now) for labels, series in _group(family.samples)]
            return Metric(family.name, family.documentation, unit, Histogram(points, CUMULATIVE))
        if family.type == "counter":
            totals = [sample for sample in family.samples if sample.name.endswith("_total")]
            sums = Sum(self._make_points(totals, now), CUMULATIVE, is_monotonic=True)
            return Metric(family.name, family.documentation, unit, sums)
        return Metric(family.name, family.documentation, unit, Gauge(self._make_points(family.samples, now)))

    def _make_points(self, samples: Iterable[Sample], now: int) -> Sequence[NumberDataPoint]:
        return [NumberDataPoint(dict(sample.labels), self._began, now, float(sample.value)) for sample in samples]

    def _make_histogram_point(self, labels: Mapping[str, str], series: _Series, now: int) -> HistogramDataPoint:
        bounds = sorted(series.buckets)
        counts = [int(series.buckets[bound]) for bound in bounds]
        own = [count - before for count, before in zip(counts, [0, *counts], strict=False)]
        finite = [bound for bound in bounds if bound != float("inf")]
        return HistogramDataPoint(
            attributes=dict(labels),
            start_time_unix_nano=self._began,
            time_unix_nano=now,
            count=int(series.count),
            sum=series.sum,
            bucket_counts=own,
            explicit_bounds=finite,
            min=None,  # type: ignore[arg-type]  # not known, and optional in the protocol
            max=None,  # type: ignore[arg-type]
        )


def _group(samples: Iterable[Sample]) -> Iterator[tuple[Mapping[str, str], _Series]]:
    """Yield the series of a histogram by their labels."""
    found: dict[tuple[tuple[str, str], ...], _Series] = {}
    for sample in samples:
        labels = {name: value for name, value in sample.labels.items() if name != "le"}
        series = found.setdefault(tuple(sorted(labels.items())), _Series())
        if sample.name.endswith("_bucket"):
            series.buckets[float(sample.labels["le"])] = sample.value
        elif sample.name.endswith("_count"):
            series.count = sample.value
        elif sample.name.endswith("_sum"):
            series.sum = sample.value
    yield from ((dict(labels), series) for labels, series in found.items())


log = logging.getLogger(__name__)

SCOPE: Final = "location-monitor"


class OtelSpans(Spans):
    """Spans of OpenTelemetry. An error marks a span with the error's class only. The message is in the log."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    @contextmanager
    def span(self, name: SpanName, **attributes: int | str) -> Iterator[None]:
        """Record one span. Log lines within the span have the field `trace_id`."""
        with (
            self._tracer.start_as_current_span(
                name, attributes=attributes, record_exception=False, set_status_on_exception=False
            ) as span,
            log_fields(trace_id=f"{span.get_span_context().trace_id:032x}"),
        ):
            try:
                yield
            except BaseException as error:
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
                raise


class PeriodicPush:
    """A thread that sends the metrics at an interval, and once more when it is closed."""

    def __init__(self, send: Callable[[], object], seconds: float) -> None:
        self._send, self._seconds = send, seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otel-metrics", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        stopped = False
        while not stopped:
            stopped = self._stop.wait(self._seconds)
            try:
                self._send()
            except Exception:  # the exporter logs what it expects; telemetry must not end the service
                log.exception("the metrics could not be sent to the OpenTelemetry collector")

    def close(self) -> None:
        """Send the metrics once more, and end the thread."""
        self._stop.set()
        self._thread.join()


class OtelExport:
    """The export of one instance, from its creation until `close`. `spans` is the destination of its spans."""

    def __init__(self, settings: OtelSettings, service: str, metrics: Metrics) -> None:
        self.spans: Spans = NO_SPANS
        self._tracing: TracerProvider | None = None
        self._push: PeriodicPush | None = None
        if os.environ.get(OTEL_SDK_DISABLED, "").lower() == "true":
            log.warning("%s is true: nothing is exported", OTEL_SDK_DISABLED)
            return
        resource = _describe(service)
        translator = MetricsTranslator(resource, SCOPE, metrics.registry)
        exporter = OTLPMetricExporter(endpoint=_build_address(settings, "metrics"))
        self._push = PeriodicPush(lambda: exporter.export(translator.read()), settings.interval / SECOND)
        if settings.traces:
            self._tracing = TracerProvider(resource=resource, shutdown_on_exit=False)
            self._tracing.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(_build_address(settings, "traces"))))
            self.spans = OtelSpans(self._tracing.get_tracer(SCOPE, __version__))
        log.info("metrics%s are exported to OpenTelemetry", " and spans" if settings.traces else "")

    def close(self) -> None:
        """Send what is left. A collector that does not answer delays the end of the process by a few seconds only."""
        closer = threading.Thread(target=self._close, name="otel-close", daemon=True)
        closer.start()
        closer.join(EXPORT_SECONDS)
        if closer.is_alive():
            log.warning("the OpenTelemetry collector does not answer: the last metrics and spans are not sent")

    def _close(self) -> None:
        if self._tracing is not None:
            self._tracing.shutdown()
        if self._push is not None:
            self._push.close()


def _describe(service: str) -> Resource:
    """Return the attributes of this instance. Those of the standard variables take precedence."""
    own = {SERVICE_VERSION: __version__, SERVICE_INSTANCE_ID: str(uuid.uuid4())}
    if not os.environ.get(OTEL_SERVICE_NAME):
        own[SERVICE_NAME] = service
    return Resource.create(own)


def _build_address(settings: OtelSettings, signal: str) -> str | None:
    """Return where a signal is sent; None to let the SDK read it from the environment."""
    return None if settings.endpoint is None else f"{settings.endpoint.rstrip('/')}/v1/{signal}"
