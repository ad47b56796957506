"""A histogram of Prometheus to which many observations are added at once. The client's own takes one at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector


class BulkHistogram(Collector):
    """A histogram without labels.

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
