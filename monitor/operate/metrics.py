"""Prometheus metrics for operators (docs/interface.md, section 5). No label contains a person or a location.

Totals are exact. If only one location is watched, the number of applied visits is therefore the number of visits to
this location. This is acceptable because operators are trusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from monitor import __version__

PREFIX = "location_monitor"
FATES = ("applied", "not_watched", "expired", "dead_letter")
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """All metrics of one instance, in their own registry. Visits and records are counted at least once."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._visits = self._counter("visits", "Visits by fate, at least once", "fate")
        self._records = self._counter("records", "Records read from the input topic, at least once")
        self._dead_letters = self._counter(
            "dead_letters", "Refused visits and records by reason, at least once", "reason"
        )
        self._ticks = self._counter("ticks", "Ticks by monitor and outcome", "monitor", "outcome")
        self._answers = self._counter("answers", "Published answers by monitor and status", "monitor", "status")
        self._several_places = self._counter(
            "people_at_several_places", "Cases of a person reported at more than one place at a designated time"
        )
        self._recoveries = self._counter("recoveries", "Recoveries by cause", "cause")
        self._lag = Gauge(
            "consumer_lag_records",
            "Records of an input partition not read yet, as of the last fetch",
            ["partition"],
            namespace=PREFIX,
            registry=self.registry,
        )
        self._lost = self._counter("lost_ticks", "Ticks of an output partition that no instance decided", "partition")
        self._last_tick = Gauge(
            "last_tick_timestamp_seconds",
            "as_of of the last tick of an output partition that this instance decided",
            ["partition"],
            namespace=PREFIX,
            registry=self.registry,
        )
        self._tick_seconds = self._histogram(
            "tick_seconds", "Time from a tick's input end offsets to its answers in the ledger"
        )
        self._batch_seconds = self._histogram(
            "ingest_batch_seconds", "Time from the decoding of a batch to its facts in Redis"
        )
        info = Info("build", "Version of the service", namespace=PREFIX, registry=self.registry)
        info.info({"version": __version__})
        for fate in FATES:
            self._visits.labels(fate)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, namespace=PREFIX, registry=self.registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(name, text, namespace=PREFIX, registry=self.registry, buckets=_BUCKETS)

    def batch(self, records: int, fates: Mapping[str, int], reasons: Mapping[str, int], seconds: float) -> None:
        """Count a batch that was written to the windows."""
        self._records.inc(records)
        for fate, count in fates.items():
            self._visits.labels(fate).inc(count)
        for reason, count in reasons.items():
            self._dead_letters.labels(reason).inc(count)
        self._batch_seconds.observe(seconds)

    def lag(self, records: Mapping[int, int]) -> None:
        """Set the lag of each assigned partition, and remove all other partitions."""
        self._lag.clear()
        for partition, behind in records.items():
            self._lag.labels(str(partition)).set(behind)

    def several_places(self, people: int) -> None:
        """Count people reported at more than one place at a designated time."""
        self._several_places.inc(people)

    def recovery(self, cause: str) -> None:
        """Count a recovery."""
        self._recoveries.labels(cause).inc()

    def tick(
        self,
        partition: int,
        as_of_seconds: float,
        outcomes: Mapping[str, str],
        answers: Mapping[tuple[str, str], int],
    ) -> None:
        """Count a decided tick of an output partition: outcomes by monitor, and answers by (monitor, status)."""
        self._last_tick.labels(str(partition)).set(as_of_seconds)
        self._lost.labels(str(partition))
        for monitor, outcome in outcomes.items():
            self._ticks.labels(monitor, outcome).inc()
        for (monitor, status), count in answers.items():
            self._answers.labels(monitor, status).inc(count)

    def lost(self, partition: int, monitors: Sequence[str], ticks: int) -> None:
        """Count ticks of an output partition that no instance decided."""
        self._lost.labels(str(partition)).inc(ticks)
        for monitor in monitors:
            self._ticks.labels(monitor, "skipped").inc(ticks)

    def refused(self, partition: int, monitors: Sequence[str]) -> None:
        """Count a tick refused because the ledger of the output partition is ahead of it."""
        del partition
        for monitor in monitors:
            self._ticks.labels(monitor, "refused").inc()

    def forget_partition(self, partition: int) -> None:
        """Remove an output partition's last tick, because another instance has taken the partition over."""
        with suppress(KeyError):
            self._last_tick.remove(str(partition))

    def tick_took(self, seconds: float) -> None:
        """Record the duration of a tick."""
        self._tick_seconds.observe(seconds)
