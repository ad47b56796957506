"""An epidemic among the town's people. People meet if their routines take them to the same place at the same time.

The model is SEIR in discrete days. The dose of a susceptible person grows with the time spent near infectious people at
public places and at home. The probability of infection is 1 - exp(-dose) (Wells-Riley). The times of incubation and
report are drawn from published distributions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from monitor.tools.town.draws import LIFE, Floats, Indices, Ints, Mask, draw_normal, draw_uniform
from monitor.tools.town.places import TRAITS, WEEK, Kind
from monitor.tools.town.routine import DAY_SECONDS, Routine, Stays

NEVER: Final = 2**62
CHUNK: Final = 32_768
"""The number of people whose days are drawn at once: large enough for numpy, small enough for the processor's cache."""

_STREAM: Final = 512  # the first stream of the epidemic; routine and people use lower ones
_EDGES: Final = np.arange(49) * 1800
"""The half hours of a day, in seconds. Infectious presence is assumed to be uniform between two edges."""


@dataclass(frozen=True, slots=True)
class EpidemicParameters:
    """The parameters of an outbreak. The defaults are those of the first waves of COVID-19, rounded.

    Incubation: lognormal, median 5.1 days, log standard deviation 0.418 (Lauer et al., Annals of Internal Medicine
    2020). Infectious from two days before onset (He et al., Nature Medicine 2020). About a third of the cases have no
    symptoms and are less infectious (Oran and Topol, Annals of Internal Medicine 2021). The contact rates are set so
    that one case infects two to three others if nobody is immune and only symptoms and positive tests lead to
    isolation.
    """

    initially_infected_per_10_000: float = 30.0
    least_initially_infected: int = 10
    incubation_median_days: float = 5.1
    incubation_log_sd: float = 0.418
    infectious_days_before_onset: float = 2.0
    infectious_days_after_onset: float = 6.0
    asymptomatic_share: float = 0.3
    asymptomatic_relative_infectiousness: float = 0.5
    reported_share_symptomatic: float = 0.8
    reported_share_asymptomatic: float = 0.25
    onset_to_report_mean_days: float = 2.5
    stays_home_at_onset_share: float = 0.5
    isolation_days: float = 10.0
    infections_per_contact_hour: float = 0.012
    household_infections_per_day: float = 0.06
    reported_days: int = 14


