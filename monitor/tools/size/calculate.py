"""The calculation: processes, partitions, shards, Redis memory and Kafka disk for a load."""

from __future__ import annotations

import math
from typing import Final

from monitor.config.single_values import MAX_SHARDS
from monitor.tools.size.load import Load

CONSTANTS: Final = {
    "read_rate": 300_000,  # visits/s that one process reads, if every visit is stored
    "store": 350_000,  # visits/s that one Redis server stores
    "tick_per_watched": 12e-6,  # seconds of a tick per watched place: count, noise, decision and record
    "tick_per_registered": 20e-9,  # seconds of a tick per registered place, monitor and live designated time
    "process_base": 200 * 2**20,  # bytes of a process with few places
    "per_registered": 100,  # bytes of a process per registered place
    "per_watched": 2_048,  # bytes of a process per watched place
    "seen": 140,  # bytes in Redis per person at a watched place; a fifth of this up to 128 people
    "at_time": 80,  # bytes in Redis per person at a designated time
    "waiting_fact": 30,  # bytes in Redis per fact that waits for its slot
    "answer": 700,  # bytes of an `over_time` record in the output
    "tick_share": 4,  # a tick may take a quarter of a slot: the rest is for reading and for a takeover
    "spare": 2,  # two processes, so that one can take over; two partitions per process, so that processes can be added
    "shards_per_server": 16,
    "places_per_shard": 10_000,
    "snapshot_row": 90,  # bytes of a noisy place in a snapshot, with an id of 30 bytes
    "least_brokers": 3,
    "max_shards": MAX_SHARDS,
}
"""The figures that the arithmetic uses. Rates are for one processor, more cautious than docs/scaling.md."""

_READ: Final = CONSTANTS["read_rate"]
_SPARE: Final = int(CONSTANTS["spare"])


def calculate(load: Load) -> dict[str, float]:
    """Return everything that a load needs, by the keys of `size --json`. `sheet.txt` shows the arithmetic."""
    busy = load.options.visits_per_hour / 3_600
    found = {
        "places": load.places,
        "watched": load.watched,
        "busy_rate": busy,
        "mean_rate": busy / load.options.busy_factor,
        "catch_up_rate": busy * load.options.catch_up,
    }
    for step in (_add_processes, _add_redis, _add_partitions, _add_kafka):
        found |= step(load, found)
    return found


def _add_processes(load: Load, found: dict[str, float]) -> dict[str, float]:
    constants = CONSTANTS
    readers = _round_up(found["catch_up_rate"] / _READ)
    tick = load.watched * constants["tick_per_watched"]
    tick += load.timed * load.places * constants["tick_per_registered"]
    deciders = _round_up(tick / (load.slot / constants["tick_share"]))
    memory = constants["process_base"] + load.places * constants["per_registered"]
    return {
        "readers": readers,
        "tick_seconds": tick,
        "deciders": deciders,
        "processes": max(readers, deciders, _SPARE),
        "process_bytes": memory + load.watched * constants["per_watched"],
    }


def _add_redis(load: Load, found: dict[str, float]) -> dict[str, float]:
    options = load.options
    pairs = options.people * options.places_per_person if load.watched else 0.0
    present, waiting = options.people * load.live, found["busy_rate"] * load.slot
    facts = pairs * CONSTANTS["seen"] + present * CONSTANTS["at_time"] + waiting * CONSTANTS["waiting_fact"]
    by_memory = _round_up(2 * facts / (options.redis_gib * 2**30))
    servers = max(by_memory, _round_up(found["catch_up_rate"] / CONSTANTS["store"]))
    return {
        "pairs": pairs,
        "present": present,
        "waiting": waiting,
        "facts_bytes": facts,
        "redis_bytes": 2 * facts,
        "redis_servers": servers,
        "redis_servers_in_all": servers * (1 + options.redis_replicas),
        "redis_cluster": int(servers > 1),
    }


def _add_partitions(load: Load, found: dict[str, float]) -> dict[str, float]:
    partitions = int(found["processes"]) * _SPARE
    by_servers = int(found["redis_servers"] * CONSTANTS["shards_per_server"])
    wanted = max(_round_up(load.places / CONSTANTS["places_per_shard"]), by_servers)
    shards = min(_round_up(wanted / partitions), MAX_SHARDS // partitions) * partitions
    return {
        "input_partitions": partitions,
        "output_partitions": partitions,
        "shards": shards,
        "snapshot_bytes": load.places / shards * CONSTANTS["snapshot_row"],
    }


def _add_kafka(load: Load, found: dict[str, float]) -> dict[str, float]:
    options, replicas, answers = load.options, load.kafka_replicas, load.watched * CONSTANTS["answer"]
    stored = found["mean_rate"] * load.input_retention * options.visit_bytes * replicas
    published = load.output_retention / load.slot * answers * replicas
    per_second = answers / (load.slot / CONSTANTS["tick_share"])
    written = (found["busy_rate"] * options.visit_bytes + per_second) * replicas
    read = found["catch_up_rate"] * options.visit_bytes
    by_disk = _round_up((stored + published) / (options.broker_tib * 2**40))
    by_rate = _round_up((written + read) / (options.broker_mib_per_second * 2**20))
    return {
        "input_bytes": stored,
        "output_bytes": published,
        "written": written,
        "read": read,
        "brokers": max(int(CONSTANTS["least_brokers"]), by_disk, by_rate),
    }


def _round_up(value: float) -> int:
    return max(1, math.ceil(value))
