"""The metrics of /metrics as data points of OpenTelemetry, so that both have the same names, labels and values."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

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
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample

from monitor import __version__

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
