"""A town of two places and four people, small enough to count by hand, and a faultless run of it.

slot           0     1     2     3     4     5     6        slots of 1 h from midnight; W = 3, F = 1
p1 at park     ──
p2 at park           ──
p3 at shop                 ──                               02:20 to 02:40, reported at 02:40
p4 at shop                 ──                               the same, reported at 03:10, in slot 3
people, park   1     2     2     1     0     0     0        `walk`: T = 2, ε = 1, one answer per window
answer         safe  3 until tick 4      safe  safe         paused at the ticks 2 to 4
shop at 02:30  -     1     2     2                          `night`, from tick 2 on: T = 2, ε = 1/2, horizon 3 h
                                                            where tests ask for it, once, at tick 4, about 02:30:
                                 shop at most 3             `busiest`, hot spots at ε = 1/3
                                 2 visits of 20 minutes     `lengths`, lengths at ε = 3/2
                                 shop at least 1            lower bounds of `night` at ε = 3/4
"""

from __future__ import annotations

import hashlib
import math
import uuid
from fractions import Fraction
from typing import Any

from tests.kinds.examples import LENGTHS as LENGTHS_KIND

NIGHT = "night/2026-01-01T02:30:00Z/0"
BUSIEST = "busiest/2026-01-01T02:30:00Z"
LENGTHS = "lengths/2026-01-01T02:30:00Z"
LONGEST = 1_800
"""The longest length that counts, in seconds."""


def as_of(tick: int) -> str:
    """Return the time at which a tick closes its slot."""
    return f"2026-01-01T{tick + 1:02}:00:00Z"


def start(slot: int) -> str:
    """Return the start of a slot."""
    return f"2026-01-01T{slot:02}:00:00Z" if slot >= 0 else f"2025-12-31T{24 + slot:02}:00:00Z"


def record(key: str, tick: int, value: dict[str, Any]) -> dict[str, Any]:
    """Return one line of the file of alerts."""
    headers = {
        "ce_specversion": "1.0",
        "ce_id": f"{key}/{tick}",
        "ce_source": "tiny",
        "ce_type": f"org.location-monitor.{value['kind']}",
        "ce_time": as_of(tick),
        "content-type": "application/json",
    }
    return {"key": key, "headers": headers, "value": value, "partition": 0, "offset": 0}


def owner_value(**more: Any) -> dict[str, Any]:
    """Return the value of an owner record."""
    value: dict[str, Any] = {"service": "tiny", "fingerprint": "0" * 16, "input_topic_id": "", "partitions": 1}
    return value | {"lost_at": None, "input_since": None, "input_partitions": 1} | more


def owner(charges: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return an owner record."""
    made = record("owner", 0, owner_value(charges=charges, kind="owner", **more))
    made["headers"] |= {"ce_id": f"owner/0/{uuid.uuid4().hex}"}
    return made


def charges(night_at: str = "02:30:00") -> dict[str, Any]:
    """Return the charges of the tiny configuration."""
    places = [{"monitor": "walk", "answers": 1, "window": 3, "shares": {"1": ["park"]}}]
    night = {"monitor": "night", "kind": "at_times", "epsilon": "1/2", "horizon": "3h", "at": [night_at]}
    times = [night | {"timezone": "Europe/London", "instants": "0" * 16}]
    return {"digest": "0" * 16, "max_lead": 1, "places": places, "times": times}


def walk(tick: int, status: str, answers: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Return a record of `walk` about the park."""
    value = {
        "monitor": "walk",
        "kind": "over_time",
        "location_id": "park",
        "tick": tick,
        "as_of": as_of(tick),
        "window_start": start(tick - 2),
        "status": status,
        "threshold": 2,
        "epsilon": "1",
        "answers": answers,
        **more,
    }
    return record("walk/park", tick, value)


def night(tick: int, noisy: dict[str, Any], status: str = "complete") -> dict[str, Any]:
    """Return a record of `night` about 02:30."""
    value = {
        "monitor": "night",
        "kind": "at_times",
        "time": "2026-01-01T02:30:00Z",
        "shard": 0,
        "shards": 1,
        "tick": tick,
        "as_of": as_of(tick),
        "status": status,
        "final": tick == 4,
        "registry": hashlib.sha256(b"park\nshop\n").hexdigest(),
        "locations": 2,
        "threshold": 2,
        "epsilon": "1/2",
        "noisy_counts": noisy,
    }
    return record(NIGHT, tick, value)


def busiest(named: dict[str, int], tick: int, top: int, status: str) -> dict[str, Any]:
    """Return a record of `busiest` about 02:30."""
    value = {
        "monitor": "busiest",
        "kind": "hot_spots",
        "time": "2026-01-01T02:30:00Z",
        "tick": tick,
        "as_of": as_of(tick),
        "status": status,
        "final": True,
        "registry": hashlib.sha256(b"park\nshop\n").hexdigest(),
        "locations": 2,
        "top": top,
        "epsilon": "1/3",
        "hot_spots": [{"location_id": location, "noisy_count": count} for location, count in named.items()],
    }
    return record(BUSIEST, tick, value)


def lengths(above: int, below: int, tick: int, status: str) -> dict[str, Any]:
    """Return a record of `lengths` about 02:30, with these totals if the status is complete."""
    both = above + below
    value = {
        "monitor": "lengths",
        "kind": LENGTHS_KIND,
        "time": "2026-01-01T02:30:00Z",
        "tick": tick,
        "as_of": as_of(tick),
        "status": status,
        "final": True,
        "registry": hashlib.sha256(b"park\nshop\n").hexdigest(),
        "locations": 2,
        "noise": "two_sided",
        "epsilon": "3/2",
        "longest_visit_seconds": LONGEST,
        "visits_per_person": 1,
        "visit_seconds": above,
        "spare_seconds": below,
        "visits": both / LONGEST,
        "mean_seconds": float(Fraction(LONGEST * min(max(above, 0), both), both)) if both > 0 else None,
    }
    if status == "unknown":
        value |= dict.fromkeys(("visit_seconds", "spare_seconds", "visits", "mean_seconds"))
    return record(LENGTHS, tick, value)


def build_faultless_run() -> list[dict[str, Any]]:
    """Return the records of a faultless run."""
    mark = [{"tick": 1, "noisy_count": 3, "epsilon": "1", "until": 4}]
    shop = {"shop": {"tick": 3, "noisy_count": 2}}
    records = [
        walk(0, "safe", []),
        walk(1, "noisy_count", mark, noisy_count=3, count_at_most=3, p_value=math.exp(-2)),
        *(walk(tick, "paused", mark, resumes_at=as_of(5)) for tick in (2, 3, 4)),
        walk(5, "safe", []),
        walk(6, "safe", []),
        night(2, {}),
        night(3, shop),
        night(4, shop),
    ]
    records.sort(key=lambda line: line["value"]["tick"])
    return records
