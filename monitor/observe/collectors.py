"""The collectors of a catalog of metrics, in a registry of their own."""

from __future__ import annotations

from collections.abc import Iterable

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from monitor.observe.metric_catalog import PREFIX, Metric


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


def _create_collector(metric: Metric, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    """Create the collector of a metric, with a series for each combination of closed label values."""
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
