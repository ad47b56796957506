"""The metrics of `audit --follow`. No label contains a person or an exact count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from monitor import __version__
from monitor.observe.collectors import Collectors
from monitor.tools.audit.follow import Follower
from monitor.tools.audit.configuration import AuditTerms
from monitor.tools.auditor.metric_catalog import AUDITOR_METRICS, STATES

_MICROSECOND: Final = 1_000_000
_SUCCESS: Final = "audit_last_success_timestamp_seconds"


class AuditMetrics(Collectors):
    """The metrics of one auditor in a registry of their own."""

    def __init__(self) -> None:
        super().__init__(AUDITOR_METRICS)
        self._gauge("audit_build_info").labels(__version__).set(1)
        self._succeeded = False
        self.registry.unregister(self._gauge(_SUCCESS))  # until the first success
        self._counts: dict[tuple[str, str], int] = {}

    def describe(self, configs: Sequence[AuditTerms], *, compares_input: bool) -> None:
        """Set the metrics that depend only on the configurations, which are given newest first."""
        self._gauge("audit_compares_input").set(int(compares_input))
        self._gauge("audit_slot_seconds").set(configs[0].grid.slot / _MICROSECOND)
        self._gauge("audit_epsilon_stated").set(float(configs[0].may_pay))
        for monitor in list_monitors(configs):
            self._gauge("audit_epsilon_spent").labels(monitor).set(0)

    def update(self, follower: Follower, configs: Sequence[AuditTerms]) -> None:
        """Set the metrics after a turn."""
        engine, parts = follower.engine, follower.engine.output.parts
        self._gauge("audit_waiting_ticks").set(follower.waiting_ticks)
        self._gauge("audit_visits_in_memory").set(follower.kept_visits)
        for topic, lag in follower.lag.items():
            self._gauge("audit_lag_records").labels(topic).set(lag)
        for monitor in list_monitors(configs):
            self._gauge("audit_epsilon_spent").labels(monitor).set(float(engine.payments.find_most_spent(monitor)))
        self._count("audit_findings", engine.findings.totals)
        self._count("audit_records", engine.records)
        self._count("audit_ticks", {outcome.value: number for outcome, number in engine.outcomes.items()})
        self._count("audit_input_records", {"": follower.input_records})
        for partition, tick in parts.last.items():
            as_of = engine.terms.grid.as_of(tick) / _MICROSECOND
            self._gauge("audit_last_tick_timestamp_seconds").labels(str(partition)).set(as_of)
            missing = sum(last + 1 - first for first, last in parts.missing.get(partition, ()))
            self._count("audit_missing_ticks", {str(partition): missing})

    def _count(self, name: str, totals: Mapping[str, int]) -> None:
        """Increase the series of a counter to these totals, by label."""
        for label, total in totals.items():
            counter = self._counter(name).labels(label) if label else self._counter(name)
            counter.inc(max(0, total - self._counts.get((name, label), 0)))
            self._counts[name, label] = total

    def restart(self) -> None:
        """Reset the counters and the partitions' gauges, because a new follower reads everything again.

        Otherwise the findings that it repeats would count twice.
        """
        self._counts.clear()
        for metric in AUDITOR_METRICS:
            if metric.kind == "counter" or "partition" in metric.labels:
                self._forget(metric.name)

    def set_state(self, state: str) -> None:
        """Set the state."""
        for name in STATES:
            self._gauge("audit_state").labels(name).set(int(name == state))

    def note_success(self, now_seconds: float) -> None:
        """Note that everything published has been judged completely."""
        self._gauge(_SUCCESS).set(now_seconds)
        if not self._succeeded:
            self._succeeded = True
            self.registry.register(self._gauge(_SUCCESS))


def list_monitors(configs: Sequence[AuditTerms]) -> list[str]:
    """Return the names of all monitors."""
    windowed = [monitor.name for terms in configs for monitor in terms.over_time]
    timed = [monitor.name for terms in configs for monitor in terms.timed]
    return list(dict.fromkeys([*windowed, *timed]))
