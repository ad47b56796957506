"""Set and count the metrics of the service (docs/reference.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction

from monitor import __version__
from monitor.observe.prometheus_metric import Collectors
from monitor.observe.service_metrics import METRICS, OUTCOMES, Recovery


class Metrics(Collectors):
    """All metrics of one instance, in their own registry. Visits and records are counted at least once.

    Every series with a closed set of label values exists from the start, because a rate misses the first event of a
    new series.

    Args:
        unix_time: returns the present time in seconds since 1970.
    """

    def __init__(self, unix_time: Callable[[], float] = time.time) -> None:
        super().__init__(METRICS)
        self._gauge("build_info").labels(__version__).set(1)
        self._unix_time = unix_time
        self._reached: set[int] = set()

    def describe_configuration(
        self,
        slot_seconds: float,
        release_delay_seconds: float,
        epsilons: tuple[Fraction, Fraction],
        statuses: Mapping[str, Iterable[str]],
    ) -> None:
        """Set the metrics that depend only on the configuration.

        Args:
            slot_seconds: the length of a slot.
            release_delay_seconds: the time from the end of a slot to its answers.
            epsilons: the stated ε of a period, and the most that a person can pay.
            statuses: the statuses of the answers of each monitor, by its name.
        """
        self._gauge("slot_seconds").set(slot_seconds)
        self._gauge("release_delay_seconds").set(release_delay_seconds)
        self._gauge("epsilon_stated").set(float(epsilons[0]))
        self._gauge("epsilon_worst_case").set(float(epsilons[1]))
        for monitor, answers in statuses.items():
            for outcome in OUTCOMES:
                self._counter("ticks").labels(monitor, outcome)
            for status in answers:
                self._counter("answers").labels(monitor, status)

    def watch_readiness(self, is_ready: Callable[[], bool]) -> None:
        """Set a function that returns whether the instance is ready; each scrape calls it."""
        self._gauge("ready").set_function(lambda: float(is_ready()))

    def count_batch(self, records: int, fates: Mapping[str, int], reasons: Mapping[str, int], seconds: float) -> None:
        """Count a batch that was written to the store."""
        self._counter("records").inc(records)
        for fate, count in fates.items():
            self._counter("visits").labels(fate).inc(count)
        for reason, count in reasons.items():
            self._counter("dead_letters").labels(reason).inc(count)
        self._histogram("ingest_batch_seconds").observe(seconds)

    def observe_timestamps(self, oldest_seconds: float | None, newest_seconds: Mapping[int, float]) -> None:
        """Observe the age of a written batch's oldest record, and its newest timestamp by input partition."""
        if oldest_seconds is not None:
            self._histogram("fact_delay_seconds").observe(max(0.0, self._unix_time() - oldest_seconds))
        for partition, seconds in newest_seconds.items():
            self._gauge("input_timestamp_seconds").labels(str(partition)).set(seconds)
        self._reached |= set(newest_seconds)

    def observe_report_delays(self, visits: Sequence[int], seconds: float) -> None:
        """Observe how late visits were reported: the number up to each bound, then all, and the sum."""
        self._bulk_histogram("report_delay_seconds").add(visits, seconds)

    def set_lag(self, records: Mapping[int, int]) -> None:
        """Set the lag of each assigned partition, and remove all other partitions."""
        lag, reached = self._gauge("consumer_lag_records"), self._gauge("input_timestamp_seconds")
        lag.clear()
        for partition, behind in records.items():
            lag.labels(str(partition)).set(behind)
        for partition in self._reached - set(records):
            reached.remove(str(partition))
        self._reached &= set(records)

    def describe_instance(self, configuration: str, person_key: str, store: str) -> None:
        """Set what the instances of a service must have in common, so that Prometheus can compare them.

        Args:
            configuration: the version of the configuration.
            person_key: the tag of the person key, which is too short to confirm a guess.
            store: the address of Redis, without credentials.
        """
        gauge = self._gauge("instance_info")
        gauge.clear()
        gauge.labels(configuration, person_key, store).set(1)

    def count_people_at_several_places(self, people: int) -> None:
        """Count people reported at more than one place at a designated time."""
        self._counter("people_at_several_places").inc(people)

    def count_cut(self, visits: int) -> None:
        """Count visits whose departure was cut."""
        self._counter("visits_cut").inc(visits)

    def count_late_records(self, records: int) -> None:
        """Count records that were stamped before a tick closed, but are not below its end offsets."""
        self._counter("late_records").inc(records)

    def count_recovery(self, cause: Recovery) -> None:
        """Count a recovery."""
        self._counter("recoveries").labels(cause).inc()

    def count_tick(
        self,
        partition: int,
        as_of_seconds: float,
        outcomes: Mapping[str, str],
        answers: Mapping[tuple[str, str], int],
    ) -> None:
        """Count a decided tick of an output partition: outcomes by monitor, and answers by (monitor, status)."""
        self._gauge("last_tick_timestamp_seconds").labels(str(partition)).set(as_of_seconds)
        self._counter("lost_ticks").labels(str(partition))
        self._count_unknown(partition, "unknown" in outcomes.values())
        for monitor, outcome in outcomes.items():
            self._counter("ticks").labels(monitor, outcome).inc()
        for (monitor, status), count in answers.items():
            self._counter("answers").labels(monitor, status).inc(count)

    def _count_unknown(self, partition: int, unknown: bool) -> None:  # noqa: FBT001  # the tick's outcome
        gauge = self._gauge("consecutive_unknown_ticks").labels(str(partition))
        if unknown:
            gauge.inc()
        else:
            gauge.set(0)

    def count_unknown(self, shards: Mapping[str, int]) -> None:
        """Count the shards that were unknown at a tick, by cause."""
        for cause, count in shards.items():
            self._counter("unknown_shards").labels(cause).inc(count)

    def set_missing(self, records: Mapping[int, int]) -> None:
        """Set the number of records that a tick lacked, by input partition; empty if it is not known.

        In that case the series are removed.
        """
        gauge = self._gauge("tick_missing_records")
        if not records:
            gauge.clear()
        for partition, count in records.items():
            gauge.labels(str(partition)).set(count)

    def count_lost(self, partition: int, monitors: Sequence[str], ticks: int, answers: int = 0) -> None:
        """Count ticks of an output partition that no instance decided, or not completely. `answers`: of the latter."""
        self._counter("lost_ticks").labels(str(partition)).inc(ticks)
        self._counter("lost_answers").labels(str(partition)).inc(answers)
        for monitor in monitors:
            self._counter("ticks").labels(monitor, "skipped").inc(ticks)

    def count_refused(self, partition: int, monitors: Sequence[str]) -> None:
        """Count a tick refused because the ledger of the output partition is ahead of it."""
        del partition
        for monitor in monitors:
            self._counter("ticks").labels(monitor, "refused").inc()

    def forget_partition(self, partition: int) -> None:
        """Remove the gauges of an output partition, because another instance has taken the partition over."""
        for name in ("last_tick_timestamp_seconds", "consecutive_unknown_ticks"):
            with suppress(KeyError):
                self._gauge(name).remove(str(partition))

    def observe_tick(self, seconds: float, delay_seconds: float) -> None:
        """Observe the duration of a tick without waiting, and the time from its as_of to its answers."""
        self._histogram("tick_seconds").observe(seconds)
        self._histogram("answer_delay_seconds").observe(max(0.0, delay_seconds))
