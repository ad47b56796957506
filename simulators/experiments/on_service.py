"""Compute Figures 6 and 7 with the service itself: replay Algorithm 4 on a real Kafka and Valkey.

Each designated time is one run of the experiment. The people, each at one place, are divided into five batches in a new
random order, and reported batch by batch in consecutive slots. One monitor per ε and T answers for all places after
each batch. As in Algorithm 4, a place with a noisy count is not evaluated again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
from rich.console import Console

from monitor.time.instants import HOUR, MINUTE, format_instant, parse_instant
from monitor.time.slot_grid import SlotGrid
from simulators.continuous_noise import Places
from simulators.experiments.data import PEOPLE_FLOW, Movements, Place
from simulators.experiments.location_figures import EXPECTED, make_ratio_setting
from simulators.experiments.monitoring import OnePlaceEach, accumulate
from simulators.experiments.points import EPSILONS, THRESHOLD, THRESHOLDS, UPDATES, Point, find_paper_value
from simulators.service_replay import Entry, replay_files, write_files

BY_SERVICE: Final = "by the running service"

_ORIGIN: Final = parse_instant("2026-01-05T00:00:00Z")
_GRID: Final = SlotGrid(_ORIGIN, HOUR)
_APART: Final = 8 * HOUR
_EPSILON_TEXTS: Final = {0.5: "1/2", 1.0: "1", 2.0: "2"}


@dataclass(frozen=True, slots=True)
class Run:
    """One designated time: its instant, and the places of each update's people, shape (updates, batch)."""

    time: int
    picked: Places


@dataclass(slots=True)
class Tally:
    """The totals of one monitor at one update, over all runs."""

    asked: int = 0
    """Safe places evaluated."""
    alarms: int = 0
    """Their alarms."""
    expected: float = 0.0
    variance: float = 0.0
    """`expected`, `variance`: the mean and the variance of `alarms` by the exact chances."""

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
    _noisy: dict[tuple[str, int, int], dict[int, int]] = field(default_factory=dict)

    def observe(self, tick: int, entry: Entry) -> None:
        """Add an answer published at a tick."""
        if entry.kind == "at_times":
            noisy = self._noisy.setdefault((entry.monitor, entry.instant, tick), {})
            noisy.update({self.places[name]: at for name, (at, _count) in entry.counts.items()})

    def fill_tallies(self) -> None:
        """Compute the tallies after the last tick. The `as_of` of a time's first update is one hour after the time."""
        counts = {run.time: accumulate(run.picked, len(self.places)) for run in self.runs}
        for (name, time, tick), noisy in self._noisy.items():
            update = tick - _GRID.find_last_tick(time + HOUR) + 1
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
    with TemporaryDirectory(prefix="location-monitor-experiments-") as name:
        folder, ids = Path(name), movements.location_ids
        visits = (visit for run in made for visit in _make_visits(run, ids))
        write_files(folder, ids, visits, _make_sections([run.time for run in made]))
        replay_files(folder, place.title, watcher.observe, console)
    watcher.fill_tallies()
    yield from _make_points(place, watcher)


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


def _make_visits(run: Run, location_ids: Sequence[str]) -> Iterator[tuple[str, str, str, str, str]]:
    arrived, left = format_instant(run.time - MINUTE), format_instant(run.time + MINUTE)
    number = 0
    for update, batch in enumerate(run.picked):
        reported = format_instant(run.time + update * HOUR + 10 * MINUTE)
        for place in batch:
            number += 1
            yield f"person-{number}", location_ids[place], arrived, left, reported


def _make_sections(times: Sequence[int]) -> dict[str, object]:
    return {
        "service": {"name": "experiments", "shards": 4},
        "clock": {"slot": "1h", "origin": format_instant(_ORIGIN), "release_delay": "30s"},
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
    }
