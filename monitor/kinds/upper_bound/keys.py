"""The keys of a monitor of kind `upper_bound`, their conditions, and what it charges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from monitor.errors import Problem
from monitor.kinds.base.keys import ValidKeys
from monitor.kinds.base.places.keys import PlacesMonitor
from monitor.kinds.locations import Registry
from monitor.kinds.timing import Timing
from monitor.kinds.upper_bound.monitor import UpperBound
from monitor.privacy.payment_of_one_person import Charge
from monitor.privacy.upper_bound import BucketRule, charge_upper_bound
from monitor.time.instants import format_duration
from monitor.values.single_values import PositiveDuration
from monitor.values.whole_slots import report_not_whole, report_too_short


class UpperBoundMonitor(PlacesMonitor):
    """Publishes a certain upper bound of the people at each listed location within the window, for each bucket."""

    kind: Literal["upper_bound"] = Field(description="the kind of the monitor")
    bucket: PositiveDuration = Field(
        description="the time between two numbers, a duration such as 1d that divides the window"
    )

    @property
    def buckets(self) -> int:
        """B, the number of buckets of a window."""
        return self.window // self.bucket

    def find_problems(self, keys: ValidKeys) -> Iterator[Problem]:
        """Yield a problem for each broken condition of the locations, their shares of ε, the window and the bucket."""
        if keys.has("locations"):
            yield from self.check_locations(keys.key)
        if keys.slot is None:
            return
        found: list[Problem] = []
        if keys.has("window"):
            found += self.check_window(keys.key, keys.slot)
        if keys.has("bucket"):
            found += self._check_bucket(keys.key, keys.slot)
        if keys.has("window", "bucket") and not found:
            found += self._check_division(keys.key, keys.slot)
            if keys.has("locations", "epsilon") and not found:
                found += self.check_shares(keys.key, self.buckets)
        yield from found

    def _check_bucket(self, key: str, slot: int) -> Iterator[Problem]:
        if self.bucket < slot:
            yield report_too_short(f"{key}.bucket", self.bucket, slot)
        elif self.bucket % slot:
            yield report_not_whole(f"{key}.bucket", self.bucket, slot)

    def _check_division(self, key: str, slot: int) -> Iterator[Problem]:
        if self.window % self.bucket == 0:
            return
        slots, bucket = self.window // slot, self.bucket // slot
        below = max(length for length in range(1, min(bucket, slots) + 1) if slots % length == 0)
        above = min(length for length in range(min(bucket, slots), slots + 1) if slots % length == 0)
        near = sorted({below, above})
        yield Problem(
            f"{key}.bucket",
            format_duration(self.bucket),
            f"a duration that divides the window of {format_duration(self.window)}",
            f"Set it to {' or '.join(format_duration(length * slot) for length in near)}.",
        )

    def derive(self, registry: Registry, timing: Timing) -> UpperBound:
        """Return the parameters: the watched rows in registry order, and the rule of each."""
        shares = self.compute_shares()
        rows = sorted(registry.rows[location] for location in shares)
        lengths = self.bucket // timing.slot, self.window // timing.slot, timing.max_lead
        rules = {epsilon: BucketRule(epsilon, *lengths) for epsilon in set(shares.values())}
        return UpperBound(self.name, tuple(rows), tuple(rules[shares[registry.ids[row]]] for row in rows))

    def charge(self, timing: Timing) -> Charge:
        """Return the charge of the most numbers that may count the visits of a period."""
        rule = BucketRule(self.epsilon, self.bucket // timing.slot, self.window // timing.slot, timing.max_lead)
        return charge_upper_bound(self.name, self.epsilon, rule, timing.period_slots)
