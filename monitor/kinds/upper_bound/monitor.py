"""The parameters of a monitor of kind `upper_bound`, and the sizes of its records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

from monitor.errors import Problem
from monitor.kinds.answer_state import SignedMark
from monitor.kinds.base.monitor import Monitor
from monitor.kinds.base.places.group_by_share import group_by_share
from monitor.kinds.facts import NeededFacts
from monitor.kinds.locations import Registry
from monitor.kinds.record_sizes import TICK_BYTES
from monitor.privacy.epsilon import format_epsilon
from monitor.privacy.over_time import Mark
from monitor.privacy.upper_bound import BucketRule
from monitor.records.charges_record import PlaceCharges

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
