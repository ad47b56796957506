"""Output records as the service writes them: hourly ticks, four locations in two shards."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from monitor.kinds.at_times.record import NoisyCount, make_at_times_record
from monitor.kinds.hot_spots.record import make_hot_spots_record
from monitor.kinds.locations import Registry
from monitor.kinds.upper_bound.record import make_upper_bound_record
from monitor.privacy.over_time import Mark, OverTimeRule, step
from monitor.privacy.upper_bound import BucketRule, add_up, draw
from monitor.records.output_records import OutputRecord
from monitor.time.instants import HOUR, parse_instant
from monitor.time.slot_grid import SlotGrid
from tests.builders import write_answer

SLOTS = SlotGrid(parse_instant("2026-01-05T00:00:00Z"), HOUR)
REGISTRY = Registry(("market", "park", "school", "clinic"), 2)
RULE = OverTimeRule(Fraction(1), 1, 10, 5, 2)  # W = 5, F = 2


def over_time(
    location: str, tick: int, count: int | None, *answers: tuple[int, int], grid: SlotGrid = SLOTS
) -> OutputRecord:
    """Return the answer of Algorithm 3 at a tick for a count without noise, after (tick, noisy count) answers."""
    marks = tuple(
        Mark(at, noisy_count, RULE.answer_epsilon, at + RULE.mark_lifetime - 1) for at, noisy_count in answers
    )
    return write_answer(location, RULE, tick, step(RULE, marks, tick, count, 0), grid)


def bound(location: str, tick: int, numbers: int, *, missing: bool = False, hours: int = 2) -> OutputRecord:
    """Return the answer of an upper bound: W = 4, F = 0, buckets of two slots, each with this number."""
    rule = BucketRule(Fraction(1), hours, 2 * hours, 0)
    drawn = tuple(draw(rule, last, numbers, 0) for last in rule.list_buckets(tick)[missing:])
    return make_upper_bound_record(
        source="town",
        monitor="curve",
        location_id=location,
        epsilon=rule.answer_epsilon,
        tick=tick,
        as_of=SLOTS.as_of(tick),
        window_start=SLOTS.start(tick - rule.window + 1),
        bucket_start=SLOTS.start(tick - rule.bucket + 1),
        numbers=drawn,
        bound=add_up(rule, drawn, tick),
    )


def snapshot(
    shard: int,
    tick: int,
    noisy: dict[str, tuple[Any, ...]] | None = None,
    *,
    answers: int = 1,
    complete: bool = True,
    registry: Registry = REGISTRY,
    time: int = 2,
    bounds: dict[str, int] | None = None,
) -> OutputRecord:
    """Return the answer of Algorithm 4 at a tick about half an hour into slot `time`; the horizon has five ticks.

    `noisy`: the fields of each `NoisyCount`. `answers`: k.
    """
    return make_at_times_record(
        source="town",
        monitor="midday",
        time=SLOTS.start(time) + HOUR // 2,
        shard=shard,
        shards=2,
        tick=tick,
        as_of=SLOTS.as_of(tick),
        complete=complete,
        final=tick == time + 4,
        registry=registry.digest,
        locations=len(registry.by_shard[shard]),
        threshold=8,
        epsilon=Fraction(1),
        noisy_counts={place: NoisyCount(*at) for place, at in (noisy or {}).items()},
        answers_per_time=answers,
        counts_at_least=None if bounds is None else (Fraction(1), bounds),
    )


def hot_spots(time: int, named: dict[str, int] | None, *, monitor: str = "busiest", after: int = 2) -> OutputRecord:
    """Return the busiest locations half an hour into slot `time`, drawn `after` ticks later; None: incomplete input."""
    return make_hot_spots_record(
        source="town",
        monitor=monitor,
        time=SLOTS.start(time) + HOUR // 2,
        tick=time + after,
        as_of=SLOTS.as_of(time + after),
        registry=REGISTRY.digest,
        locations=len(REGISTRY.ids),
        top=8,
        epsilon=Fraction(1),
        hot_spots=None if named is None else list(named.items()),
    )
