"""The same question at designated times: an `at_times` monitor of every place, and what its alarms did."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np

from monitor.privacy import at_times
from monitor.privacy.at_times import AtTimesRule
from monitor.privacy.epsilon import format_epsilon
from monitor.privacy.one_sided_noise import Noise
from monitor.time.instants import DAY, format_duration
from monitor.time.schedule import Schedule
from simulators.outbreak.measure import PER
from simulators.outbreak.reports import Counts, Timeline

TIMEZONE: Final = "Pacific/Auckland"
HORIZON: Final = 14 * DAY

_NEVER: Final = -1


@dataclass(frozen=True, slots=True)
class AtTimesSetting:
    """An `at_times` monitor: daily times, T, and the ε of each time."""

    at: tuple[str, ...]
    threshold: int
    epsilon: Fraction


@dataclass(frozen=True, slots=True)
class AtTimesOutcome:
    """The figures of a monitor of designated times, as in `measure.Outcome`."""

    covered: float
    """The share of visits that cover a designated time: no other visit can raise an alarm."""
    warned: float
    delay_median: float
    false_alarms: float
    evaluations: int
    """Of one place per day."""
    worst: float
    median: float
    """`worst`, `median`: the ε that a person paid."""


@dataclass(frozen=True)
class Designated:
    """The designated times of a timeline, and the row of the first alarm of each time and place (-1: none)."""

    line: Timeline
    setting: AtTimesSetting

    @cached_property
    def times(self) -> Counts:
        """All designated times that a tick of the timeline is about, ascending."""
        grid, first = self.line.grid, self.line.first
        schedule = Schedule.of(self.setting.at, TIMEZONE)
        return schedule.find_between(grid.start(first) - HORIZON, grid.as_of(first + self.line.ticks))

    @cached_property
    def alarm_rows(self) -> Counts:
        """The row of the first alarm, shape (times, places)."""
        return np.full((self.times.size, self.line.places), _NEVER)

    @property
    def most_epsilon(self) -> Fraction:
        """The ε of a person who is at some place at each designated time of 15 days (14 days, and changed clocks)."""
        return self.setting.epsilon * len(self.setting.at) * 15

    def find(self, time: int) -> int:
        """Return the index of a designated time."""
        return int(np.searchsorted(self.times, time))

    def make_monitor(self) -> dict[str, object]:
        """Return the monitor of the configuration."""
        return {
            "name": "times",
            "kind": "at_times",
            "at": list(self.setting.at),
            "timezone": TIMEZONE,
            "reporting_horizon": format_duration(HORIZON),
            "epsilon": format_epsilon(self.setting.epsilon),
            "threshold": self.setting.threshold,
        }

    def answer(self, noise: Noise) -> None:
        """Decide all times with the service's own function."""
        rule = AtTimesRule(self.setting.epsilon, self.setting.threshold)
        for index, listed in enumerate(self._list_reports()):
            counts = np.zeros(self.line.places, np.int64)
            rows = self._find_rows(int(self.times[index]))
            pending = sorted((max(int(self.line.report_ticks[report]), rows.start), report) for report in listed)
            for row in rows:
                while pending and pending[0][0] <= row:
                    counts[self.line.columns[pending.pop(0)[1]]] += 1
                marked = self.alarm_rows[index] != _NEVER
                noisy, _ = at_times.step(rule, marked, counts, noise)
                self.alarm_rows[index, noisy] = row

    def measure(self) -> AtTimesOutcome:
        """Return what the alarms did."""
        listed = self._list_reports()
        alarms = self.alarm_rows
        covering: dict[int, list[int]] = {}
        for index, reports in enumerate(listed):
            for report in reports:
                covering.setdefault(report, []).append(index)
        delays, paid = [], np.zeros(len(self.line.reports))
        for report, times in covering.items():
            rows = alarms[times, self.line.columns[report]]
            counted = self.line.report_ticks[report]
            paid[report] = float(self.setting.epsilon) * int((rows >= counted).sum())
            if (warned := rows[rows >= self.line.visit_ticks[report]]).size:
                delays.append((self.line.find_as_of(int(warned.min())) - self.line.reports[report].end) / DAY)
        number = len(self.line.reports)
        return AtTimesOutcome(
            covered=len(covering) / number,
            warned=len(delays) / number,
            delay_median=float(np.median(delays)) if delays else float("nan"),
            false_alarms=self._count_false_alarms(listed),
            evaluations=len(self.setting.at) * (HORIZON // self.line.grid.length),
            worst=float(paid.max()),
            median=float(np.median(paid)),
        )

    def _count_false_alarms(self, listed: list[list[int]]) -> float:
        """Return the alarms per 1,000 place-days about times and places without a visit, even in hindsight."""
        whole = [len(self._find_rows(int(time))) == HORIZON // self.line.grid.length for time in self.times]
        empty = np.ones(self.alarm_rows.shape, np.bool_)
        for index, reports in enumerate(listed):
            empty[index, self.line.columns[reports]] = False
        empty[~np.array(whole)] = False
        return float(((self.alarm_rows != _NEVER) & empty).sum() / empty.sum() * len(self.setting.at) * PER)

    def _find_rows(self, time: int) -> range:
        """Return the rows of the ticks with τ < as_of ≤ τ + horizon."""
        grid = self.line.grid
        first = grid.find_slot(time) - self.line.first
        last = grid.find_last_tick(time + HORIZON) - self.line.first
        return range(max(0, first), min(last + 1, self.line.ticks))

    def _list_reports(self) -> list[list[int]]:
        """Return the indexes of the reports that cover each time: start ≤ τ < end."""
        listed: list[list[int]] = [[] for _ in range(self.times.size)]
        for number, report in enumerate(self.line.reports):
            first, last = np.searchsorted(self.times, (report.start, report.end))
            for index in range(int(first), int(last)):
                listed[index].append(number)
        return listed


def decide(line: Timeline, setting: AtTimesSetting, noise: Noise) -> AtTimesOutcome:
    """Return the figures of a setting, decided with the service's own function."""
    designated = Designated(line, setting)
    designated.answer(noise)
    return designated.measure()
