"""The keys and charges that all monitors of listed places have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Annotated

from pydantic import Discriminator, Field, Tag

from monitor.errors import Problem
from monitor.kinds.base.keys_and_parameters import ConfiguredMonitor
from monitor.privacy.epsilon import SMALLEST, format_epsilon
from monitor.values.single_values import Epsilon, LocationId, PositiveDuration, WholeNumber
from monitor.values.whole_slots import report_not_whole, report_too_short


def group_by_share(shares: Mapping[str, Fraction]) -> dict[str, tuple[str, ...]]:
    """Return the sorted locations by their ε_l as text, in the order of the texts, for an owner record."""
    grouped: dict[str, list[str]] = {}
    for location, epsilon in shares.items():
        grouped.setdefault(format_epsilon(epsilon), []).append(location)
    return {epsilon: tuple(sorted(places)) for epsilon, places in sorted(grouped.items())}


def _tag_locations(locations: object) -> str:
    return "weights" if isinstance(locations, dict) else "list"


Locations = Annotated[
    Annotated[tuple[LocationId, ...], Tag("list")] | Annotated[dict[LocationId, WholeNumber], Tag("weights")],
    Discriminator(_tag_locations),
]


class PlacesMonitor(ConfiguredMonitor):
    """The common fields of the monitors that count the people at listed locations within a window."""

    locations: Locations = Field(description="a list of location ids, or a mapping from id to a public weight")
    epsilon: Epsilon = Field(description="the ε that the monitor's locations share")
    window: PositiveDuration = Field(description="how far back visits count, a duration such as 14d")

    @property
    def location_ids(self) -> tuple[str, ...]:
        """The ids of the watched locations, in the order written."""
        return tuple(self.locations)

    @property
    def longest_window(self) -> int:
        """The window."""
        return self.window

    def compute_shares(self) -> dict[str, Fraction]:
        """Return each location's share ε_l of the monitor's ε: equal shares, or in proportion to the public weights."""
        weights = self.locations if isinstance(self.locations, dict) else dict.fromkeys(self.locations, 1)
        total = sum(weights.values())
        return {location: self.epsilon * weight / total for location, weight in weights.items()}

    def check_locations(self, key: str) -> Iterator[Problem]:
        """Yield a problem if no location is listed, and one for each that is listed twice."""
        ids = self.location_ids
        if not ids:
            yield Problem(f"{key}.locations", "empty", "at least one location", "Name one, or remove the monitor.")
        for location in (name for name, times in Counter(ids).items() if times > 1):
            yield Problem(
                f"{key}.locations",
                repr(location),
                "each location once",
                "Remove the duplicate, or give the location a larger weight.",
            )

    def check_shares(self, key: str, answers: int) -> Iterator[Problem]:
        """Yield a problem if noise cannot be drawn at the ε of one of `answers` answers of a location."""
        smallest = min(self.compute_shares().values(), default=self.epsilon) / answers
        if smallest < SMALLEST:
            yield Problem(
                f"{key}.epsilon",
                format_epsilon(self.epsilon),
                f"at least {format_epsilon(SMALLEST)} for each answer of each location, so that noise can be drawn",
                "Raise it, or divide it among fewer locations or answers.",
            )

    def check_window(self, key: str, slot: int) -> Iterator[Problem]:
        """Yield a problem if the window is no whole number of slots."""
        if self.window < slot:
            yield report_too_short(f"{key}.window", self.window, slot)
        elif self.window % slot:
            yield report_not_whole(f"{key}.window", self.window, slot)
