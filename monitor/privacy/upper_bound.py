"""Upper bounds of the people in a window: one number for each bucket of slots, and the sum of the numbers.

A number is the count of the people who were reported in one bucket, plus one-sided noise. The numbers of all buckets
that can contain a visit of the window add up to a certain upper bound of the people in the window.

The functions are pure. The state of a location is its numbers, which are in the ledger. A record is in one bucket, and
no two numbers of a location count the same slot, so a record pays for one number at most.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from monitor.errors import PrivacyError
from monitor.privacy.epsilon import require_drawable
from monitor.privacy.over_time import Mark
from monitor.privacy.payment_of_one_person import Charge
from monitor.privacy.published_numbers import Number


@dataclass(frozen=True)
class BucketRule:
    """The rule of one location. It is public. All lengths are in slots."""

    epsilon: Fraction
    """The location's ε_l."""
    bucket: int
    """b."""
    window: int
    """W."""
    max_lead: int
    """F: how far after its stamp a visit may end."""

    def __post_init__(self) -> None:
        """Raise PrivacyError if the bucket does not divide the window, EpsilonError if noise cannot be drawn."""
        if self.bucket < 1 or self.window < 1 or self.window % self.bucket or self.max_lead < 0:
            raise PrivacyError(
                f"bucket is {self.bucket}, window {self.window}, accept_ahead with default_stay {self.max_lead} (in "
                "slots): expected a bucket of at least 1 slot that divides the window, and a lead of at least 0; "
                "change the bucket."
            )
        require_drawable(self.answer_epsilon, "ε of one number")

    @cached_property
    def answer_epsilon(self) -> Fraction:
        """The ε of one number: ε_l/B for the B = W/b buckets of a window."""
        return self.epsilon / (self.window // self.bucket)

    @property
    def lifetime(self) -> int:
        """W + F, the number of ticks whose window can contain a visit that one number counts."""
        return self.window + self.max_lead

    @property
    def buckets(self) -> int:
        """The number of buckets whose numbers are added up: those of the last W + F slots."""
        return -(-self.lifetime // self.bucket)

    def ends_bucket(self, tick: int) -> bool:
        """Return whether the slot of the tick is the last one of a bucket. Buckets are counted from the origin."""
        return (tick + 1) % self.bucket == 0

    def list_buckets(self, tick: int) -> tuple[int, ...]:
        """Return the last slots of the buckets that can contain a visit of the window, oldest first.

        The tick ends a bucket. A visit of its window has a record that was stamped in the last W + F slots.
        """
        return tuple(tick - self.bucket * age for age in reversed(range(self.buckets)))

    def includes(self, mark: Mark) -> bool:
        """Return whether a published number is of a bucket under this rule, so that its charge covers the number."""
        return (
            isinstance(mark, Number)
            and (mark.bucket, mark.window) == (self.bucket, self.window)
            and self.ends_bucket(mark.tick)
            and mark.until <= mark.tick + self.lifetime - 1
            and mark.epsilon <= self.answer_epsilon
        )


def may_draw(rule: BucketRule, marks: Iterable[Mark], last: int, lost_slot: int | None = None) -> bool:
    """Return whether no earlier answer can have counted a slot of the bucket that ends with the slot `last`.

    A mark that is no number of a bucket may have counted all slots up to its tick. `lost_slot` is the slot in which the
    ledger was lost, if any. All earlier slots then count as spent.
    """
    first = last - rule.bucket + 1
    if lost_slot is not None and first < lost_slot:
        return False
    return not any(mark.tick >= first and (not isinstance(mark, Number) or mark.first <= last) for mark in marks)


def draw(rule: BucketRule, last: int, count: int, noise: int) -> Number:
    """Return the number of the bucket that ends with the slot `last`.

    Args:
        rule: the location's rule.
        last: the last slot of the bucket.
        count: the number of distinct people with a visit in the window of tick `last`, by the records that were stamped
            in the bucket.
        noise: a draw of one-sided geometric noise at `rule.answer_epsilon`, fresh for every number.

    Raises:
        PrivacyError: the count or the noise is negative. The message does not contain the count.
    """
    if count < 0 or noise < 0:
        raise PrivacyError(
            "A count or its noise is negative: expected 0 or more; pass distinct people and one-sided noise."
        )
    until = last + rule.lifetime - 1
    return Number(last, count + noise, rule.answer_epsilon, until, rule.bucket, rule.window)


def add_up(rule: BucketRule, marks: Iterable[Mark], tick: int) -> int | None:
    """Return the certain upper bound of the people in the window of a tick that ends a bucket.

    The result is None if the number of a bucket is missing, or was drawn under another rule: it may lack visits.
    """
    numbers = {
        mark.tick: mark.noisy_count
        for mark in marks
        if isinstance(mark, Number) and (mark.bucket, mark.window) == (rule.bucket, rule.window)
        if mark.until == mark.tick + rule.lifetime - 1
    }
    buckets = rule.list_buckets(tick)
    if not all(last in numbers for last in buckets):
        return None
    return sum(numbers[last] for last in buckets)


def compute_most_numbers(bucket: int, window: int, max_lead: int, slots: int) -> int:
    """Return the maximum number of buckets of one location that count visits in `slots` consecutive slots (H).

    A visit in slot s is counted by buckets that end in the slots s - F … s + W - 1. For H slots, these are
    H + W + F - 1 consecutive slots, of which every b-th one ends a bucket.
    """
    return -(-(slots + window + max_lead - 1) // bucket)


def charge_upper_bound(source: str, epsilon: Fraction, rule: BucketRule, slots: int) -> Charge:
    """Return the charge of an `upper_bound` monitor with the ε of all its locations. `rule` is that of any of them."""
    most = compute_most_numbers(rule.bucket, rule.window, rule.max_lead, slots)
    each = epsilon / (rule.window // rule.bucket)
    return Charge(source, most * each, f"{most} numbers × {each}, by visits in {slots} slots")
