"""The keys of a monitor of kind `over_time`, their conditions, and what it charges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from monitor.errors import Problem
from monitor.kinds.configured_monitor import ConfiguredMonitor, ValidKeys
from monitor.kinds.locations import Registry
from monitor.kinds.over_time.monitor import OverTime
from monitor.kinds.timing import Timing
from monitor.privacy.epsilon import SMALLEST, format_epsilon
from monitor.privacy.over_time import OverTimeRule
from monitor.privacy.payments import Charge, charge_over_time
from monitor.values.single_values import Epsilon, LocationId, PositiveDuration, WholeNumber
from monitor.values.whole_slots import report_not_whole, report_too_short


def _tag_locations(locations: object) -> str:
    return "weights" if isinstance(locations, dict) else "list"


Locations = Annotated[
    Annotated[tuple[LocationId, ...], Tag("list")] | Annotated[dict[LocationId, WholeNumber], Tag("weights")],
    Discriminator(_tag_locations),
]


class OverTimeMonitor(ConfiguredMonitor):
    """Algorithm 3: counts the people at each listed location within the window, at each tick."""

    kind: Literal["over_time"] = Field(description="the kind of the monitor")
    locations: Locations = Field(description="a list of location ids, or a mapping from id to a public weight")
    epsilon: Epsilon = Field(description="the ε that the monitor's locations share")
    threshold: WholeNumber = Field(description="the number of people below which a location is called safe")
    window: PositiveDuration = Field(description="how far back visits count, a duration such as 14d")
    answers_per_window: WholeNumber = Field(default=1, description="the maximum number of noisy answers per window")

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

    def find_problems(self, keys: ValidKeys) -> Iterator[Problem]:
        """Yield a problem for each broken condition of the locations, their shares of ε, and the window."""
        if keys.has("locations"):
            yield from self._check_locations(keys.key)
        if keys.has("locations", "epsilon", "answers_per_window"):
            yield from self._check_shares(keys.key)
        if keys.has("window") and keys.slot is not None:
            yield from self._check_window(keys.key, keys.slot)

    def _check_locations(self, key: str) -> Iterator[Problem]:
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

    def _check_shares(self, key: str) -> Iterator[Problem]:
        smallest = min(self.compute_shares().values(), default=self.epsilon) / self.answers_per_window
        if smallest < SMALLEST:
            yield Problem(
                f"{key}.epsilon",
                format_epsilon(self.epsilon),
                f"at least {format_epsilon(SMALLEST)} for each answer of each location, so that noise can be drawn",
                "Raise it, or divide it among fewer locations or answers.",
            )

    def _check_window(self, key: str, slot: int) -> Iterator[Problem]:
        if self.window < slot:
            yield report_too_short(f"{key}.window", self.window, slot)
        elif self.window % slot:
            yield report_not_whole(f"{key}.window", self.window, slot)

    def derive(self, registry: Registry, timing: Timing) -> OverTime:
        """Return the parameters: the watched rows in registry order, and the rule of each."""
        shares = self.compute_shares()
        rows = sorted(registry.rows[location] for location in shares)
        rules = {
            epsilon: OverTimeRule(
                epsilon=epsilon,
                answers=self.answers_per_window,
                threshold=self.threshold,
                window=self.window // timing.slot,
                max_lead=timing.max_lead,
            )
            for epsilon in set(shares.values())
        }
        return OverTime(self.name, tuple(rows), tuple(rules[shares[registry.ids[row]]] for row in rows))

    def charge(self, timing: Timing) -> Charge:
        """Return the charge of the most noisy answers that may count the visits of a period."""
        window, answers = self.window // timing.slot, self.answers_per_window
        return charge_over_time(self.name, self.epsilon, answers, window, timing.max_lead, timing.period_slots)
