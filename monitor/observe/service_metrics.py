"""The metrics of the service: names, labels and meanings (docs/reference.md). No label contains a person or a location.

Totals are exact. If only one location is watched, the number of applied visits is therefore the number of visits to
this location. This is acceptable because operators are trusted.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from monitor.observe.prometheus_metric import Metric
from monitor.records.unknown_causes import CAUSES as UNKNOWN_CAUSES
from monitor.records.visit_contract import Reason

FATES: Final = ("applied", "too_late", "not_watched", "expired", "dead_letter")
OUTCOMES: Final = ("decided", "unknown", "skipped", "refused")
Recovery = Literal["takeover", "windows_behind", "no_progress", "behind_the_log", "log_lost_records"]
"""A cause of a recovery."""

RECOVERIES: Final[tuple[str, ...]] = get_args(Recovery)
STATUSES: Final = ("safe", "noisy_count", "paused", "unknown", "complete")

_DELAY_BUCKETS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)
_HOUR: Final = 3600
_DAY: Final = 24 * _HOUR
REPORT_DELAY_BUCKETS: Final[tuple[float, ...]] = (
    *(hours * _HOUR for hours in (1, 3, 6, 12)),
    *(days * _DAY for days in (1, 2, 3, 5, 7, 10, 14, 21, 30)),
)

_INPUT: Final = {"partition": "input partitions that this instance reads"}
_OUTPUT: Final = {"partition": "output partitions that this instance owns"}
_MONITOR: Final = "monitors of the configuration"

METRICS: Final[tuple[Metric, ...]] = (
    Metric(
        "counter",
        "visits",
        "Visits by fate, at least once",
        {"fate": FATES},
        "A visit that is read twice counts twice. A `too_late` visit counts in a window, but came too late for all "
        "designated times that it covers; an `expired` one counts nowhere. If only one place is watched, `applied` and "
        "`too_late` are the total of that place; operators are trusted.",
    ),
    Metric("counter", "records", "Records read from the input topic, at least once"),
    Metric(
        "counter",
        "dead_letters",
        "Refused visits and records by reason, at least once",
        {"reason": tuple(reason.value for reason in Reason)},
        "Visits that share a dead letter count individually, by their own reasons.",
    ),
    Metric(
        "counter",
        "people_at_several_places",
        "Cases of a person reported at more than one place at a designated time",
        note="Each person counts at least once for each time. Reports that another instance reads are not seen. If "
        "there are more than a few cases, [the sum that `check` shows is too low](privacy.md#what-has-to-hold).",
    ),
    Metric(
        "counter",
        "visits_cut",
        "Visits whose departure was cut, because it is too long after the record's timestamp",
        note="Such a visit counts up to the end of `visits.accept_ahead` plus `visits.default_stay`, and not after it "
        "([more](producers.md#which-tick-counts-a-visit)). A visit without `left_at` is never cut.",
    ),
    Metric(
        "histogram",
        "report_delay_seconds",
        "Time from the end of a visit to the broker timestamp of its record, at least once",
        note="All visits to places of the registry are observed, also those that are not watched or too late for all "
        "answers, so no horizon cuts the delays off; dead letters are not. A visit without `left_at` ends after "
        "`visits.default_stay`. One that ends after its report is in the first bucket. [`plan "
        "--delays`](planning.md#how-late-reports-are) says what an answer counts with these delays.",
        buckets=REPORT_DELAY_BUCKETS,
        in_bulk=True,
    ),
    Metric(
        "counter",
        "late_records",
        "Records that a broker stamped before a tick closed, but that were not below the end offsets of the tick",
        note="The answers of the tick lack their visits, so a `safe` may be false. 0 as long as the clocks agree and "
        "the brokers are Apache Kafka ([rule 9](rules.md#rule-9-safe-only-on-complete-input)). An instance compares "
        "the records that it reads with the end offsets that it has requested for the latest tick.",
    ),
    Metric(
        "gauge",
        "consumer_lag_records",
        "Records between the end of an input partition and the position of this instance",
        _INPUT,
        "Kafka is asked for the end every two seconds, so the lag also grows while fetches stall. Records that have "
        "been read but are not in Redis yet are included, and so are those that an open transaction hides from the "
        "instance. After the transaction has ended, the lag returns to 0.",
    ),
    Metric(
        "gauge",
        "input_timestamp_seconds",
        "Newest broker timestamp of the records of an input partition that are in the windows",
        _INPUT,
        "The event time that reading has reached. A partition without new records does not advance.",
    ),
    Metric(
        "histogram",
        "ingest_batch_seconds",
        "Time from the decoding of a batch to its facts in Redis",
    ),
    Metric(
        "histogram",
        "fact_delay_seconds",
        "Time from the broker timestamp of the oldest record of a batch to its facts in Redis",
        note="Records that are read again count again.",
        buckets=_DELAY_BUCKETS,
    ),
    Metric(
        "counter",
        "recoveries",
        "Recoveries by cause",
        {"cause": RECOVERIES},
        "`takeover`: of a ledger partition. `windows_behind`: Redis had lost writes; after an outage, reading "
        "restarts without counting it. `no_progress`: Redis had no progress. `behind_the_log`: records expired before "
        "they were read. `log_lost_records`: the input lost records that may still be needed, or has records that "
        "cannot be read or were not stamped by the broker.",
    ),
    Metric(
        "counter",
        "ticks",
        "Ticks by monitor and outcome",
        {"monitor": _MONITOR, "outcome": OUTCOMES},
        "`unknown`: for some place or shard. `skipped`: lost, because it was not decided before the next slot closed. "
        "`refused`: the ledger contains answers to ticks that have not closed yet. Each output partition counts "
        "separately.",
    ),
    Metric(
        "counter",
        "answers",
        "Published answers by monitor and status",
        {"monitor": _MONITOR, "status": STATUSES},
        "`safe`, `noisy_count`, `paused` and `unknown` for places; `complete` and `unknown` for answers about "
        "designated times.",
    ),
    Metric(
        "counter",
        "unknown_shards",
        "Shards that were unknown at a tick, by cause",
        {"cause": UNKNOWN_CAUSES},
        "`input_behind`: the facts had not reached the ends of the input partitions. `kafka_unreachable`: the ends are "
        "not known. `store_unreachable`: Redis did not answer. `late`: the facts were complete only after the release "
        "time. `facts_missing`: the facts of earlier slots are incomplete, for example while they are read again. "
        "`ledger_lost`: earlier answers about a designated time were lost with the ledger, or expired. "
        "`not_signed`: the ledger has noisy counts about a designated time that were not signed. A shard with two "
        "causes counts for each.",
    ),
    Metric(
        "gauge",
        "tick_missing_records",
        "Records of an input partition that the facts lacked when the last tick was read",
        {"partition": "input partitions"},
        "Shows which input partition a tick waits for; 0 if the facts were complete. Absent if it is not known, "
        "because Kafka did not return the ends of the input partitions, or Redis did not answer.",
    ),
    Metric(
        "counter",
        "lost_ticks",
        "Ticks of an output partition that no instance decided, or of which answers were lost",
        _OUTPUT,
        "Each is counted once, by the instance that decides the next tick, or finds that answers were lost.",
    ),
    Metric(
        "counter",
        "lost_answers",
        "Answers that were lost because an instance was stopped while it appended their tick",
        _OUTPUT,
        "Answers of ticks that no instance decided are not counted here, nor those of an instance with another "
        "configuration, whose number is not known.",
    ),
    Metric(
        "gauge",
        "last_tick_timestamp_seconds",
        "as_of of the last tick of an output partition that this instance decided",
        _OUTPUT,
        "Absent before the first tick, and after another instance has taken the partition over.",
    ),
    Metric(
        "gauge",
        "consecutive_unknown_ticks",
        "Ticks of an output partition, up to the last one, with an unknown answer in each",
        _OUTPUT,
        "0 if the last tick was known. Alerts use it to count ticks, for slots of any length.",
    ),
    Metric(
        "histogram",
        "tick_seconds",
        "Time from a tick's input end offsets to its answers in the ledger, without the wait for the release time",
    ),
    Metric(
        "histogram",
        "answer_delay_seconds",
        "Time from as_of of a tick to its answers in the ledger",
        note="At least the release delay.",
        buckets=_DELAY_BUCKETS,
    ),
    Metric(
        "gauge",
        "slot_seconds",
        "Length of a slot",
        note="Alerts count in slots.",
    ),
    Metric(
        "gauge",
        "release_delay_seconds",
        "Time from the end of a slot to the publication of its answers",
    ),
    Metric(
        "gauge",
        "ready",
        "Whether the instance waits for nothing, as `/readyz` reports it",
        note="1 or 0.",
    ),
    Metric(
        "gauge",
        "instance_info",
        "What all instances of a service must have in common, as labels of the constant 1",
        {
            "configuration": "the version of the configuration",
            "person_key": "a tag of the person key",
            "store": "the address of Redis",
        },
        "A label has several values only during a rolling change. Absent before the servers are checked. The tag has "
        "16 bits, which are too few to confirm a guess of the key.",
    ),
    Metric(
        "gauge",
        "epsilon_stated",
        "Most ε that a person may pay in one period, as configured",
        note="`privacy.epsilon`.",
    ),
    Metric(
        "gauge",
        "epsilon_worst_case",
        "Most ε that a person can pay in one period under this configuration",
        note="The sum that `check` shows. The service does not start if it exceeds `epsilon_stated`.",
    ),
    Metric(
        "gauge",
        "build_info",
        "Version of the service, as a label of the constant 1",
        {"version": "the version of the package"},
    ),
)
