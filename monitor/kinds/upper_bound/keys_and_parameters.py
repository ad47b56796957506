"""A monitor of kind `upper_bound`: its keys, its parameters, and the sizes of its records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final, Literal

from pydantic import Field

from monitor.errors import Problem
from monitor.kinds.answer_state import SignedMark
from monitor.kinds.base.keys_and_parameters import Monitor, ValidKeys
from monitor.kinds.base.monitor_of_places import PlacesMonitor, group_by_share
from monitor.kinds.facts_and_questions import NeededFacts
from monitor.kinds.locations import Registry
from monitor.kinds.record_sizes import TICK_BYTES
from monitor.kinds.timing import Timing
from monitor.privacy.epsilon import format_epsilon
from monitor.privacy.over_time import Mark
from monitor.privacy.payment_of_one_person import Charge
from monitor.privacy.upper_bound import BucketRule, charge_upper_bound
from monitor.records.charges_record import PlaceCharges
from monitor.time.instants import format_duration
from monitor.values.single_values import PositiveDuration
from monitor.values.whole_slots import report_not_whole, report_too_short

LARGEST_OF_ONE_PLACE: Final = 1_000_000
"""The maximum bytes of a place's record. Brokers accept this size by default."""

_PLACE_OVERHEAD: Final = 4_096  # the id of the place occurs up to four times, with escaped quotes
_NOISY_COUNT: Final = 20
_NUMBER: Final = (
    len('{"tick":,"noisy_count":,"epsilon":"","until":,"bucket":,"window":},') + 4 * TICK_BYTES + _NOISY_COUNT
)


@dataclass(frozen=True)
class UpperBound(Monitor):
    """A monitor of kind `upper_bound`: the watched rows in registry order, and the rule of each row."""

    kind: ClassVar = "upper_bound"
    scope: ClassVar = "place"
    statuses: ClassVar = ("complete", "unknown")
    name: str
    rows: tuple[int, ...]
    rules: tuple[BucketRule, ...]

    @property
    def rule(self) -> BucketRule:
        """The rule of the first location. The bucket, W and F are the same for all locations."""
        return self.rules[0]

    @cached_property
    def _rule_of_row(self) -> Mapping[int, BucketRule]:
        return dict(zip(self.rows, self.rules, strict=True))

    @property
    def needed(self) -> NeededFacts:
        """The people at the watched rows, by the bucket in which they were reported."""
        return NeededFacts(rows=self.rows, window=self.rule.window, bucket=self.rule.bucket)

    def find_first_known(self, complete_from: int) -> int:
        """Return the first tick with a bound, if all of its buckets have to be drawn from these facts."""
        rule = self.rule
        first = complete_from + rule.window - 1
        first += -(first + 1) % rule.bucket  # the first bucket whose window is complete
        return first + (rule.buckets - 1) * rule.bucket

    def list_deciding(self) -> list[object]:
        """Return the name, and the rule of each row."""
        return [
            self.name,
            [
                [int(row), str(rule.epsilon), rule.bucket, rule.window, rule.max_lead]
                for row, rule in zip(self.rows, self.rules, strict=True)
            ],
        ]

    def measure_largest(self, registry: Registry) -> int:
        """Return the maximum bytes of a place's record under the present rules."""
        del registry
        return max(_measure_place(rule, rule.buckets) for rule in set(self.rules))

    def measure_with_marks(self, registry: Registry, marks: Mapping[str, tuple[Mark, ...]], tick: int) -> int:
        """Return the maximum bytes of a place's record, with the marks that run at a tick, by location."""
        del tick
        rules = ((self._rule_of_row.get(registry.rows.get(place, -1)), own) for place, own in marks.items())
        sizes = (_measure_place(rule, len(own)) for rule, own in rules if rule is not None)
        return max(sizes, default=0)

    def find_oversized(self, key: str, registry: Registry) -> Iterator[Problem]:
        """Yield a problem if too many numbers would be repeated in a record."""
        if (size := self.measure_largest(registry)) > LARGEST_OF_ONE_PLACE:
            yield Problem(
                f"{key}.bucket",
                f"{self.rule.bucket} slots",
                f"records of at most {LARGEST_OF_ONE_PLACE} bytes: each record repeats the numbers of "
                f"{self.rule.buckets} buckets, and may take {size} bytes",
                "Use a longer bucket, or a shorter window.",
            )

    def declare_places(self, registry: Registry) -> tuple[PlaceCharges, ...]:
        """Return the charges of the watched locations, grouped by their ε_l."""
        rule = self.rule
        shares = {registry.ids[row]: of_row.epsilon for row, of_row in self._rule_of_row.items()}
        buckets = rule.window // rule.bucket
        return (PlaceCharges(self.name, buckets, rule.window, group_by_share(shares), bucket=rule.bucket),)

    def covers(self, registry: Registry, location: str, mark: Mark) -> bool:
        """Return whether a published number is of one of the buckets that the charge of this monitor counts."""
        rule = self._rule_of_row.get(registry.rows.get(location, -1))
        signed = mark.signed if isinstance(mark, SignedMark) else mark
        is_same = (mark.epsilon, mark.until) == (signed.epsilon, signed.until)
        return rule is not None and is_same and rule.includes(signed)


def _measure_place(rule: BucketRule, numbers: int) -> int:
    """Return the maximum bytes of a place's record with this many numbers from earlier rules, or those of its own."""
    each = _NUMBER + len(format_epsilon(rule.answer_epsilon))
    return _PLACE_OVERHEAD + max(rule.buckets, numbers + 1) * each


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
