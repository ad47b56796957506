"""Public places: their kinds, opening hours and popularity. Homes do not count as places and are never reported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from monitor.errors import UsageError
from monitor.tools.town.draws import LIFE, Floats, Indices, Ints, derive_keys, draw_normal

Hours = tuple[float, float]
CLOSED: Final[Hours] = (0.0, 0.0)
WEEK: Final = (0, 0, 0, 0, 0, 1, 2)
"""The index into `Traits.hours` per weekday (Monday: 0)."""

_PLACES: Final = 3  # the domain of draws
_CENTRE: Final = (40.0, -30.0)  # in the open ocean, so that it is no real town
_DISTRICT_SPREAD: Final = 0.03  # degrees between the centre and a station
_PLACE_SPREAD: Final = 0.006  # degrees between a station and a place of its district


class Kind(IntEnum):
    """The kind of a place. The first word of a location id names it (`station-central`, `shop-12`, `clinic`)."""

    STATION = 0
    SCHOOL = 1
    OFFICE = 2
    MARKET = 3
    SHOP = 4
    RESTAURANT = 5
    CAFE = 6
    CLINIC = 7
    LIBRARY = 8
    PARK = 9
    GYM = 10


@dataclass(frozen=True, slots=True)
class Traits:
    """The traits of a kind of place.

    `share`: its share of the places of a generated town. `hours`: opening hours from Monday to Friday, on Saturday and
    on Sunday. `stay_minutes`: the median stay; `stay_spread`: the standard deviation of a stay's logarithm. `circle`:
    the number of people that a visitor comes close to (half a class, a team, a queue). `skew`: the popularity of the
    r-th place is r^-skew.
    """

    share: float
    hours: tuple[Hours, Hours, Hours]
    stay_minutes: float
    stay_spread: float
    circle: float
    skew: float = 0.5


TRAITS: Final[dict[Kind, Traits]] = {
    Kind.STATION: Traits(0.01, ((5, 24), (5, 24), (5, 24)), 5, 0.4, 8),
    Kind.SCHOOL: Traits(0.02, ((7.5, 18), CLOSED, CLOSED), 420, 0.1, 12, 0.0),
    Kind.OFFICE: Traits(0.17, ((7, 21), CLOSED, CLOSED), 480, 0.1, 10, 0.4),
    Kind.MARKET: Traits(0.02, ((7, 22), (7, 22), (9, 18)), 25, 0.5, 6, 0.3),
    Kind.SHOP: Traits(0.45, ((8.5, 20), (9, 19), (11, 17)), 14, 0.6, 4, 0.45),
    Kind.RESTAURANT: Traits(0.13, ((11, 23), (11, 23.75), (11, 22)), 65, 0.4, 8, 0.4),
    Kind.CAFE: Traits(0.07, ((6.5, 20), (7.5, 20), (8, 19)), 35, 0.5, 6, 0.4),
    Kind.CLINIC: Traits(0.015, ((8, 19), (8, 13), CLOSED), 45, 0.5, 8, 0.2),
    Kind.LIBRARY: Traits(0.0075, ((9, 20), (10, 17), CLOSED), 60, 0.6, 6, 0.2),
    Kind.PARK: Traits(0.06, ((0, 24), (0, 24), (0, 24)), 45, 0.6, 4, 0.4),
    Kind.GYM: Traits(0.03, ((6, 22.5), (8, 20), (9, 18)), 70, 0.3, 8, 0.3),
}

_BY_PREFIX: Final = {kind.name.lower(): kind for kind in Kind}
_PREFIX: Final = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True)
class Place:
    """A public place of the registry; latitude and longitude in degrees."""

    location_id: str
    name: str
    kind: Kind
    latitude: float = 0.0
    longitude: float = 0.0


def find_kind(location_id: str) -> Kind:
    """Return the kind that the first word of an id names, or a shop if it names none."""
    word = _PREFIX.match(location_id)
    return _BY_PREFIX.get(word.group(), Kind.SHOP) if word else Kind.SHOP


def make_places_from_ids(location_ids: Iterable[str]) -> tuple[Place, ...]:
    """Return places with these ids, in the same order. The ids determine their kinds."""
    return tuple(Place(location_id, location_id, find_kind(location_id)) for location_id in location_ids)


def make_places(count: int, seed: int) -> tuple[Place, ...]:
    """Return `count` public places of a town in a realistic mix of kinds. With 11 places or more, every kind occurs.

    Raises:
        UsageError: count is below 1.
    """
    if count < 1:
        raise UsageError(f"a town of {count} places: expected at least 1")
    counts = _count_kinds(count)
    centres = _scatter(seed, 0, counts[Kind.STATION], _DISTRICT_SPREAD) + np.array(_CENTRE)
    town = []
    for kind, number in counts.items():
        offsets = _scatter(seed, 1 + kind, number, 0.0 if kind is Kind.STATION else _PLACE_SPREAD)
        coordinates = centres[assign_district(np.arange(number), len(centres))] + offsets
        word = kind.name.lower()
        for rank, (latitude, longitude) in enumerate(coordinates.tolist(), start=1):
            name = f"{word.capitalize()} {rank}"
            town.append(Place(f"{word}-{rank}", name, kind, round(latitude, 6), round(longitude, 6)))
    return tuple(town)


def assign_district(rank: Ints, districts: int) -> Indices:
    """Return the district of the r-th place of a kind. Places are assigned to the districts in turn."""
    return (rank % districts).astype(np.int32)


def _count_kinds(count: int) -> dict[Kind, int]:
    """Return the number of places of each kind: first one per kind, then by share. Shops get the remainder."""
    first = (Kind.STATION, Kind.SHOP, Kind.OFFICE, Kind.SCHOOL, Kind.MARKET, Kind.RESTAURANT)
    ordered = (*first, *(kind for kind in Kind if kind not in first))
    counts = {kind: int(ordered.index(kind) < count) for kind in Kind}
    rest = count - sum(counts.values())
    for kind in Kind:
        counts[kind] += int(rest * TRAITS[kind].share)
    counts[Kind.SHOP] += count - sum(counts.values())
    return counts


def _scatter(seed: int, domain: int, number: int, spread: float) -> Floats:
    keys = derive_keys(seed, _PLACES + 16 * (domain + 1), np.arange(number))
    return np.stack([draw_normal(keys, LIFE, axis) * spread for axis in (0, 1)], axis=1)


@dataclass(frozen=True, slots=True)
class _Group:
    """The places of one kind in order of district: indices, cumulative popularity, and the bounds of each district."""

    indices: Indices
    running: Floats
    lower: Floats
    upper: Floats


class Atlas:
    """All places as arrays, for choosing in bulk. There is one district around each station."""

    def __init__(self, places: Sequence[Place]) -> None:
        self.kinds = np.array([place.kind for place in places], np.int8)
        self.districts = max(1, int(np.count_nonzero(self.kinds == Kind.STATION)))
        self.place_district = np.zeros(len(places), np.int32)
        self._groups = {kind: self._group(kind) for kind in Kind}
        hours = np.array([[TRAITS[kind].hours[day] for kind in Kind] for day in WEEK])
        self.opens: Indices = (hours[:, :, 0] * 3600).astype(np.int32)
        """The second of the day at which places open, by weekday (Monday: 0) and kind, shape (7, kinds)."""
        self.closes: Indices = (hours[:, :, 1] * 3600).astype(np.int32)
        """The second of the day at which places close, in the same shape; equal to `opens` if they stay closed."""

    def choose(self, kind: Kind, district: Indices, which: Floats, away: Floats | float) -> Indices:
        """Choose a place of a kind for each person, by popularity; -1 if the town has none. Same shape as `which`.

        Args:
            kind: the kind of place.
            district: the district in which each person lives.
            which: a uniform draw that decides the place.
            away: if below 1, choose within the person's district if it has such a place, else in the whole town.
        """
        group = self._groups[kind]
        if not len(group.indices):
            return np.full(len(which), -1, np.int32)
        lower, upper = group.lower[district], group.upper[district]
        local = (away < 1.0) & (upper > lower)
        target = np.where(local, lower + which * (upper - lower), which * group.running[-1])
        rank = np.searchsorted(group.running, target, side="right")
        return group.indices[np.minimum(rank, len(group.indices) - 1)]

    def _group(self, kind: Kind) -> _Group:
        members = np.flatnonzero(self.kinds == kind).astype(np.int32)
        rank = np.arange(len(members))
        district = assign_district(rank, self.districts)
        self.place_district[members] = district
        order = np.argsort(district, kind="stable")
        running = np.cumsum((rank[order] + 1.0) ** -TRAITS[kind].skew)
        edges = np.concatenate(([0.0], running))
        bounds = np.arange(self.districts)
        lower = edges[np.searchsorted(district[order], bounds, side="left")]
        upper = edges[np.searchsorted(district[order], bounds, side="right")]
        return _Group(members[order], running, lower, upper)
