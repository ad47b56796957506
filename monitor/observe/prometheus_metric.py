"""Metrics of Prometheus, as all programs define and collect them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final, Literal

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

PREFIX: Final = "location_monitor"
_WORK_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        kind: its type in Prometheus.
        name: the name without prefix, and without the suffix `_total` of a counter.
        help: one sentence for the exposition.
        labels: for each label, its closed set of values, or a text that says which values it has.
        note: further information for operators.
        buckets: the upper bounds of a histogram, in seconds.
        in_bulk: many observations are added at once.
    """

    kind: Kind
    name: str
    help: str
    labels: Mapping[str, Sequence[str] | str] = field(default_factory=dict)
    note: str = ""
    buckets: tuple[float, ...] = _WORK_BUCKETS
    in_bulk: bool = False

    @property
    def exposed_name(self) -> str:
        """The name in the exposition."""
        return f"{PREFIX}_{self.name}{'_total' if self.kind == 'counter' else ''}"

    def list_closed_labels(self) -> list[tuple[str, ...]]:
        """Return the combinations of label values whose series exist from the start; none if a label is open."""
        values = [values for values in self.labels.values() if not isinstance(values, str)]
        return list(product(*values)) if self.labels and len(values) == len(self.labels) else []


class BulkHistogram(Collector):
    """A histogram without labels, to which many observations are added at once. The client's own takes one at a time.

    Args:
        name: the exposed name.
        text: the help text.
        bounds: the upper bounds of the buckets, rising. The last bucket has none.
    """

    def __init__(self, name: str, text: str, bounds: Sequence[float]) -> None:
        self._name, self._text = name, text
        self._bounds = [*(str(float(bound)) for bound in bounds), "+Inf"]
        self._counts, self._sum = [0] * len(self._bounds), 0.0
        self._lock = threading.Lock()

    def add(self, counts: Sequence[int], total: float) -> None:
        """Add observations: the number up to each bound, then that of all, and their sum."""
        with self._lock:
            self._counts = [before + more for before, more in zip(self._counts, counts, strict=True)]
            self._sum += total

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Yield the present values."""
        with self._lock:
            counts, total = self._counts, self._sum
        family = HistogramMetricFamily(self._name, self._text)
        family.add_metric([], list(zip(self._bounds, counts, strict=True)), total)
        yield family


class Collectors:
    """The metrics of a catalog and those of the process. Subclasses set them.

    Args:
        metrics: the catalog.
    """

    def __init__(self, metrics: Iterable[Metric]) -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # unused series
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._catalog = {metric.name: metric for metric in metrics}
        self._collectors = {metric.name: _create_collector(metric, self.registry) for metric in self._catalog.values()}

    def _forget(self, name: str) -> None:
        """Replace the collector of a metric by a new one, so that only its first series exist."""
        self.registry.unregister(self._collectors[name])
        self._collectors[name] = _create_collector(self._catalog[name], self.registry)

    def _counter(self, name: str) -> Counter:
        collector = self._collectors[name]
        assert isinstance(collector, Counter)  # noqa: S101  # the catalog has each kind
        return collector

    def _gauge(self, name: str) -> Gauge:
        collector = self._collectors[name]
        assert isinstance(collector, Gauge)  # noqa: S101  # the catalog has each kind
        return collector

    def _histogram(self, name: str) -> Histogram:
        collector = self._collectors[name]
        assert isinstance(collector, Histogram)  # noqa: S101  # the catalog has each kind
        return collector

    def _bulk_histogram(self, name: str) -> BulkHistogram:
        collector = self._collectors[name]
        assert isinstance(collector, BulkHistogram)  # noqa: S101  # the catalog has each kind
        return collector


def _create_collector(metric: Metric, registry: CollectorRegistry) -> Counter | Gauge | Histogram | BulkHistogram:
    """Create the collector of a metric, with a series for each combination of closed label values."""
    if metric.in_bulk:
        bulk = BulkHistogram(metric.exposed_name, metric.help, metric.buckets)
        registry.register(bulk)
        return bulk
    labels = tuple(metric.labels)
    collector: Counter | Gauge | Histogram
    if metric.kind == "counter":
        collector = Counter(metric.name, metric.help, labels, namespace=PREFIX, registry=registry)
    elif metric.kind == "gauge":
        collector = Gauge(metric.name, metric.help, labels, namespace=PREFIX, registry=registry)
    else:
        collector = Histogram(
            metric.name, metric.help, labels, namespace=PREFIX, registry=registry, buckets=metric.buckets
        )
    for values in metric.list_closed_labels():
        collector.labels(*values)
    return collector
