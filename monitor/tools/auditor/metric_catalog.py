"""The metrics of `audit --follow` (docs/reference.md)."""

from __future__ import annotations

from typing import Final

from monitor.observe.metric_catalog import Metric
from monitor.tools.audit.findings import FATES, ORACLES, Outcome
from monitor.tools.audit.forms import FORMS

FINDING_KINDS: Final = tuple(kind for kind in ORACLES if kind != FATES)
RECORD_KINDS: Final = (*FORMS, "other")
STATES: Final = ("judging", "catching_up", "cut_off", "no_output")
TOPICS: Final = ("output", "input")

AUDITOR_METRICS: Final[tuple[Metric, ...]] = (
    Metric(
        "counter",
        "audit_findings",
        "Findings by kind",
        {"kind": FINDING_KINDS},
        'Anything but 0 is a broken promise, or a record that the service did not write. `safe`: a false "safe". '
        "`noisy_count`, `at_least`, `dwell`: a bound or total that the input contradicts. `bytes`: two values for one "
        "id. `budget`: a pause or drawing against the rules. `paid`: more ε than stated. `ticks`: a tick answered in "
        "part, again or out of order. `form`: a record of another form, or of another program. After a restart the "
        "counter reaches the same value again, as long as the topics contain the records.",
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
        "`--output-only`, and no partition is `unjudged`. Absent before the first success.",
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
