"""Compute Figures 6 and 7 with the service itself: replay Algorithm 4 on a real Kafka and Valkey.

Each designated time is one run of the experiment. The people, each at one place, are divided into five batches in a new
random order, and reported batch by batch in consecutive slots. One monitor per ε and T answers for all places after
each batch. As in Algorithm 4, a place with a noisy count is not evaluated again.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
from rich.console import Console

from monitor.config import load_valid_config
from monitor.contracts.instants import HOUR, MINUTE, format_instant, parse_instant
from monitor.contracts.ledger_entries import AtTimesEntry, read_record
from monitor.contracts.output_records import OutputRecord
from monitor.errors import FailedError
from monitor.service.wiring import Settings
from monitor.tools.convert.files import REGISTRY_HEADER, VISITS_HEADER
from monitor.tools.replay.driver import ReplayPlan, plan_replay, replay
from monitor.tools.replay.embedded import start_embedded
from monitor.tools.replay.progress import show_progress
from simulators.continuous_noise import Places
from simulators.experiments.data import Movements
from simulators.experiments.datasets import PEOPLE_FLOW, Place
from simulators.experiments.location_figures import EXPECTED, make_ratio_setting
from simulators.experiments.monitoring import OnePlaceEach, accumulate
from simulators.experiments.paper import EPSILONS, THRESHOLD, THRESHOLDS, UPDATES, find_paper_value
from simulators.experiments.points import Point

BY_SERVICE: Final = "by the running service"

_ORIGIN: Final = parse_instant("2026-01-05T00:00:00Z")
_APART: Final = 8 * HOUR
_EPSILON_TEXTS: Final = {0.5: "1/2", 1.0: "1", 2.0: "2"}


@dataclass(frozen=True, slots=True)
class Run:
    """One designated time: its instant, and the places of each update's people, shape (updates, batch)."""

    time: int
    picked: Places


@dataclass(slots=True)
class Tally:
    """The totals of one monitor at one update, over all runs.

    `asked`: safe places evaluated. `alarms`: their alarms. `expected`, `variance`: the mean and the variance of
    `alarms` by the exact chances.
    """

    asked: int = 0
    alarms: int = 0
    expected: float = 0.0
    variance: float = 0.0

    def add(self, chances: np.ndarray[tuple[int], np.dtype[np.float64]], alarms: int) -> None:
        """Add one run: the alarm chances of the safe places evaluated, and the number of alarms."""
        self.asked += chances.size
        self.alarms += alarms
        self.expected += float(chances.sum())
        self.variance += float((chances * (1 - chances)).sum())


@dataclass(slots=True)
class Watcher:
    """An observer that compares the published answers with the places of the people."""

    runs: Sequence[Run]
    places: dict[str, int]
    tallies: dict[tuple[float, int, int], Tally] = field(default_factory=dict)
    unknown: int = 0
    _noisy: dict[tuple[str, int, int], dict[int, int]] = field(default_factory=dict)

    def observe(self, tick: int, records: Sequence[OutputRecord]) -> None:
        """Add the records published at a tick."""
        for record in records:
            entry = read_record(record.key, record.value, record.headers)
            if not isinstance(entry, AtTimesEntry):
                continue
            self.unknown += entry.status != "complete"
            noisy = self._noisy.setdefault((entry.monitor, entry.time, tick), {})
            noisy.update({self.places[name]: at for name, (at, _count) in entry.noisy_counts.items()})

    def fill_tallies(self, first_tick_of: Callable[[int], int]) -> None:
        """Compute the tallies after the last tick. `first_tick_of` returns the tick of a time's first update."""
        counts = {run.time: accumulate(run.picked, len(self.places)) for run in self.runs}
        for (name, time, tick), noisy in self._noisy.items():
            update = tick - first_tick_of(time) + 1
            if 1 <= update <= UPDATES:
                self._compare(_MONITORS[name], counts[time][update - 1], noisy, tick, update)

    def _compare(self, monitor: tuple[float, int], now: Places, noisy: dict[int, int], tick: int, update: int) -> None:
        epsilon, threshold = monitor
        answered_at = np.full(now.size, tick + 1)
        answered_at[list(noisy)] = list(noisy.values())
        safe = (answered_at >= tick) & (now < threshold)
        tally = self.tallies.setdefault((epsilon, threshold, update), Tally())
        tally.add(np.exp(-epsilon * (threshold - now[safe])), int(np.count_nonzero(answered_at[safe] == tick)))


_MONITORS: Final = {
    f"e{round(10 * epsilon)}t{threshold}": (epsilon, threshold) for epsilon, threshold in product(EPSILONS, THRESHOLDS)
}


