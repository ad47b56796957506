"""The people of the town: their households, roles, places of work or school, and commutes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.tools.town.draws import LIFE, Floats, Indices, Ints, Keys, Mask, derive_keys, draw_uniform
from monitor.tools.town.places import Atlas, Kind

Bytes = NDArray[np.int8]

# Domains of draws (draws.keys_of).
_PEOPLE: Final = 1
_HOUSEHOLDS: Final = 2

_HOUSEHOLD_SIZES: Final = (0.36, 0.33, 0.13, 0.12, 0.04, 0.02)  # 1, 2, … 6 people
_RETIRED_HOUSEHOLDS: Final = 0.28  # of the households with at most two people
_EMPLOYED: Final = 0.8  # of the adults who are not retired
_INFANTS: Final = 0.3  # of the children
_WORK: Final = {
    Kind.OFFICE: 0.60,
    Kind.SHOP: 0.14,
    Kind.MARKET: 0.04,
    Kind.RESTAURANT: 0.07,
    Kind.CAFE: 0.03,
    Kind.SCHOOL: 0.06,
    Kind.CLINIC: 0.04,
    Kind.LIBRARY: 0.01,
    Kind.GYM: 0.01,
}
_WORKS_NEAR_HOME: Final = 0.45
_WORKS_OUT_OF_TOWN: Final = 0.20
_TAKES_TRAIN: Final = 0.7  # of the workers who work in another district
_WEEKEND: Final = 0b1100000
_OFF_DAYS: Final = (0b0000011, 0b0000110, 0b0001100, 0b1000001)  # two days off for people who work at weekends


class Role(IntEnum):
    """A person's occupation on weekdays."""

    WORKER = 0
    PUPIL = 1
    AT_HOME = 2
    INFANT = 3


@dataclass(frozen=True, slots=True)
class People:
    """The people as arrays with one entry per person, about 50 bytes per person in total.

    `keys`, `family_keys`: the keys of the person's and of the household's random draws. Places are indices into the
    registry; -1 means none. `off`: one bit per weekday (Monday: bit 0), set if the person does not work on that day.
    """

    keys: Keys
    family_keys: Keys
    household: Indices
    role: Bytes
    district: Indices
    work: Indices
    off: Bytes
    station: Indices
    work_station: Indices
    shop: Indices
    market: Indices

    def take(self, persons: Ints) -> People:
        """Return only these people, in this order."""
        return People(*(getattr(self, field.name)[persons] for field in fields(self)))


def populate(seed: int, people: int, atlas: Atlas) -> People:
    """Create `people` people, in households around the town's stations."""
    keys = derive_keys(seed, _PEOPLE, np.arange(people))
    household, member, size = _form_households(seed, people)
    family_keys = derive_keys(seed, _HOUSEHOLDS, household)
    weights = np.cumsum((np.arange(atlas.districts) + 1.0) ** -0.5)
    district = np.searchsorted(weights, draw_uniform(family_keys, LIFE, 1) * weights[-1], side="right").astype(np.int32)
    role = _draw_roles(keys, family_keys, member, size)
    work = _draw_workplaces(keys, role, district, atlas)
    station = atlas.choose(Kind.STATION, district, draw_uniform(keys, LIFE, 2), 0.0)
    by_train, work_station = _plan_commutes(keys, role, district, work, atlas)
    return People(
        keys=keys,
        family_keys=family_keys,
        household=household.astype(np.int32),
        role=role,
        district=district,
        work=work,
        off=_draw_days_off(keys, work, atlas),
        station=np.where(by_train, station, -1).astype(np.int32),
        work_station=work_station,
        shop=atlas.choose(Kind.SHOP, district, draw_uniform(keys, LIFE, 3), 0.0),
        market=atlas.choose(Kind.MARKET, district, draw_uniform(keys, LIFE, 4), 0.0),
    )


def _form_households(seed: int, people: int) -> tuple[Ints, Ints, Ints]:
    """Return, for each person, the household, the person's number in it (0, 1, …), and the household's size."""
    draws = draw_uniform(derive_keys(seed, _HOUSEHOLDS, np.arange(people)), LIFE, 0)
    sizes = 1 + np.searchsorted(np.cumsum(_HOUSEHOLD_SIZES)[:-1], draws, side="right")
    ends = np.cumsum(sizes)
    number = int(np.searchsorted(ends, people)) + 1
    household = np.repeat(np.arange(number), sizes[:number])[:people]
    member = np.arange(people) - (ends - sizes)[household]
    return household, member, sizes[household]


def _draw_roles(keys: Keys, family_keys: Keys, member: Ints, size: Ints) -> Bytes:
    adult = member < 2  # noqa: PLR2004 - a household's first two
    retired = (size <= 2) & (draw_uniform(family_keys, LIFE, 2) < _RETIRED_HOUSEHOLDS)  # noqa: PLR2004 - couples and singles
    works = draw_uniform(keys, LIFE, 5) < _EMPLOYED
    infant = draw_uniform(keys, LIFE, 6) < _INFANTS
    grown = np.where(works & ~retired, Role.WORKER, Role.AT_HOME)
    return np.where(adult, grown, np.where(infant, Role.INFANT, Role.PUPIL)).astype(np.int8)


def _draw_workplaces(keys: Keys, role: Bytes, district: Indices, atlas: Atlas) -> Indices:
    """Return each person's place of work or school. It is -1 for people without one, or with work out of town."""
    work = np.full(len(keys), -1, np.int32)
    kind_draw, which, near = (draw_uniform(keys, LIFE, stream) for stream in (7, 8, 9))
    pupils = role == Role.PUPIL
    work[pupils] = atlas.choose(Kind.SCHOOL, district[pupils], which[pupils], 0.0)
    share_out = _WORKS_OUT_OF_TOWN * (2 if atlas.districts == 1 else 1)
    workers = (role == Role.WORKER) & (draw_uniform(keys, LIFE, 10) >= share_out)
    bounds = np.concatenate(([0.0], np.cumsum(list(_WORK.values()))))
    for kind, lower, upper in zip(_WORK, bounds, bounds[1:], strict=False):
        chosen = workers & (kind_draw >= lower) & (kind_draw < upper)
        away = np.where(near[chosen] < _WORKS_NEAR_HOME, 0.0, 1.0)
        work[chosen] = atlas.choose(kind, district[chosen], which[chosen], away)
    return work


def _plan_commutes(keys: Keys, role: Bytes, district: Indices, work: Indices, atlas: Atlas) -> tuple[Mask, Indices]:
    """Return a mask of the people who commute by train, and the station near their work (-1 if out of town)."""
    worker = role == Role.WORKER
    work_district = np.where(work >= 0, atlas.place_district[work], -1)
    rides: Floats = draw_uniform(keys, LIFE, 11)
    by_train = worker & (work_district != district) & ((work < 0) | (rides < _TAKES_TRAIN))
    arrives = by_train & (work_district >= 0)
    station = np.full(len(keys), -1, np.int32)
    station[arrives] = atlas.choose(Kind.STATION, work_district[arrives], rides[arrives], 0.0)
    return by_train, station


def _draw_days_off(keys: Keys, work: Indices, atlas: Atlas) -> Bytes:
    """Return the days off: the weekend if the workplace is closed on Sundays, else two other days of the week."""
    closed = atlas.closes[6] == 0
    choice = (draw_uniform(keys, LIFE, 12) * len(_OFF_DAYS)).astype(np.int64)
    weekend = (work < 0) | closed[atlas.kinds[work]]
    return np.where(weekend, _WEEKEND, np.array(_OFF_DAYS)[choice]).astype(np.int8)
