"""The calculation: processes, partitions, shards, Redis memory and Kafka disk for a load."""

from __future__ import annotations

import math
from typing import Final

from monitor.config.scalars import MAX_SHARDS
from monitor.tools.size import constants
from monitor.tools.size.constants import Constant
from monitor.tools.size.load import Load
from monitor.tools.size.sheet import Sheet, format_bytes, format_number

_HOUR: Final = 3_600
_TICK_SHARE: Final = 4
"""A tick may take a quarter of a slot. The rest is for reading and for a takeover."""

_SPARE: Final = 2
"""At least two processes, so that one can take over; and two partitions per process, so that processes can be added."""

_SHARDS_PER_SERVER: Final = 16
_PLACES_PER_SHARD: Final = 10_000
_SNAPSHOT_BYTES: Final = 90
"""The bytes of a noisy place in a snapshot, with an id of 30 bytes. A snapshot of 10,000 noisy places is below 1 MB."""

_LEAST_BROKERS: Final = 3
_SMALL: Final = 1e-3
"""Smaller numbers are shown in millionths."""


def calculate(load: Load) -> Sheet:
    """Return the calculation of everything that a load needs."""
    sheet = Sheet()
    busy = _add_load(sheet, load)
    processes = _add_processes(sheet, load, busy)
    servers = _add_redis(sheet, load, busy)
    _add_partitions(sheet, load, processes, servers)
    _add_kafka(sheet, load, busy)
    return sheet


def _add_load(sheet: Sheet, load: Load) -> float:
    options = load.options
    sheet.begin("Load")
    per_hour = options.visits_per_hour
    sheet.add("places", "registered places", "locations.file, or --places", load.places)
    sheet.add("watched", "watched places", "monitors of kind over_time, or --watched", load.watched)
    busy = sheet.add(
        "busy_rate", "visits in the busy hour", f"{_n(per_hour)} visits ÷ {_n(_HOUR)} s", per_hour / _HOUR, "visits/s"
    )
    sheet.add(
        "mean_rate", "visits on average", f"{_n(busy)} visits/s ÷ {_n(options.busy_factor)}",
        busy / options.busy_factor, "visits/s",
    )  # fmt: skip
    return busy


def _add_processes(sheet: Sheet, load: Load, busy: float) -> int:
    sheet.begin("Processes")
    factor, read = load.options.catch_up, constants.READ
    needed = sheet.add(
        "catch_up_rate", "to catch up after an outage", f"{_n(busy)} visits/s × {_n(factor)}", busy * factor, "visits/s"
    )
    readers = sheet.add(
        "readers",
        "processes to read",
        f"{_n(needed)} visits/s ÷ {_c(read)}, rounded up",
        _round_up(needed / read.value),
    )
    watched, registered = constants.TICK_PER_WATCHED, constants.TICK_PER_REGISTERED
    tick = sheet.add(
        "tick_seconds",
        "time of a tick, in one process",
        f"{_n(load.watched)} × {_c(watched)} + {_n(load.timed)} live times × {_n(load.places)} × {_c(registered)}",
        load.watched * watched.value + load.timed * load.places * registered.value,
        "s",
    )
    budget = load.slot / _TICK_SHARE
    deciders = sheet.add(
        "deciders", "processes to decide", f"{_n(tick)} s ÷ ({_n(load.slot)} s ÷ {_TICK_SHARE}), rounded up",
        _round_up(tick / budget),
    )  # fmt: skip
    processes = int(max(readers, deciders, _SPARE))
    sheet.add(
        "processes",
        "processes",
        f"the largest of {_n(readers)}, {_n(deciders)}, and {_SPARE} for a takeover",
        processes,
    )
    base, place, seen = constants.PROCESS_BYTES, constants.REGISTERED_BYTES, constants.WATCHED_BYTES
    sheet.add(
        "process_bytes",
        "memory of each process",
        f"{_c(base)} + {_n(load.places)} × {_c(place)} + {_n(load.watched)} × {_c(seen)}",
        base.value + load.places * place.value + load.watched * seen.value,
        "B",
    )
    return processes


def _add_redis(sheet: Sheet, load: Load, busy: float) -> int:
    options = load.options
    sheet.begin("Redis")
    pairs = sheet.add(
        "pairs", "people at watched places", f"{_n(options.people)} people × {_n(options.places_per_person)} places",
        options.people * options.places_per_person if load.watched else 0.0,
    )  # fmt: skip
    present = sheet.add(
        "present", "people at live times", f"{_n(options.people)} people × {_n(load.live)} live times",
        options.people * load.live,
    )  # fmt: skip
    waiting = sheet.add(
        "waiting", "facts of a slot that wait", f"{_n(busy)} visits/s × {_n(load.slot)} s", busy * load.slot
    )
    seen, timed, waits = constants.SEEN_BYTES, constants.PRESENT_BYTES, constants.WAITING_BYTES
    facts = sheet.add(
        "facts_bytes",
        "memory of the facts",
        f"{_n(pairs)} × {_c(seen)} + {_n(present)} × {_c(timed)} + {_n(waiting)} × {_c(waits)}",
        pairs * seen.value + present * timed.value + waiting * waits.value,
        "B",
    )
    both = sheet.add("redis_bytes", "during a change", f"{format_bytes(facts)} × 2 sets of facts", 2 * facts, "B")
    by_memory = _round_up(both / (options.redis_gib * 2**30))
    by_rate = _round_up(busy * options.catch_up / constants.STORE.value)
    servers = int(max(by_memory, by_rate))
    arithmetic = (
        f"the larger of {format_bytes(both)} ÷ {_n(options.redis_gib)} GiB and "
        f"{_n(busy * options.catch_up)} visits/s ÷ {_c(constants.STORE)}, rounded up"
    )
    sheet.add("redis_servers", "servers with facts", arithmetic, servers)
    sheet.add(
        "redis_servers_in_all", "servers with replicas", f"{servers} × (1 + {options.redis_replicas})",
        servers * (1 + options.redis_replicas),
    )  # fmt: skip
    kind = "redis.cluster: true" if servers > 1 else "a single server suffices"
    sheet.add("redis_cluster", "Redis Cluster", kind, float(servers > 1))
    return servers


