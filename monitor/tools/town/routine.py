"""The stays of people on one day, as a pure function of the seed, the person and the day.

Past days are not stored: when a day is reported two weeks later, it is recomputed (draws.py). A person's stays do not
overlap, so nobody is at two places at the same time, as the service assumes (docs/rules.md, section 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Final

import numpy as np

from monitor.tools.town.draws import LIFE, Floats, Indices, Ints, Keys, Mask, draw_normal, draw_uniform
from monitor.tools.town.outings import AFTERNOON, EARLY, EVENING, LATE, LUNCH, MORNING, Outing, Situation
from monitor.tools.town.people import People, Role
from monitor.tools.town.places import TRAITS, Atlas, Kind

DAY_SECONDS: Final = 86_400

_WEEK: Final = 7
_SATURDAY: Final = 5
_FESTIVE: Final = (4, 5)  # Friday and Saturday
_LEAST_STAY: Final = 60  # seconds; shorter stays are left out
_WALK: Final = (180, 720)  # seconds between two places, at least and at most
_RIDE: Final = (420, 1500)
_STATION_TO_WORK: Final = 900  # planned seconds from alighting to the start of work
_PATIENCE: Final = 3 * 3600  # seconds; a trip that would be delayed by more is cancelled
_JOINS_FAMILY: Final = 0.75
_USUAL_PLACE: Final = 0.6  # of the visits to shops and markets
_NEAR_HOME: Final = 0.75  # of the other outings
_OFFICE_HOUR: Final = (8.75, 0.6)  # mean and standard deviation, hours
_SCHOOL_HOUR: Final = (8.1, 0.1)
_SHIFT_HOUR: Final = (8.5, 12.0)  # shifts begin between these hours
_SHIFT_HOURS: Final = (8.5, 0.6)
_SCHOOL_HOURS: Final = (7.2, 0.5)
_MEDIAN_STAY: Final = np.array([TRAITS[kind].stay_minutes * 60 for kind in Kind])  # seconds
_STAY_SPREAD: Final = np.array([TRAITS[kind].stay_spread for kind in Kind])


class _Stream(IntEnum):
    """The purpose of a draw. Streams from 64 on belong to the stages of a day, eight per stage."""

    JOINS = auto()
    SHIFT = auto()


class _Use(IntEnum):
    """The purpose of a draw within a stage."""

    WHETHER = 0
    WHICH = 1
    NEAR = 2
    WHEN = 3
    HOW_LONG = 4
    WALK = 5
    USUAL = 6


class _Stage(IntEnum):
    """The stages of a day, in order of time."""

    EARLY = 0
    BOARD = 1
    ALIGHT = 2
    WORK = 3
    MORNING = 4
    LUNCH = 5
    WORK_AGAIN = 6
    BOARD_BACK = 7
    ALIGHT_BACK = 8
    AFTERNOON = 9
    EVENING = 10
    LATE = 11

    def number_stream(self, use: _Use) -> int:
        """Return the stream number of a use in this stage."""
        return 64 + 8 * self + use


@dataclass(frozen=True, slots=True)
class Stays:
    """Stays at public places, ordered by person as requested, then by time.

    `row`: index into the requested people; `place`: index into the registry; `start`, `end`: seconds since the start of
    the town. All arrays have the same shape.
    """

    row: Ints
    place: Indices
    start: Ints
    end: Ints

    def where(self, kept: Mask) -> Stays:
        """Return only the stays that the mask selects."""
        return Stays(self.row[kept], self.place[kept], self.start[kept], self.end[kept])


class Routine:
    """The daily life of the town's people. `first_weekday` is the weekday of day 0 (Monday: 0)."""

    def __init__(self, people: People, atlas: Atlas, first_weekday: int) -> None:
        self.people = people
        self.atlas = atlas
        self._first_weekday = first_weekday

    def find_weekday(self, day: int) -> int:
        """Return the weekday of a day of the town (Monday: 0)."""
        return (self._first_weekday + day) % _WEEK

    def plan_day(self, persons: Ints, day: int) -> Stays:
        """Return the stays of these people on a day, as if nobody isolated at home."""
        plan = _DayPlan(self.people.take(persons), self.atlas, day, self.find_weekday(day))
        plan.run()
        return plan.list_stays()


@dataclass(frozen=True, slots=True)
class _Trips:
    """Planned trips: `rows` of the plan, and for each the place (-1: none), the planned second, and the stay (s)."""

    rows: Ints
    place: Indices
    planned: Ints
    stay: Ints


