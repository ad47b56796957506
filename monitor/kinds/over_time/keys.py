"""The keys of a monitor of kind `over_time`, their conditions, and what it charges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from monitor.errors import Problem
from monitor.kinds.base.keys import ValidKeys
from monitor.kinds.base.places.keys import PlacesMonitor
from monitor.kinds.locations import Registry
from monitor.kinds.over_time.monitor import OverTime
from monitor.kinds.timing import Timing
from monitor.privacy.over_time import OverTimeRule
from monitor.privacy.payment_of_one_person import Charge, charge_over_time
from monitor.values.single_values import WholeNumber


class OverTimeMonitor(PlacesMonitor):
    """Algorithm 3: counts the people at each listed location within the window, at each tick."""

    kind: Literal["over_time"] = Field(description="the kind of the monitor")
    threshold: WholeNumber = Field(description="the number of people below which a location is called safe")
    answers_per_window: WholeNumber = Field(default=1, description="the maximum number of noisy answers per window")

    def find_problems(self, keys: ValidKeys) -> Iterator[Problem]:
        """Yield a problem for each broken condition of the locations, their shares of ε, and the window."""
        if keys.has("locations"):
            yield from self.check_locations(keys.key)
        if keys.has("locations", "epsilon", "answers_per_window"):
            yield from self.check_shares(keys.key, self.answers_per_window)
        if keys.has("window") and keys.slot is not None:
            yield from self.check_window(keys.key, keys.slot)

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
