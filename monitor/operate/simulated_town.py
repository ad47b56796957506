"""A simulated town for the demo and for load tests: people work, go out, and some are reported. No I/O and no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.errors import UsageError
from monitor.time.instants import DAY, HOUR, MINUTE, SECOND

Ints = NDArray[np.int64]

REPORTED_DAYS: Final = 14
INFECTED_SHARE: Final = 0.025
_MONDAY: Final = 3  # the epoch was a Thursday
_WEEKEND: Final = 5
_AT_WORK: Final = 0.7  # the share of people who work on a weekday, and on a day of the weekend
_AT_WORK_ON_WEEKENDS: Final = 0.3
_GOES_OUT: Final = 0.6
_UPLOAD: Final = 4 * HOUR  # all visits of a day are uploaded within this time after midnight


@dataclass(frozen=True, slots=True)
class Visits:
    """Visits as arrays of one shape, in order of `reported_at`. `person` and `place` are numbers from 0."""

    person: Ints
    place: Ints
    arrived_at: Ints
    left_at: Ints
    reported_at: Ints

    def __len__(self) -> int:
        return self.person.size


class Town:
    """A town in which 2.5 % of the people are infected and report where they were. Equal arguments give equal visits.

    On most days a person works at a fixed place, and goes out to any place in the evening. Place n is n times less
    popular than the first one. By default most reports are in the second half of the simulated days.

    Args:
        seed: decides all random draws.
        people: the number of people.
        places: the number of places.
        start: the instant of a midnight, in whole seconds.
        days: the number of simulated days.
        peak: the day on which most people are reported, as a share of the days. From 1 on, reports grow until the end.

    Raises:
        UsageError: there are no people, days or places, or the start has a fraction of a second.
    """

    def __init__(self, seed: int, people: int, places: int, start: int, days: int, *, peak: float = 0.6) -> None:
        if people < 1 or days < 1 or places < 1:
            raise UsageError(f"a town of {people} people and {places} places for {days} days: expected 1 or more")
        if start % SECOND:
            raise UsageError("the town's start has a fraction of a second: expected whole seconds")
        self.people, self.days = people, days
        self._seed, self._start = seed, start
        self._popularity = np.cumsum(1 / np.arange(1, places + 1))
        draw = np.random.default_rng(seed)
        self._work = self._choose_places(draw)
        day = np.floor(draw.normal(peak, 0.25, people) * days).astype(np.int64)
        reported = start + day * DAY + _draw_times(draw, 8 * HOUR, 20 * HOUR, people)
        infected = (draw.random(people) < INFECTED_SHARE) & (day >= 0) & (day < days)
        self._reported_at = np.where(infected, reported, 0)

    def list_reports(self) -> Iterator[Visits]:
        """Yield the visits reported on each day. An infected person reports the last 14 days at once."""
        past: deque[Visits] = deque(maxlen=REPORTED_DAYS + 1)
        for day in range(self.days):
            past.append(self._draw_day(day))
            known = _join(past)
            reported, tomorrow = self._reported_at[known.person], self._start + (day + 1) * DAY
            within = (known.left_at <= reported) & (known.arrived_at >= reported - REPORTED_DAYS * DAY)
            yield _select(known, within & (reported >= tomorrow - DAY) & (reported < tomorrow), reported)

    def list_all_visits(self) -> Iterator[Visits]:
        """Yield everyone's visits of each day, for load tests. They are reported within four hours after its end."""
        for day in range(self.days):
            known = self._draw_day(day)
            uploaded = self._start + (day + 1) * DAY + known.person * (_UPLOAD // SECOND) // self.people * SECOND
            yield _select(known, np.full(len(known), fill_value=True), uploaded)

    def _draw_day(self, day: int) -> Visits:
        """Return the visits of all people on a day: work, and then an outing. `reported_at` is 0."""
        draw, everyone = np.random.default_rng((self._seed, day)), np.arange(self.people)
        unknown = np.zeros_like(everyone)
        midnight = self._start + day * DAY
        # At noon in the town, the UTC date equals the town's date, in any time zone from UTC-11 to UTC+12.
        is_weekend = ((midnight + DAY // 2) // DAY + _MONDAY) % 7 >= _WEEKEND
        at_work = draw.random(self.people) < (_AT_WORK_ON_WEEKENDS if is_weekend else _AT_WORK)
        begin, end = (_draw_times(draw, first, first + 2 * HOUR, self.people) for first in (8 * HOUR, 15 * HOUR))
        work = _select(Visits(everyone, self._work, midnight + begin, midnight + end, unknown), at_work, unknown)
        goes_out, place = draw.random(self.people) < _GOES_OUT, self._choose_places(draw)
        begin = _draw_times(draw, 18 * HOUR, 21 * HOUR, self.people)
        end = begin + _draw_times(draw, 5 * MINUTE, 2 * HOUR, self.people)
        out = _select(Visits(everyone, place, midnight + begin, midnight + end, unknown), goes_out, unknown)
        return _join((work, out))

    def _choose_places(self, draw: np.random.Generator) -> Ints:
        """Return a place for each person. A place is chosen in proportion to its popularity."""
        place: Ints = np.searchsorted(self._popularity, draw.random(self.people) * self._popularity[-1], side="right")
        return place


def _draw_times(draw: np.random.Generator, first: int, last: int, number: int) -> Ints:
    """Return durations in whole seconds, in microseconds."""
    return draw.integers(first // SECOND, last // SECOND, number) * SECOND


def _join(parts: deque[Visits] | tuple[Visits, ...]) -> Visits:
    names = ("person", "place", "arrived_at", "left_at", "reported_at")
    return Visits(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _select(visits: Visits, rows: NDArray[np.bool_], reported: Ints) -> Visits:
    """Return some of the visits, reported at the given times, in order of the report, then person and arrival."""
    columns = [column[rows] for column in (visits.person, visits.place, visits.arrived_at, visits.left_at, reported)]
    order = np.lexsort((columns[2], columns[0], columns[4]))
    return Visits(*(column[order] for column in columns))
