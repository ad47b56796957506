"""Outings besides work and school: the probability of each kind of place, by time of day and situation.

With these rates, an adult has two to three stays at public places per day, as in travel surveys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Final

import numpy as np

from monitor.tools.town.draws import Floats
from monitor.tools.town.places import Kind


class Situation(IntEnum):
    """The kind of day that a person has. SMALL is an infant's weekday."""

    AT_WORK = 0
    AT_SCHOOL = 1
    AT_HOME = 2
    FREE = 3
    SMALL = 4


@dataclass(frozen=True)
class Outing:
    """A part of the day in which a person may go out once.

    `earliest`, `latest`: the hours of the day between which the outing is planned to start. `family`: on weekends a
    household goes together. `festive`: a factor for the chances on Fridays and Saturdays.
    """

    earliest: float
    latest: float
    chances: Mapping[Situation, Mapping[Kind, float]]
    family: bool = False
    festive: float = 1.0

    @cached_property
    def ladder(self) -> Floats:
        """Cumulative chances by situation and kind, shape (situations, kinds). A draw below the last is an outing."""
        chance = np.zeros((len(Situation), len(Kind)))
        for situation, kinds in self.chances.items():
            for kind, value in kinds.items():
                chance[situation, kind] = value
        return np.cumsum(chance, axis=1)


EARLY: Final = Outing(6.25, 7.25, {Situation.AT_WORK: {Kind.GYM: 0.02}, Situation.AT_HOME: {Kind.PARK: 0.05}})
MORNING: Final = Outing(
    9.25,
    11.5,
    {
        Situation.AT_HOME: {
            Kind.MARKET: 0.12,
            Kind.SHOP: 0.12,
            Kind.CLINIC: 0.02,
            Kind.LIBRARY: 0.02,
            Kind.PARK: 0.10,
            Kind.CAFE: 0.04,
            Kind.GYM: 0.02,
        },
        Situation.FREE: {Kind.MARKET: 0.12, Kind.SHOP: 0.12, Kind.PARK: 0.10, Kind.GYM: 0.04, Kind.CAFE: 0.05},
        Situation.SMALL: {Kind.PARK: 0.05},
    },
    family=True,
)
LUNCH: Final = Outing(
    12.0,
    12.75,
    {
        Situation.AT_WORK: {Kind.RESTAURANT: 0.08, Kind.CAFE: 0.08, Kind.SHOP: 0.04},
        Situation.AT_HOME: {Kind.RESTAURANT: 0.03, Kind.CAFE: 0.03},
        Situation.FREE: {Kind.RESTAURANT: 0.06, Kind.CAFE: 0.04},
    },
    family=True,
)
AFTERNOON: Final = Outing(
    14.0,
    16.5,
    {
        Situation.AT_SCHOOL: {Kind.PARK: 0.10, Kind.LIBRARY: 0.02, Kind.SHOP: 0.04, Kind.GYM: 0.02},
        Situation.AT_HOME: {Kind.SHOP: 0.08, Kind.PARK: 0.08, Kind.LIBRARY: 0.01, Kind.CAFE: 0.04, Kind.CLINIC: 0.015},
        Situation.FREE: {
            Kind.STATION: 0.06,
            Kind.SHOP: 0.12,
            Kind.PARK: 0.15,
            Kind.MARKET: 0.08,
            Kind.CAFE: 0.06,
            Kind.LIBRARY: 0.02,
        },
        Situation.SMALL: {Kind.PARK: 0.08},
    },
    family=True,
)
EVENING: Final = Outing(
    17.5,
    19.0,
    {
        Situation.AT_WORK: {Kind.MARKET: 0.09, Kind.SHOP: 0.07, Kind.GYM: 0.04, Kind.CLINIC: 0.01},
        Situation.AT_SCHOOL: {Kind.MARKET: 0.03, Kind.GYM: 0.02},
        Situation.AT_HOME: {Kind.MARKET: 0.05, Kind.RESTAURANT: 0.03},
        Situation.FREE: {Kind.RESTAURANT: 0.08, Kind.MARKET: 0.05},
    },
)
LATE: Final = Outing(
    19.25,
    20.75,
    {
        Situation.AT_WORK: {Kind.RESTAURANT: 0.07, Kind.GYM: 0.02},
        Situation.AT_HOME: {Kind.RESTAURANT: 0.03},
        Situation.FREE: {Kind.RESTAURANT: 0.08},
    },
    festive=2.0,
)
