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
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_SDK_DISABLED, OTEL_SERVICE_NAME
from opentelemetry.sdk.metrics.export import MetricsData
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode, Tracer

from monitor import __version__
from monitor.config.servers import OtelSettings
from monitor.contracts.instants import SECOND
from monitor.observe.log_fields import log_fields
from monitor.observe.metrics import Metrics
from monitor.observe.otel_metrics import MetricsTranslator
from monitor.observe.spans import NO_SPANS, SpanName, Spans
from monitor.stop_times import EXPORT_SECONDS

log = logging.getLogger(__name__)

SCOPE: Final = "location-monitor"


class OtelSpans:
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
        self._push = PeriodicPush(lambda: _export(exporter, translator.read()), settings.interval / SECOND)
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


def _export(exporter: OTLPMetricExporter, metrics: MetricsData) -> None:
    exporter.export(metrics)


def _describe(service: str) -> Resource:
    """Return the attributes of this instance. Those of the standard variables take precedence."""
    own = {SERVICE_VERSION: __version__, SERVICE_INSTANCE_ID: str(uuid.uuid4())}
    if not os.environ.get(OTEL_SERVICE_NAME):
        own[SERVICE_NAME] = service
    return Resource.create(own)


def _build_address(settings: OtelSettings, signal: str) -> str | None:
    """Return where a signal is sent; None to let the SDK read it from the environment."""
    return None if settings.endpoint is None else f"{settings.endpoint.rstrip('/')}/v1/{signal}"