def compute_service_points(
    place: Place, movements: Movements, runs: int, seed: int, console: Console
) -> Iterator[Point]:
    """Replay `runs` designated times and yield the points of Figures 6 and 7.

    Raises:
        EmbeddedError: the servers cannot start.
        FailedError: an answer was "unknown", or the replay failed.
    """
    rng = np.random.default_rng((seed, 8, *place.title.encode()))
    population = OnePlaceEach(movements)
    made = [Run(_ORIGIN + (number + 1) * _APART, population.pick_places(rng)) for number in range(runs)]
    watcher = Watcher(made, {name: row for row, name in enumerate(movements.location_ids)})
    with TemporaryDirectory(prefix="location-monitor-experiments-") as folder:
        config = _write_files(Path(folder), movements, made)
        with start_embedded(load_valid_config(config, {}), _make_reporter(console)) as settings:
            planned = plan_replay(Path(folder) / "visits.csv", settings.parameters, None, lambda: None)
            try:
                _replay(settings, planned, watcher, place.title, console)
            finally:
                planned.lines.close()
            # The as_of of the first update for a designated time is one hour after that time.
            watcher.fill_tallies(lambda time: settings.parameters.grid.find_last_tick(time + HOUR))
    if watcher.unknown:
        raise FailedError(f"{place.title}: {watcher.unknown} answers were unknown; run it again on a less busy machine")
    yield from _make_points(place, watcher)


def _make_reporter(console: Console) -> Callable[[str], None]:
    return lambda text: console.print(text, highlight=False, soft_wrap=True)


def _replay(settings: Settings, planned: ReplayPlan, watcher: Watcher, title: str, console: Console) -> None:
    total = max(0, planned.last_tick - planned.first_tick + 1)
    with show_progress(f"{title}, by the service", total, "ticks", console) as steps:

        def on_tick(tick: int, records: Sequence[OutputRecord]) -> None:
            watcher.observe(tick, records)
            steps.advance()

        replay(settings, planned, on_tick)


def _make_points(place: Place, watcher: Watcher) -> Iterator[Point]:
    for (epsilon, threshold, update), tally in sorted(watcher.tallies.items()):
        for figure in ("figure6", "figure7"):
            if (figure == "figure6" and threshold != THRESHOLD) or (figure == "figure7" and update != UPDATES):
                continue
            setting = make_ratio_setting(figure, place.title, epsilon, threshold, update)
            paper = find_paper_value(setting, PEOPLE_FLOW) if place.compared else None
            asked = max(tally.asked, 1)
            yield Point(setting, BY_SERVICE, paper, tally.alarms / asked, math.sqrt(tally.variance) / asked)
            yield Point(setting, BY_SERVICE + EXPECTED, None, tally.expected / asked)


def _write_files(folder: Path, movements: Movements, runs: Sequence[Run]) -> Path:
    """Write the registry, the visits and the configuration, and return the configuration's path."""
    with (folder / "locations.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(REGISTRY_HEADER)
        writer.writerows((name, "", "", "") for name in movements.location_ids)
    with (folder / "visits.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(VISITS_HEADER)
        for run in runs:
            writer.writerows(_make_visits(run, movements.location_ids))
    config = folder / "config.yaml"
    config.write_text(json.dumps(_make_config([run.time for run in runs])), encoding="utf-8")  # JSON is YAML
    return config


def _make_visits(run: Run, location_ids: Sequence[str]) -> Iterator[tuple[str, str, str, str, str]]:
    arrived, left = format_instant(run.time - MINUTE), format_instant(run.time + MINUTE)
    number = 0
    for update, batch in enumerate(run.picked):
        reported = format_instant(run.time + update * HOUR + 10 * MINUTE)
        for place in batch:
            number += 1
            yield f"person-{number}", location_ids[place], arrived, left, reported


def _make_config(times: Sequence[int]) -> dict[str, object]:
    return {
        "service": {"name": "experiments", "shards": 4},
        "clock": {"slot": "1h", "origin": format_instant(_ORIGIN), "release_delay": "30s"},
        "locations": {"file": "locations.csv"},
        "visits": {"default_stay": "1m", "accept_ahead": "0s"},
        # The data is public, so ε may be as large as the sum over all monitors and times.
        "privacy": {
            "epsilon": str(math.ceil(sum(epsilon for epsilon, _ in _MONITORS.values()) * len(times))),
            "period": "365d",
        },
        "monitors": [
            {
                "name": name,
                "kind": "at_times",
                "at": [format_instant(time) for time in times],
                "reporting_horizon": f"{UPDATES}h",
                "epsilon": _EPSILON_TEXTS[epsilon],
                "threshold": threshold,
            }
            for name, (epsilon, threshold) in _MONITORS.items()
        ],
        "kafka": {
            "bootstrap_servers": ["localhost:9092"],
            "topics": {"visits": "visits", "alerts": "alerts", "dead_letters": "dead-letters"},
            "partitions": {"visits": 1, "alerts": 1},
        },
        "redis": {"url": "redis://localhost:6379/0"},
    }
