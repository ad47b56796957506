"""Distinct people per place over 14 days, advanced hourly: the whole service against Flink SQL."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Final

import numpy as np

from monitor.errors import FailedError
from monitor.operate.replay.driver import Replay, prepare_empty
from monitor.service.wiring import Settings
from monitor.time.clock import SteppedClock
from monitor.time.instants import SECOND
from simulators.bench.bench import Bench
from simulators.bench.flink import measure_flink
from simulators.bench.line import Line, Target
from simulators.bench.site import PARTITIONS, PEOPLE, make_records, place_id, prepare_site

_HOURS: Final = 24
_PLACES: Final = 100
_PER_RECORD: Final = 500
_TURNS: Final = 3
_RATIO: Final = "ratio to Flink SQL"


def measure_fortnight(bench: Bench) -> Mapping[str, float]:
    """Run the service on a backlog of 16 days, and Flink on fewer events of the same distribution.

    Each of them runs three times, in turns. The ratio is that of the medians.
    """
    if bench.quick:
        return _measure_service(bench, 0)  # starting Flink's jobs takes longer than a line at the small scale may
    events, runs, rates = _draw_events(), [], []
    for turn in range(_TURNS):
        runs.append(_measure_service(bench, turn))
        try:
            rates.append(measure_flink(bench.folder(f"flink-{turn}"), events, 14 * _HOURS))
        except FailedError as error:
            bench.report(str(error))
            return runs[0]
    figures = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    rate = statistics.median(rates)
    return {**figures, "Flink SQL (events/s)": rate, _RATIO: figures["whole service (events/s)"] / rate}


def _draw_events() -> list[tuple[str, str, int]]:
    """Return the events of Flink: person, place, and instant in milliseconds."""
    draw, count = np.random.default_rng(7), 2_000
    times = np.sort(draw.random(count) * 16 * _HOURS * 3_600 + 1_767_225_600)  # from 2026-01-01T00:00:00Z
    people, places = draw.integers(PEOPLE, size=count).tolist(), draw.integers(_PLACES, size=count).tolist()
    return [
        (f"p-{person:06}", place_id(place), int(at * 1_000))
        for person, place, at in zip(people, places, times.tolist(), strict=True)
    ]


def _measure_service(bench: Bench, turn: int) -> dict[str, float]:
    """Produce a backlog, then run the service on it. The time includes its start, and ends with the last answers."""
    days, visits = bench.scale((16, 4_000_000), (1, 20_000))
    ticks = days * _HOURS
    with bench.valkey() as valkey:
        settings = prepare_site(bench, f"fortnight-{turn}", _PLACES, _PLACES, valkey.url)
        grid = settings.parameters.grid
        first = grid.find_slot(grid.origin)
        clock = SteppedClock(grid.start(first))
        found = prepare_empty(settings, clock)
        _produce(settings, first, ticks, visits // ticks)
        began = time.perf_counter()
        with Replay(settings, found, clock) as replay:
            answers = sum(len(replay.run_tick(tick)) for tick in range(first, first + ticks))
            seconds = time.perf_counter() - began
            applied = replay.summarize(ticks, seconds).visits["applied"]
    if applied < ticks * (visits // ticks):
        raise FailedError(f"the service applied {applied:,} visits: expected {ticks * (visits // ticks):,}")
    return {
        "whole service (events/s)": applied / seconds,
        "events": float(applied),
        "answers": float(answers),
        "ticks/s": ticks / seconds,
    }


def _produce(settings: Settings, first: int, ticks: int, visits: int) -> None:
    """Produce the visits of each slot. They ended within the minute before their broker timestamp."""
    draw, grid, topic = np.random.default_rng(7), settings.parameters.grid, settings.config.kafka.topics.visits
    with closing(settings.kafka.create_producer(linger_ms=20, batch_size=2**20)) as producer:
        for tick in range(first, first + ticks):
            stamp = grid.as_of(tick) // SECOND - 1
            at = stamp - draw.integers(1, 60, visits)
            people, places = draw.integers(PEOPLE, size=visits), draw.integers(_PLACES, size=visits)
            for number, value in enumerate(make_records(people, places, at, at, _PER_RECORD)):
                producer.send(topic, value=value, partition=number % PARTITIONS, timestamp_ms=stamp * 1_000)
            producer.flush(timeout=120)


LINE: Final = Line(
    "fortnight",
    "distinct people of 100 places over 14 days, hourly, for 16 days: the whole service with Kafka and Redis",
    "≥ 90 × Flink SQL on events of the same distribution",
    (Target(_RATIO, least=90),),
    measure_fortnight,
)