class _DayPlan:
    """The plan of one day, filled stage by stage. `_free`: the second of the day from which each person is free."""

    def __init__(self, people: People, atlas: Atlas, day: int, weekday: int) -> None:
        self._people = people
        self._atlas = atlas
        self._day = day
        self._weekday = weekday
        self._weekend = weekday >= _SATURDAY
        shape = (len(people.keys), len(_Stage))
        self._place = np.full(shape, -1, np.int32)
        self._start = np.zeros(shape, np.int32)
        self._end = np.zeros(shape, np.int32)
        self._free = np.zeros(shape[0], np.int64)
        self._situation = self._find_situations()
        joins = self._weekend & (draw_uniform(people.keys, day, _Stream.JOINS) < _JOINS_FAMILY)
        self._joint_keys = np.where(joins, people.family_keys, people.keys)

    def run(self) -> None:
        """Fill all stages of the day."""
        begin, leave = self._draw_working_hours()
        riders = np.flatnonzero((self._situation == Situation.AT_WORK) & (self._people.station >= 0))
        lunch = self._decide(_Stage.LUNCH, LUNCH)
        self._go(_Stage.EARLY, self._decide(_Stage.EARLY, EARLY))
        self._ride_in(riders, begin, leave)
        self._work(begin, leave, lunch)
        self._go(_Stage.MORNING, self._decide(_Stage.MORNING, MORNING))
        self._go(_Stage.LUNCH, lunch)
        self._work_on(leave, lunch)
        self._ride_home(riders)
        self._go(_Stage.AFTERNOON, self._decide(_Stage.AFTERNOON, AFTERNOON))
        self._go(_Stage.EVENING, self._decide(_Stage.EVENING, EVENING))
        self._go(_Stage.LATE, self._decide(_Stage.LATE, LATE))

    def list_stays(self) -> Stays:
        """Return the stays of the day."""
        stayed = self._place >= 0
        midnight = self._day * DAY_SECONDS
        start, end = self._start[stayed].astype(np.int64) + midnight, self._end[stayed].astype(np.int64) + midnight
        return Stays(np.nonzero(stayed)[0], self._place[stayed], start, end)

    def _find_situations(self) -> Ints:
        role, off = self._people.role, (self._people.off >> self._weekday) & 1
        worker = np.where(off == 1, Situation.FREE, Situation.AT_WORK)
        school_day = not self._weekend
        pupil = Situation.AT_SCHOOL if school_day else Situation.FREE
        at_home = Situation.AT_HOME if school_day else Situation.FREE
        small = Situation.SMALL if school_day else Situation.FREE
        return np.select(
            [role == Role.WORKER, role == Role.PUPIL, role == Role.AT_HOME], [worker, pupil, at_home], small
        )

    def _decide(self, stage: _Stage, outing: Outing) -> _Trips:
        """Decide who goes out in this stage, where and when. A household that goes together makes one decision."""
        everyone = self._joint_keys if outing.family else self._people.keys
        ladder = outing.ladder * (outing.festive if self._weekday in _FESTIVE else 1.0)
        draw = draw_uniform(everyone, self._day, stage.number_stream(_Use.WHETHER))
        rows = np.flatnonzero(draw < ladder[self._situation, -1])
        rungs = ladder[self._situation[rows]]
        kind = np.count_nonzero(draw[rows, None] >= rungs, axis=1)
        keys = everyone[rows]
        begin = (
            draw_uniform(keys, self._day, stage.number_stream(_Use.WHEN)) * (outing.latest - outing.earliest)
            + outing.earliest
        )
        stay = _MEDIAN_STAY[kind] * np.exp(
            _STAY_SPREAD[kind] * draw_normal(keys, self._day, stage.number_stream(_Use.HOW_LONG))
        )
        place = self._choose_places(stage, rows, keys, kind)
        return _Trips(rows, place, (begin * 3600).astype(np.int64), stay.astype(np.int64))

    def _choose_places(self, stage: _Stage, rows: Ints, keys: Keys, kind: Ints) -> Indices:
        which, near, usual = (
            draw_uniform(keys, self._day, stage.number_stream(use)) for use in (_Use.WHICH, _Use.NEAR, _Use.USUAL)
        )
        place = np.full(len(rows), -1, np.int32)
        for drawn in map(Kind, np.unique(kind).tolist()):
            chosen = np.flatnonzero(kind == drawn)
            away = (near[chosen] >= _NEAR_HOME).astype(np.float64)
            place[chosen] = self._atlas.choose(drawn, self._people.district[rows[chosen]], which[chosen], away)
        for usual_kind, favourite in ((Kind.SHOP, self._people.shop), (Kind.MARKET, self._people.market)):
            chosen = np.flatnonzero((kind == usual_kind) & (usual < _USUAL_PLACE))
            place[chosen] = favourite[rows[chosen]]
        return place

    def _draw_working_hours(self) -> tuple[Ints, Ints]:
        """Return the planned begin and end of work or school in seconds of the day; meaningless for other people."""
        people, day = self._people, self._day
        early = draw_normal(people.keys, day, _Stage.WORK.number_stream(_Use.WHEN))
        long = draw_normal(people.keys, day, _Stage.WORK.number_stream(_Use.HOW_LONG))
        shift = (
            draw_uniform(people.keys, LIFE, _Stream.SHIFT) * (_SHIFT_HOUR[1] - _SHIFT_HOUR[0])
            + _SHIFT_HOUR[0]
            + early / 10
        )
        kind = np.where(people.work >= 0, self._atlas.kinds[people.work], Kind.OFFICE)
        at_school, in_office = people.role == Role.PUPIL, kind == Kind.OFFICE
        office = _OFFICE_HOUR[0] + _OFFICE_HOUR[1] * early
        begin = np.select([at_school, in_office], [_SCHOOL_HOUR[0] + _SCHOOL_HOUR[1] * early, office], shift)
        hours = np.where(
            at_school, _SCHOOL_HOURS[0] + _SCHOOL_HOURS[1] * long, _SHIFT_HOURS[0] + _SHIFT_HOURS[1] * long
        )
        return (begin * 3600).astype(np.int64), ((begin + hours) * 3600).astype(np.int64)

    def _ride_in(self, riders: Ints, begin: Ints, leave: Ints) -> None:
        """Go to work by train: from a station of the home district to one near work, or out of town until evening."""
        people = self._people
        ride = self._draw_travel_seconds(riders, _Stage.ALIGHT, _RIDE)
        aboard = begin[riders] - ride - _STATION_TO_WORK
        self._go(_Stage.BOARD, _Trips(riders, people.station[riders], aboard, self._draw_wait(riders, _Stage.BOARD)))
        self._free[riders] = np.maximum(self._free[riders], aboard) + ride
        there = self._free[riders]
        self._go(
            _Stage.ALIGHT, _Trips(riders, people.work_station[riders], there, self._draw_wait(riders, _Stage.ALIGHT))
        )
        away = riders[people.work[riders] < 0]
        self._free[away] = leave[away]

    def _work(self, begin: Ints, leave: Ints, lunch: _Trips) -> None:
        """Stay at work or school until the end, or until lunch if the person goes out for lunch."""
        at = self._situation
        busy = np.flatnonzero((at == Situation.AT_WORK) | (at == Situation.AT_SCHOOL))
        until = leave.copy()
        until[lunch.rows] = np.minimum(until[lunch.rows], lunch.planned)
        start = np.maximum(begin[busy], self._free[busy])
        self._go(_Stage.WORK, _Trips(busy, self._people.work[busy], start, until[busy] - start))

    def _work_on(self, leave: Ints, lunch: _Trips) -> None:
        """Go back to work after lunch."""
        rows = lunch.rows[self._situation[lunch.rows] == Situation.AT_WORK]
        start = self._free[rows]
        self._go(_Stage.WORK_AGAIN, _Trips(rows, self._people.work[rows], start, leave[rows] - start))

    def _ride_home(self, riders: Ints) -> None:
        """Go home by train, through the stations of the morning in reverse order."""
        people = self._people
        now = self._free[riders]
        self._go(
            _Stage.BOARD_BACK,
            _Trips(riders, people.work_station[riders], now, self._draw_wait(riders, _Stage.BOARD_BACK)),
        )
        self._free[riders] += self._draw_travel_seconds(riders, _Stage.ALIGHT_BACK, _RIDE)
        now = self._free[riders]
        self._go(
            _Stage.ALIGHT_BACK, _Trips(riders, people.station[riders], now, self._draw_wait(riders, _Stage.ALIGHT_BACK))
        )

    def _go(self, stage: _Stage, trips: _Trips) -> None:
        """Make the possible trips: those to an existing, open place that are not delayed too much."""
        kind = self._atlas.kinds[trips.place]
        opens, closes = self._atlas.opens[self._weekday, kind], self._atlas.closes[self._weekday, kind]
        start = np.maximum(np.maximum(trips.planned, self._free[trips.rows]), opens)
        end = np.minimum(start + trips.stay, closes)
        possible = (trips.place >= 0) & (end - start >= _LEAST_STAY) & (start <= trips.planned + _PATIENCE)
        rows = trips.rows[possible]
        self._place[rows, stage] = trips.place[possible]
        self._start[rows, stage], self._end[rows, stage] = start[possible], end[possible]
        self._free[rows] = end[possible] + self._draw_travel_seconds(rows, stage, _WALK)

    def _draw_travel_seconds(self, rows: Ints, stage: _Stage, bounds: tuple[int, int]) -> Ints:
        """Return the travel times in seconds after a stage."""
        draw: Floats = draw_uniform(self._people.keys[rows], self._day, stage.number_stream(_Use.WALK))
        return (bounds[0] + draw * (bounds[1] - bounds[0])).astype(np.int64)

    def _draw_wait(self, rows: Ints, stage: _Stage) -> Ints:
        """Return the seconds spent in a station."""
        traits = TRAITS[Kind.STATION]
        z = draw_normal(self._people.keys[rows], self._day, stage.number_stream(_Use.HOW_LONG))
        return (60 * traits.stay_minutes * np.exp(traits.stay_spread * z)).astype(np.int64)