def _add_partitions(sheet: Sheet, load: Load, processes: int, servers: int) -> None:
    sheet.begin("Partitions and shards")
    partitions = processes * _SPARE
    why = f"{_n(processes)} processes × {_SPARE}, so that the processes can be doubled"
    sheet.add("input_partitions", "partitions of the input", why, partitions)
    sheet.add("output_partitions", "partitions of the output", f"{why} (fixed by the ledger)", partitions)
    wanted = max(_round_up(load.places / _PLACES_PER_SHARD), servers * _SHARDS_PER_SERVER)
    shards = min(_round_up(wanted / partitions), MAX_SHARDS // partitions) * partitions
    arithmetic = (
        f"the larger of {_n(load.places)} ÷ {_n(_PLACES_PER_SHARD)} and {servers} × {_SHARDS_PER_SERVER}, "
        f"as a multiple of {_n(partitions)}, at most {_n(MAX_SHARDS)}"
    )
    sheet.add("shards", "service.shards", arithmetic, shards)
    sheet.add(
        "snapshot_bytes",
        "largest snapshot of a shard",
        f"{_n(load.places)} ÷ {_n(shards)} × {_SNAPSHOT_BYTES} B, if all places are noisy",
        load.places / shards * _SNAPSHOT_BYTES,
        "B",
    )


def _add_kafka(sheet: Sheet, load: Load, busy: float) -> None:
    options, replicas = load.options, load.kafka_replicas
    sheet.begin("Kafka")
    mean = busy / options.busy_factor
    visits = sheet.add(
        "input_bytes",
        "disk of the input",
        f"{_n(mean)} visits/s × {_days(load.input_retention)} × {options.visit_bytes} B × {replicas} replicas",
        mean * load.input_retention * options.visit_bytes * replicas,
        "B",
    )
    ticks, answer = load.output_retention / load.slot, constants.ANSWER_BYTES
    answers = sheet.add(
        "output_bytes",
        "disk of the output",
        f"{_days(load.output_retention)} ÷ {_n(load.slot)} s × {_n(load.watched)} × {_c(answer)} × {replicas} replicas",
        ticks * load.watched * answer.value * replicas,
        "B",
    )
    written = sheet.add(
        "written",
        "written in the busy hour",
        f"({_n(busy)} visits/s × {options.visit_bytes} B + {_n(load.watched)} × {_c(answer)} ÷ "
        f"({_n(load.slot)} s ÷ {_TICK_SHARE})) × {replicas} replicas",
        (busy * options.visit_bytes + load.watched * answer.value / (load.slot / _TICK_SHARE)) * replicas,
        "B/s",
    )
    caught = busy * options.catch_up
    read = sheet.add(
        "read", "read while catching up", f"{_n(caught)} visits/s × {options.visit_bytes} B",
        caught * options.visit_bytes, "B/s",
    )  # fmt: skip
    rate = written + read
    by_disk = _round_up((visits + answers) / (options.broker_tib * 2**40))
    by_rate = _round_up(rate / (options.broker_mib_per_second * 2**20))
    arithmetic = (
        f"the largest of {_LEAST_BROKERS}, {format_bytes(visits + answers)} ÷ {_n(options.broker_tib)} TiB, and "
        f"{format_bytes(rate)}/s ÷ {_n(options.broker_mib_per_second)} MiB/s"
    )
    sheet.add("brokers", "brokers", arithmetic, max(_LEAST_BROKERS, by_disk, by_rate))


def _round_up(value: float) -> int:
    return max(1, math.ceil(value))


def _n(value: float) -> str:
    return format_number(value)


def _c(constant: Constant) -> str:
    """Return a constant with its unit, and a star if the benchmark measures it."""
    if constant.unit == "B":
        return f"{format_bytes(constant.value)}{'*' if constant.is_measured else ''}"
    value = format_number(constant.value) if constant.value >= _SMALL else f"{constant.value * 1e6:.3g} · 10⁻⁶"
    return f"{value} {constant.unit}{'*' if constant.is_measured else ''}"


def _days(seconds: float) -> str:
    return f"{_n(seconds / 86_400)} days"