class Outbreak:
    """The state of an epidemic: four instants per person, in seconds since the start of the town (NEVER if none).

    They are `infected_at`, `onset_at`, `reported_at`, and `home_from`: the person stays at home from then until
    `isolation_days` after onset. An infection takes effect at the end of its day, and onset is at least a day later, so
    an infection never changes the stays of its own day.
    """

    def __init__(self, routine: Routine, parameters: EpidemicParameters) -> None:
        self._routine = routine
        self._parameters = parameters
        self._keys = routine.people.keys
        number = len(self._keys)
        self.infected_at, self.onset_at, self.reported_at, self.home_from = (
            np.full(number, NEVER, np.int64) for _ in range(4)
        )
        self._infectiousness = np.zeros(number, np.float32)
        self._closeness: dict[int, Floats] = {}
        self._begin()

    def find_stays(self, persons: Ints, day: int) -> Stays:
        """Return the stays of these people on a day, except those that overlap their isolation at home."""
        stays = self._routine.plan_day(persons, day)
        person = persons[stays.row]
        back = self.onset_at[person] + int(self._parameters.isolation_days * DAY_SECONDS)
        return stays.where((stays.end <= self.home_from[person]) | (stays.start >= back))

    def find_reported(self, day: int) -> Ints:
        """Return the people reported on a day, in order of the time of report."""
        within = (self.reported_at >= day * DAY_SECONDS) & (self.reported_at < (day + 1) * DAY_SECONDS)
        reported = np.flatnonzero(within)
        return reported[np.argsort(self.reported_at[reported], kind="stable")]

    def spread(self, day: int) -> int:
        """Infect people through the contacts of a day, and return the number of new infections."""
        infectious = self._find_infectious(day)
        if not len(infectious):
            return 0
        at_home: Floats = np.bincount(
            self._routine.people.household[infectious],
            weights=self._infectiousness[infectious],
            minlength=int(self._routine.people.household[-1]) + 1,
        ).astype(np.float64)
        presence = _Presence(self._find_infectious_stays(infectious, day), self._routine.atlas.kinds.size, day)
        closeness = self._find_closeness(day)
        caught = [self._catch(chunk, day, presence, closeness, at_home) for chunk in self._split_people()]
        fresh = np.concatenate(caught)
        self._infect(fresh, np.full(len(fresh), (day + 1) * DAY_SECONDS, np.int64))
        return len(fresh)

    def _begin(self) -> None:
        """Infect the first people, at times in the week before the start."""
        rate = self._parameters.initially_infected_per_10_000 / 10_000
        number = min(len(self._keys), max(round(rate * len(self._keys)), self._parameters.least_initially_infected))
        first = np.sort(np.argsort(draw_uniform(self._keys, LIFE, _STREAM), kind="stable")[:number])
        ago = draw_uniform(self._keys[first], LIFE, _STREAM + 1) * 7 * DAY_SECONDS
        self._infect(first, -ago.astype(np.int64))

    def _infect(self, persons: Ints, at: Ints) -> None:
        p, keys = self._parameters, self._keys[persons]
        u = [draw_uniform(keys, LIFE, _STREAM + stream) for stream in range(2, 7)]
        incubation = p.incubation_median_days * np.exp(p.incubation_log_sd * draw_normal(keys, LIFE, _STREAM + 7))
        onset = at + (np.maximum(incubation, 1.0) * DAY_SECONDS).astype(np.int64)
        asymptomatic = u[0] < p.asymptomatic_share
        # The sum of two exponential times has a gamma distribution of shape 2.
        delay = -np.log((1.0 - u[1]) * (1.0 - u[2])) * p.onset_to_report_mean_days / 2
        report = np.maximum(_move_to_lab_hours(onset + (delay * DAY_SECONDS).astype(np.int64)), np.maximum(onset, 0))
        is_reported = u[3] < np.where(asymptomatic, p.reported_share_asymptomatic, p.reported_share_symptomatic)
        report = np.where(is_reported, report, NEVER)
        stays_home = ~asymptomatic & (u[4] < p.stays_home_at_onset_share)
        self.infected_at[persons], self.onset_at[persons], self.reported_at[persons] = at, onset, report
        self.home_from[persons] = np.where(stays_home, onset, report)
        self._infectiousness[persons] = np.where(asymptomatic, p.asymptomatic_relative_infectiousness, 1.0)

    def _find_infectious(self, day: int) -> Ints:
        noon = day * DAY_SECONDS + DAY_SECONDS // 2
        begin = self.onset_at - int(self._parameters.infectious_days_before_onset * DAY_SECONDS)
        end = self.onset_at + int(self._parameters.infectious_days_after_onset * DAY_SECONDS)
        return np.flatnonzero((self.infected_at < noon) & (begin <= noon) & (noon < end))

    def _find_infectious_stays(self, infectious: Ints, day: int) -> Iterator[tuple[Stays, Floats]]:
        for first in range(0, len(infectious), CHUNK):
            persons = infectious[first : first + CHUNK]
            stays = self.find_stays(persons, day)
            yield stays, self._infectiousness[persons[stays.row]].astype(np.float64)

    def _split_people(self) -> Iterator[Ints]:
        number = len(self._keys)
        return (np.arange(first, min(first + CHUNK, number)) for first in range(0, number, CHUNK))

    def _catch(self, chunk: Ints, day: int, presence: _Presence, closeness: Floats, at_home: Floats) -> Ints:
        """Return the people of a chunk who are infected on a day."""
        chunk = chunk[self.infected_at[chunk] == NEVER]
        stays = self.find_stays(chunk, day)
        stays = stays.where(presence.has_infectious(stays.place))
        hours = presence.compute_dose(stays) / 3600 * closeness[stays.place]
        near = self._parameters.infections_per_contact_hour * np.bincount(stays.row, hours, len(chunk))
        home = self._parameters.household_infections_per_day * at_home[self._routine.people.household[chunk]]
        caught: Ints = chunk[draw_uniform(self._keys[chunk], day, _STREAM + 8) < -np.expm1(-near - home)]
        return caught

    def _find_closeness(self, day: int) -> Floats:
        """Return, per place, the share of the people present that a visitor comes close to on such a weekday."""
        hours = WEEK[self._routine.find_weekday(day)]
        if hours not in self._closeness:
            self._closeness[hours] = self._compute_closeness(day)
        return self._closeness[hours]

    def _compute_closeness(self, day: int) -> Floats:
        atlas, weekday = self._routine.atlas, self._routine.find_weekday(day)
        seconds = np.zeros(len(atlas.kinds))
        for chunk in self._split_people():
            stays = self._routine.plan_day(chunk, day)
            seconds += np.bincount(stays.place, stays.end - stays.start, len(seconds))
        open_for = (atlas.closes - atlas.opens)[weekday, atlas.kinds]
        present = seconds / np.maximum(open_for, 1)
        circle = np.array([TRAITS[kind].circle for kind in Kind], np.float64)[atlas.kinds]
        share: Floats = circle / np.maximum(circle, present)
        return share


class _Presence:
    """The infectious person-seconds at each place, as a running sum over one day."""

    def __init__(self, stays: Iterator[tuple[Stays, Floats]], places: int, day: int) -> None:
        self._midnight = day * DAY_SECONDS
        parts = list(stays)
        hot = np.unique(np.concatenate([part.place for part, _ in parts]))
        self._row: Indices = np.full(places, -1, np.int32)
        self._row[hot] = np.arange(len(hot), dtype=np.int32)
        self._running = np.zeros((len(hot), len(_EDGES)))
        for part, weight in parts:
            begin, length = part.start - self._midnight, part.end - part.start
            seconds = np.clip(_EDGES[None, :] - begin[:, None], 0, length[:, None]) * weight[:, None]
            np.add.at(self._running, self._row[part.place], seconds)

    def has_infectious(self, place: Indices) -> Mask:
        """Return, for each of these places, whether an infectious person was there."""
        return self._row[place] >= 0

    def compute_dose(self, stays: Stays) -> Floats:
        """Return the infectious person-seconds during each stay. `has_infectious` must be true for the places."""
        row = self._row[stays.place]
        return self._sum_until(row, stays.end) - self._sum_until(row, stays.start)

    def _sum_until(self, row: Indices, instant: Ints) -> Floats:
        cell, within = np.divmod(instant - self._midnight, _EDGES[1])
        lower = self._running[row, cell]
        upper = self._running[row, np.minimum(cell + 1, len(_EDGES) - 1)]
        met: Floats = lower + (upper - lower) * within / _EDGES[1]
        return met


def _move_to_lab_hours(instants: Ints) -> Ints:
    """Move times of day into the opening hours of laboratories, 8:00 to 20:00, without changing their order."""
    days, second = np.divmod(instants, DAY_SECONDS)
    shifted: Ints = days * DAY_SECONDS + 8 * 3600 + second // 2
    return shifted
