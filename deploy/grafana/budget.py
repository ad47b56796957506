"""The dashboard *Privacy budget*: what the configuration may cost a person, and which answers were published."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.models import units

from deploy.grafana.panels import (
    BAD,
    WARNING,
    Query,
    Rows,
    Text,
    events,
    make_chart,
    make_stat,
    metric,
    share_of_answers,
)

_WORST: Final = f"max by (job) ({metric('epsilon_worst_case')})"
_STATED: Final = f"max by (job) ({metric('epsilon_stated')})"
WORST_SHARE: Final = f"{_WORST} / {_STATED}"
"""The most ε that a person can pay, as a share of the ε stated."""

_EPSILON: Final = (
    make_stat(
        Text(
            "ε stated", "The most ε that a person may pay in one period, as configured (privacy.epsilon).", units.Short
        ),
        [Query(_STATED, "{{job}}")],
        {},
    ),
    make_stat(
        Text(
            "ε in the worst case",
            "The most ε that a person can pay in one period under this configuration. It is the sum that `check` "
            "shows, not a measurement.",
            units.Short,
        ),
        [Query(_WORST, "{{job}}")],
        {},
    ),
    make_stat(
        Text(
            "Share of the stated ε",
            "The worst case as a share of the stated ε. The rest is room for further monitors.",
            units.PercentUnit,
        ),
        [Query(WORST_SHARE, "{{job}}")],
        {1.0001: BAD},
    ),
    make_stat(
        Text(
            "People at several places",
            "Cases of a person reported at more than one place at a designated time, within the time range. If there "
            "are more than a few, the worst case is too low: see docs/privacy.md.",
            units.Short,
        ),
        [Query(events("people_at_several_places_total", "job", within="$__range"), "{{job}}")],
        {1: WARNING, 100: BAD},
    ),
    make_stat(
        Text(
            "Noisy counts",
            "Published noisy counts within the time range. Each costs the people at its place the ε of an answer. In "
            "monitors of kind over_time, it also pauses the place.",
            units.Short,
        ),
        [Query(events("answers_total", "job", 'status="noisy_count"', within="$__range"), "{{job}}")],
        {},
    ),
    make_stat(
        Text(
            "Paused answers",
            "The share of paused answers within the time range. A pause keeps the cost within the worst case. A large "
            "share means that a threshold is low for its places.",
            units.PercentUnit,
        ),
        [
            Query(share_of_answers("paused", "job", "$__range"), "{{job}}"),
        ],
        {0.5: WARNING},
    ),
)

_CHARTS: Final = (
    make_chart(
        Text(
            "ε stated and in the worst case",
            "Both change only with the configuration. During a rolling change the larger value is shown.",
            units.Short,
        ),
        [Query(_STATED, "stated ({{job}})"), Query(_WORST, "worst case ({{job}})")],
    ),
    make_chart(
        Text(
            "Answers by status",
            "Published answers by status. `safe`, `paused` and `unknown` cost nothing.",
            units.Short,
        ),
        [Query(events("answers_total", "job, status"), "{{status}} ({{job}})")],
        style="bars",
    ),
    make_chart(
        Text(
            "Answers with noise by monitor",
            "Published noisy counts and snapshots by monitor. Only these answers cost ε.",
            units.Short,
        ),
        [Query(events("answers_total", "job, monitor", 'status=~"noisy_count|complete"'), "{{monitor}} ({{job}})")],
        style="bars",
    ),
    make_chart(
        Text(
            "Ticks that were refused",
            "Ticks that were refused because the ledger contains answers to ticks that have not closed yet. The ε of "
            "these answers is already spent. LocationMonitorLedgerAhead fires.",
            units.Short,
        ),
        [Query(events("ticks_total", "job, monitor", 'outcome="refused"'), "{{monitor}} ({{job}})")],
        {1: BAD},
        style="bars",
    ),
)

ROWS: Final[Rows] = {"Cost": _EPSILON, "Over time": _CHARTS}
