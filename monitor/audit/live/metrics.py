"""The metrics of `audit --follow`. No label contains a person or an exact count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from monitor import __version__
from monitor.audit.configuration import AuditTerms
from monitor.audit.findings import LEAST, NOISY, Outcome
from monitor.audit.follow_topic import Follower
from monitor.audit.kinds.all_kinds import ORACLES, OWN_ORACLES
from monitor.audit.read_records import FORMS
from monitor.observe.prometheus_metric import Collectors, Metric

FINDING_KINDS: Final = tuple(ORACLES)
RECORD_KINDS: Final = (*FORMS, "other")
STATES: Final = ("judging", "catching_up", "cut_off", "no_output")
TOPICS: Final = ("output", "input")

_COMPARED: Final = ", ".join(f"`{name}`" for name in (NOISY, LEAST, *OWN_ORACLES))

AUDITOR_METRICS: Final[tuple[Metric, ...]] = (
    Metric(
        "counter",
        "audit_findings",
        "Findings by kind",
        {"kind": FINDING_KINDS},
        'Anything but 0 is a broken promise, or a record that the service did not write. `safe`: a false "safe". '
        f"{_COMPARED}: a bound or total that the input contradicts. `bytes`: two values for one "
        "id. `budget`: a pause or drawing against the rules. `paid`: more ε than stated. `ticks`: a tick answered in "
        "part, again or out of order. `form`: a record of another form, or of another program. `signed`: an "
        "answer that was altered, added or left out after it was signed. After a restart the counter reaches the same "
        "value again, as long as the topics contain the records.",
    ),
    Metric("counter", "audit_records", "Records of the output topic that were read", {"kind": RECORD_KINDS}),
    Metric("counter", "audit_input_records", "Records of the input topic that were read"),
    Metric(
        "counter",
        "audit_ticks",
        "Ticks by what is known about them",
        {"outcome": tuple(outcome.value for outcome in Outcome)},
        "`proven`: every answer agrees with the whole input that it counts, except for findings. `partial`: some of "
        'this input has expired, so a false "safe" may not be found. `output_only`: nothing was compared with input. '
        "`unproven`: the comparison was given up, because the input could not be read, or some answer could not be "
        "compared, because it has another form. `unjudged`: no given configuration was in force.",
    ),
    Metric(
        "counter",
        "audit_missing_ticks",
        "Ticks that no instance decided, between ticks of the same output partition",
        {"partition": "output partitions"},
    ),
    Metric(
        "counter",
        "audit_incomplete_ticks",
        "Ticks of which answers are lost, as an owner record states",
        {"partition": "output partitions"},
        "Each is counted when the next tick of its partition is read. It is no finding.",
    ),
    Metric(
        "gauge",
        "audit_waiting_ticks",
        "Ticks whose answers have not been compared with the input yet",
    ),
    Metric(
        "gauge",
        "audit_state",
        "What the auditor does now: 1 for its state, 0 for the others",
        {"state": STATES},
        '`cut_off`: the input cannot be read, so only the output is checked, and nobody knows whether "safe" is true. '
        "`no_output`: the output cannot be read, so nothing is checked.",
    ),
    Metric(
        "gauge",
        "audit_compares_input",
        "Whether answers are compared with the input: 0 with `--output-only`",
    ),
    Metric(
        "gauge",
        "audit_last_success_timestamp_seconds",
        "When everything published was last judged completely",
        note="Completely: the ticks of the last turn that judged any are `proven`, or `output_only` with "
        "`--output-only`, and no partition is `unjudged`. With signed answers and `--since`, a later tick of each "
        "partition is signed. Absent before the first success.",
    ),
    Metric(
        "gauge",
        "audit_last_tick_timestamp_seconds",
        "as_of of the last tick of an output partition that was read",
        {"partition": "output partitions"},
    ),
    Metric(
        "gauge",
        "audit_lag_records",
        "Records between the end of a topic and the auditor's position",
        {"topic": TOPICS},
    ),
    Metric(
        "gauge",
        "audit_epsilon_spent",
        "Most ε that a monitor's published answers may have cost one person within a period",
        {"monitor": "monitors of the configuration"},
        "From the output alone, for somebody who was at every location.",
    ),
    Metric("gauge", "audit_epsilon_stated", "Most ε that a person may pay in one period, as configured"),
    Metric("gauge", "audit_visits_in_memory", "Visits in memory that later answers may count, once for each monitor"),
    Metric("gauge", "audit_slot_seconds", "Length of a slot"),
    Metric("gauge", "audit_build_info", "Version, as a label of the constant 1", {"version": "the package's version"}),
)

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
            self._count("audit_incomplete_ticks", {str(partition): len(parts.incomplete.get(partition, ()))})

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
    return list(dict.fromkeys(monitor.name for terms in configs for monitor in terms.monitors))
