"""Distinct people per place over 14 days, advanced hourly: the whole service against Flink SQL.

Flink needs `java` and `javac` 17 or later on the PATH, and for the first run also `mvn`, which copies its jars into the
virtual environment.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np

from monitor.errors import FailedError
from monitor.operate.replay.driver import Replay, prepare_empty
from monitor.service.wiring import Settings
from monitor.time.clock import SteppedClock
from monitor.time.instants import SECOND
from simulators.bench.bench import Bench, Line, Target
from simulators.bench.site import PARTITIONS, PEOPLE, make_records, place_id, prepare_site

_HERE: Final = Path(__file__).parent
_JARS: Final = Path(sys.prefix) / "flink"
_OPENED: Final = ("java.base/java.util=ALL-UNNAMED", "java.base/java.lang=ALL-UNNAMED")
_SECONDS: Final = 240.0


def measure_flink(folder: Path, events: list[tuple[str, str, int]], window_hours: int) -> float:
    """Count the distinct people of each place over a window that advances hourly. Return the events per second.

    `events` have a person, a place, and an instant in milliseconds, in order of time.

    Raises:
        FailedError: a program is missing, or failed.
    """
    _find("javac")
    if not _JARS.is_dir():
        copy = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={_JARS}"]
        _run([_find("mvn"), "-q", "-B", "-f", str(_HERE / "flink-pom.xml"), *copy])
    lines = [f"{person},{place},{at}\n" for person, place, at in events]
    tables = (folder / "single.csv", folder / "all.csv")
    for table, chosen in zip(tables, (lines[:1], lines), strict=True):
        table.write_text("".join(chosen), encoding="utf-8")
    opens = [f"--add-opens={name}" for name in _OPENED]
    command = [_find("java"), "-Xmx1g", *opens, "-cp", f"{_JARS}/*", str(_HERE / "FlinkDistinct.java")]
    printed = _run([*command, *map(str, tables), str(window_hours), "1", str(len(events))])
    found: dict[str, float] = json.loads(printed.splitlines()[-1])
    return found["events"] / found["seconds"]


def _find(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise FailedError(f"Flink SQL skipped: no {program} on the PATH")
    return path


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(  # noqa: S603  # the command is made here
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise FailedError(f"Flink SQL did not end within {_SECONDS:.0f} s") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise FailedError(f"Flink SQL failed with exit code {done.returncode}: {last}")
    return done.stdout


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
