"""The dashboard *Operations*: ingest, release, dependencies and processes, to find the cause of a problem."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.models import units

from deploy.grafana.panels import BAD, JOB, WARNING, Query, Rows, Text, events, make_chart, metric, quantiles, rate

_RELEASE_DELAY: Final = f"max by (job) ({metric('release_delay_seconds')})"

_INGEST: Final = (
    make_chart(
        Text("Records read", "Records read from the input topic. Records that are read again count again.", "recps"),
        [Query(rate("records_total", "job"), "{{job}}")],
    ),
    make_chart(
        Text("Visits by fate", "Visits by fate. Most visits should be applied or not watched.", units.CountsPerSecond),
        [Query(rate("visits_total", "job, fate"), "{{fate}} ({{job}})")],
    ),
    make_chart(
        Text(
            "Lag",
            "Records between the position of the readers and the end of each input partition. It should return to 0 "
            "before each tick.",
            units.Short,
        ),
        [Query(f"max by (job, partition) ({metric('consumer_lag_records')})", "partition {{partition}} ({{job}})")],
    ),
    make_chart(
        Text(
            "Age of the newest facts",
            "The time since the newest record of each input partition that is in the windows. It also rises in a "
            "partition without new records, so compare it with the lag.",
            units.Seconds,
        ),
        [
            Query(
                f"time() - max by (job, partition) ({metric('input_timestamp_seconds')})",
                "partition {{partition}} ({{job}})",
            )
        ],
    ),
    make_chart(
        Text(
            "Delay of facts",
            "The time from the timestamp of a record to its facts in Redis. If it exceeds a slot, "
            "LocationMonitorFactsLate fires.",
            units.Seconds,
        ),
        quantiles("fact_delay_seconds"),
    ),
    make_chart(
        Text("Time for a batch", "The time from the decoding of a batch to its facts in Redis.", units.Seconds),
        quantiles("ingest_batch_seconds"),
    ),
    make_chart(
        Text(
            "Dead letters by reason",
            "Refused visits and records. Above one visit in a hundred, LocationMonitorDeadLetters fires.",
            units.Short,
        ),
        [Query(events("dead_letters_total", "job, reason"), "{{reason}} ({{job}})")],
        style="bars",
    ),
)

_RELEASE: Final = (
    make_chart(
        Text(
            "Ticks by outcome",
            "Ticks of all monitors and output partitions, by outcome. In a healthy service all are decided.",
            units.Short,
        ),
        [Query(events("ticks_total", "job, outcome"), "{{outcome}} ({{job}})")],
        style="bars",
    ),
    make_chart(
        Text(
            "Ticks that no instance decided",
            "Lost ticks by output partition, counted when the next tick is decided.",
            units.Short,
        ),
        [Query(events("lost_ticks_total", "job, partition"), "partition {{partition}} ({{job}})")],
        {1: BAD},
        style="bars",
    ),
    make_chart(
        Text(
            "Time for a tick",
            "The time from the input end offsets of a tick to its answers in the ledger, without the wait for the "
            "release time. It should stay below the release delay.",
            units.Seconds,
        ),
        [*quantiles("tick_seconds"), Query(_RELEASE_DELAY, "limit ({{job}})")],
    ),
    make_chart(
        Text(
            "Delay of answers",
            "The time from the end of a slot to its answers in the ledger. The least possible value is the release "
            "delay.",
            units.Seconds,
        ),
        [
            *quantiles("answer_delay_seconds"),
            Query(f"max by (job) ({metric('release_delay_seconds')})", "least ({{job}})"),
        ],
    ),
)

_DEPENDENCIES: Final = (
    make_chart(
        Text(
            "Unknown because of a server",
            "Shards that were unknown at a tick because Kafka or Redis did not answer.",
            units.Short,
        ),
        [
            Query(
                events("unknown_shards_total", "job, cause", 'cause=~"kafka_unreachable|store_unreachable"'),
                "{{cause}} ({{job}})",
            )
        ],
        {1: WARNING},
        style="bars",
    ),
    make_chart(
        Text(
            "Recoveries by cause",
            "Takeovers are normal when instances start and stop. The other causes mean that Redis or the input topic "
            "has lost data.",
            units.Short,
        ),
        [Query(events("recoveries_total", "job, cause"), "{{cause}} ({{job}})")],
        style="bars",
    ),
)

_STORE: Final = (
    make_chart(
        Text(
            "Memory of Redis",
            "The memory that each Redis server uses and may use, and an estimate of the memory of this configuration's "
            "facts. Above 80 % of the limit, LocationMonitorRedisMemory fires.",
            units.BytesIEC,
        ),
        [
            Query(f"max by (job, node) ({metric('redis_used_bytes')})", "{{node}} ({{job}})"),
            Query(f"max by (job, node) ({metric('redis_limit_bytes')})", "limit of {{node}} ({{job}})"),
            Query(f"avg by (job) (avg_over_time({metric('redis_keys_bytes')}[$__rate_interval]))", "facts ({{job}})"),
        ],
    ),
    make_chart(
        Text(
            "Time until certificates expire",
            "For the certificates of the connections to Kafka and Redis: those in files and those of the servers. "
            "Below 21 days, LocationMonitorCertificateExpiresSoon fires. Empty without TLS.",
            units.Seconds,
        ),
        [
            Query(
                f"min by (job, certificate) ({metric('certificate_expiry_timestamp_seconds')}) - time()",
                "{{certificate}} ({{job}})",
            )
        ],
    ),
)

_RUNTIME: Final = (
    make_chart(
        Text(
            "Ready",
            "1 if the instance waits for nothing, else 0. After 30 minutes at 0, LocationMonitorNotReady fires.",
            units.NoUnit,
        ),
        [Query(metric("ready"), "{{instance}}")],
    ),
    make_chart(
        Text("Processor", "Processors that an instance uses. One process uses about one processor.", units.Short),
        [Query(f"rate(process_cpu_seconds_total{{{JOB}}}[$__rate_interval])", "{{instance}}")],
    ),
    make_chart(
        Text("Memory", "Resident memory of an instance. It should not grow from day to day.", units.BytesIEC),
        [Query(f"process_resident_memory_bytes{{{JOB}}}", "{{instance}}")],
    ),
    make_chart(
        Text(
            "Open files",
            "Open files and connections, as a share of the limit of the process.",
            units.PercentUnit,
        ),
        [Query(f"process_open_fds{{{JOB}}} / process_max_fds{{{JOB}}}", "{{instance}}")],
        {0.8: WARNING, 0.95: BAD},
    ),
    make_chart(
        Text("Instances by version", "Two versions at the same time are normal only during an update.", units.Short),
        [Query(f"count by (job, version) ({metric('build_info')})", "{{version}} ({{job}})")],
    ),
)

_BUILDS: Final = f"count by (job, version) ({metric('build_info')})"
_EARLIER_BUILDS: Final = f"count by (job, version) ({metric('build_info')} offset $__rate_interval)"

ROWS: Final[Rows] = {
    "Ingest": _INGEST,
    "Release": _RELEASE,
    "Dependencies": (*_DEPENDENCIES, *_STORE),
    "Processes": _RUNTIME,
}

ANNOTATIONS: Final = {
    "Starts": (f"changes(process_start_time_seconds{{{JOB}}}[$__rate_interval]) > 0", "blue"),
    "Recoveries": (f"{events('recoveries_total', 'job, cause')} > 0", WARNING),
    "Versions": (f"{_BUILDS} unless {_EARLIER_BUILDS}", "purple"),
}
"""Events that are marked in all charts: their queries, and their colours."""
