"""The dashboard *At a glance*: whether the public gets answers, for a person who has just been paged."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.models import units

from deploy.grafana.budget import WORST_SHARE
from deploy.grafana.panels import (
    BAD,
    JOB,
    WARNING,
    Query,
    Rows,
    Text,
    events,
    make_chart,
    make_stat,
    make_table,
    metric,
    share_of_answers,
)

_LAST: Final = f"job_partition:location_monitor_last_tick:timestamp_seconds{{{JOB}}}"
_LIMIT: Final = f"2 * job:location_monitor_slot:seconds{{{JOB}}} + job:location_monitor_release_delay:seconds{{{JOB}}}"
_FIRING: Final = f'ALERTS{{{JOB}, alertname=~"LocationMonitor.+", alertstate="firing"}}'

_NOW: Final = (
    make_stat(
        Text(
            "Answers arrive",
            "Whether every output partition has decided a tick within two slots and the release delay. If not, the "
            "alert LocationMonitorTicksMissing fires. Needs the recording rules.",
            units.NoUnit,
        ),
        [Query(f"min by (job) ((time() - {_LAST}) <= bool on (job) group_left () ({_LIMIT}))", "{{job}}")],
        {0: BAD, 1: "green"},
        {"0": "no", "1": "yes"},
    ),
    make_stat(
        Text(
            "Unknown ticks in a row",
            "The number of consecutive ticks, up to the latest, with an unknown answer, in the worst output partition. "
            "At two, the alert LocationMonitorAnswersUnknown fires.",
            units.Short,
        ),
        [Query(f"max by (job) ({metric('consecutive_unknown_ticks')})", "{{job}}")],
        {1: WARNING, 2: BAD},
    ),
    make_stat(
        Text("Firing alerts", "The alerts of the service that fire. The table below lists them.", units.Short),
        [Query(f"count({_FIRING}) or vector(0)", "alerts")],
        {1: BAD},
    ),
    make_stat(
        Text(
            "Ready instances",
            "The share of ready instances. The path /readyz of an instance lists what the instance waits for.",
            units.PercentUnit,
        ),
        [Query(f"avg by (job) ({metric('ready')})", "{{job}}")],
        {0: BAD, 0.01: WARNING, 1: "green"},
    ),
    make_stat(
        Text(
            "Unknown answers",
            "The share of unknown answers among all answers within the time range. The objective is below 1 % of the "
            "ticks in a week.",
            units.PercentUnit,
        ),
        [
            Query(share_of_answers("unknown", "job", "$__range"), "{{job}}"),
        ],
        {0.01: WARNING, 0.02: BAD},
    ),
    make_stat(
        Text(
            "Worst case of ε",
            "The most ε that a person can pay in a period, as a share of the ε that is stated. The service does not "
            "start if it exceeds 100 %.",
            units.PercentUnit,
        ),
        [Query(WORST_SHARE, "{{job}}")],
        {1.0001: BAD},
    ),
)

_ANSWERS: Final = (
    make_chart(
        Text(
            "Age of the last tick",
            "The time since the last decided tick, by output partition. It rises for a slot and falls at the next "
            "tick. Above the limit, LocationMonitorTicksMissing fires.",
            units.Seconds,
        ),
        [Query(f"time() - {_LAST}", "partition {{partition}} ({{job}})"), Query(_LIMIT, "limit ({{job}})")],
    ),
    make_chart(
        Text(
            "Unknown share by monitor",
            "The share of unknown answers among the answers of each monitor. Empty between two ticks.",
            units.PercentUnit,
        ),
        [
            Query(share_of_answers("unknown", "job, monitor"), "{{monitor}} ({{job}})"),
        ],
        {0.01: WARNING, 0.02: BAD},
    ),
    make_chart(
        Text(
            "Why answers were unknown",
            "Shards that were unknown at a tick, by cause. The page docs/metrics.md describes the causes.",
            units.Short,
        ),
        [Query(events("unknown_shards_total", "job, cause"), "{{cause}} ({{job}})")],
        style="bars",
    ),
    make_chart(
        Text(
            "Records that the last tick lacked",
            "Records of each input partition that were not in the windows at the last tick. A value above 0 names the "
            "input partition that made answers unknown.",
            units.Short,
        ),
        [Query(f"max by (job, partition) ({metric('tick_missing_records')})", "partition {{partition}} ({{job}})")],
    ),
)

_ALERTS: Final = (
    make_table(
        Text("Alerts that fire", "The page docs/alerts.md has a runbook for each alert.", units.NoUnit),
        Query(_FIRING, "{{alertname}}"),
        ["Time", "Value", "__name__", "alertstate"],
    ),
    make_chart(
        Text("Alerts over time", "The number of firing alerts, by severity. 0 if no alert fires.", units.Short),
        [
            Query(f'count({_FIRING[:-1]}, severity="{severity}"}}) or vector(0)', severity)
            for severity in ("page", "ticket")
        ],
    ),
)

ROWS: Final[Rows] = {"Now": _NOW, "Answers": _ANSWERS, "Alerts": _ALERTS}
