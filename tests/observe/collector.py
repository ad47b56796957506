"""A collector of OpenTelemetry for tests: an HTTP server that decodes what it receives by OTLP."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """The requests received so far. `raw` has their bodies, uncompressed."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self.raw: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.metrics_requests: list[Any] = []
        self.trace_requests: list[Any] = []

    def receive(self, path: str, headers: dict[str, str], body: bytes) -> int:
        """Decode a request and return the status of the response."""
        request: Any
        if path == "/v1/metrics":
            request, kept = ExportMetricsServiceRequest(), self.metrics_requests
        elif path == "/v1/traces":
            request, kept = ExportTraceServiceRequest(), self.trace_requests
        else:
            return 404
        request.ParseFromString(body)
        self.raw.append(body)
        self.headers.append(headers)
        kept.append(request)
        return 200

    @property
    def spans(self) -> list[Any]:
        """All spans."""
        return [
            span
            for request in list(self.trace_requests)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def metrics(self) -> dict[str, Any]:
        """The latest metrics by name."""
        if not self.metrics_requests:
            return {}
        latest = self.metrics_requests[-1]
        return {
            metric.name: metric
            for resource in latest.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    @property
    def resources(self) -> list[dict[str, str]]:
        """The attributes of the senders, one for each request."""
        described = [
            *(entry.resource for request in self.metrics_requests for entry in request.resource_metrics),
            *(entry.resource for request in self.trace_requests for entry in request.resource_spans),
        ]
        return [attributes(resource) for resource in described]


def attributes(thing: Any) -> dict[str, Any]:
    """Return the attributes of a span, a data point or a resource."""
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in thing.attributes}


def points(metric: Any) -> list[Any]:
    """Return the data points of a metric of any kind."""
    return list(getattr(metric, metric.WhichOneof("data")).data_points)


@contextmanager
def run_collector() -> Iterator[Collector]:
    """Run a collector on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the name that http.server calls
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            self.send_response(collector.receive(self.path, dict(self.headers), body))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_arguments: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(server.server_port)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
