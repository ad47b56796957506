"""The metrics and log lines of `audit --follow`. No label and no line contains a person or an exact count."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from monitor import __version__
from monitor.observe.collectors import Collectors
from monitor.tools.audit.findings import LISTED, ORACLES
from monitor.tools.audit.follow import Follower
from monitor.tools.audit.terms import AuditTerms
from monitor.tools.audit.ticks import format_ticks
from monitor.tools.audit.watching import Outcome, Watcher
from monitor.tools.auditor.metric_catalog import AUDITOR_METRICS, STATES

log = logging.getLogger(__name__)

_MICROSECOND: Final = 1_000_000
_SUCCESS: Final = "audit_last_success_timestamp_seconds"


class AuditMetrics(Collectors, Watcher):
    """The metrics of one auditor in a registry of their own. It receives the follower's reports, and logs findings."""

    def __init__(self) -> None:
        super().__init__(AUDITOR_METRICS)
        self._gauge("audit_build_info").labels(__version__).set(1)
        self._succeeded = False
        self.registry.unregister(self._gauge(_SUCCESS))  # until the first success
        self._described: set[str] = set()
        self._input_records = 0

    def describe(self, configs: Sequence[AuditTerms], *, compares_input: bool) -> None:
        """Set the metrics that depend only on the configurations, which are given newest first."""
        self._gauge("audit_compares_input").set(int(compares_input))
        self._gauge("audit_slot_seconds").set(configs[0].grid.slot / _MICROSECOND)
        self._gauge("audit_epsilon_stated").set(float(configs[0].may_pay))
        for monitor in list_monitors(configs):
            self._gauge("audit_epsilon_spent").labels(monitor).set(0)

    def report_finding(self, kind: str, text: str | None) -> None:
        """Count a finding, and log it if it has a text."""
        self._counter("audit_findings").labels(kind).inc()
        if text is not None:
            log.error("finding (%s, broken: %s): %s", kind, ORACLES[kind], text)
        elif kind not in self._described:
            self._described.add(kind)
            log.error("more than %d findings of the kind %s: further ones are only counted", LISTED, kind)

    def report_record(self, kind: str) -> None:
        """Count a record of the output topic."""
        self._counter("audit_records").labels(kind).inc()

    def report_tick(self, partition: int, tick: int, as_of: int) -> None:
        """Set the as_of of an output partition's last tick."""
        del tick
        self._gauge("audit_last_tick_timestamp_seconds").labels(str(partition)).set(as_of / _MICROSECOND)
        self._counter("audit_missing_ticks").labels(str(partition))

    def report_outcome(self, outcome: Outcome) -> None:
        """Count a tick by what is known about it."""
        self._counter("audit_ticks").labels(outcome.value).inc()

    def report_missing(self, partition: int, first: int, last: int) -> None:
        """Count ticks that nobody decided."""
        self._counter("audit_missing_ticks").labels(str(partition)).inc(last + 1 - first)
        log.warning(
            "output partition %d has no answers for %s: nobody decided them", partition, format_ticks(first, last)
        )

    def report_unjudged(self, partition: int, position: str, *, begins: bool) -> None:
        """Log that a stretch that no given configuration explains begins or ends."""
        if begins:
            log.warning(
                "from %s on, output partition %s is not judged: none of the given configurations was in force. Give "
                "the configuration that was, newer or earlier, with another --config",
                position,
                partition,
            )
        else:
            log.warning("from %s on, output partition %s is judged again", position, partition)

    def update(self, follower: Follower, configs: Sequence[AuditTerms]) -> None:
        """Set the gauges after a turn."""
        self._gauge("audit_waiting_ticks").set(follower.waiting_ticks)
        self._gauge("audit_visits_in_memory").set(follower.kept_visits)
        for topic, lag in follower.lag.items():
            self._gauge("audit_lag_records").labels(topic).set(lag)
        for monitor in list_monitors(configs):
            self._gauge("audit_epsilon_spent").labels(monitor).set(
                float(follower.engine.payments.find_most_spent(monitor))
            )
        self._counter("audit_input_records").inc(max(0, follower.input_records - self._input_records))
        self._input_records = follower.input_records

    def restart(self) -> None:
        """Reset the counters and the partitions' gauges, because a new follower reads everything again.

        Otherwise the findings that it repeats would count twice.
        """
        self._input_records = 0
        self._described.clear()
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
