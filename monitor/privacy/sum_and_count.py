"""The paired mechanism: a sum and a count of bounded values for one ε, under ordinary differential privacy.

Each person has up to m values, each from L (`low`) to U (`high`), R = U - L. Instead of Σ x and n, the mechanism
publishes two integer totals with independent two-sided geometric noise at ε/(m·R):

    A = Σ (x - L)  ("above low"),   B = Σ (U - x)  ("below high").

A + B = n·R and A + n·L = Σ x, so both statistics follow from the two totals (`SumAndCount`).

Proof (Kulesza, Suresh and Wang [KSW]; Fitzsimons, Honaker, Shoemate and Singhal [FHSS]; docs/literature.md). One value
adds x - L ≥ 0 to A and U - x ≥ 0 to B, together exactly R, for every x. So the values of one person add at most m·R to
A and B together, and adding or removing the person changes (A, B) by at most m·R in the L1 norm. Noise at ε/(m·R) on
each total then costs ε (`monitor.privacy.two_sided_noise`). The bounds are public, and a value outside them counts as
the nearest bound; this depends only on the value. The first m values of a person are kept; this depends only on that
person's values.

What a person pays: ε if all values of the person are removed or added, and at most 2·ε if they are replaced by any
other values (removal, then addition). The bound 2·ε is reached: if m values of U are replaced by m values of L, m·R
moves from A to B, a change of 2·m·R. Removing only some of a person's values costs ε if the person has at most m
values, and up to 2·ε otherwise, because other values may then be among the first m.

The textbook mechanism draws the sum and the count at ε/2 each. For m = 1 its count has the variance 8/ε², this one
4/ε² (continuous noise).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from monitor.errors import BoundsError, ExactnessError, PrivacyError
from monitor.privacy.epsilon import parse_epsilon, require_drawable
from monitor.privacy.one_sided_noise import Noise
from monitor.privacy.two_sided_noise import draw_two_sided


@dataclass(frozen=True, slots=True)
class SumAndCount:
    """A = Σ (x - low) and B = Σ (high - x), exact or noisy, with the public bounds. Noisy totals may be negative."""

    above_low: int
    below_high: int
    low: int
    high: int

    @property
    def count(self) -> Fraction:
        """(A + B)/R, an estimate of the number of values. It is unbiased, and may be negative or not whole."""
        return Fraction(self.above_low + self.below_high, self.high - self.low)

    @property
    def total(self) -> Fraction:
        """A + L·(A + B)/R, an unbiased estimate of the sum of the values."""
        return self.above_low + self.low * self.count

    @property
    def mean(self) -> Fraction | None:
        """L + R·A/(A + B), clamped to L … U: an estimate of the mean. None if A + B ≤ 0."""
        both = self.above_low + self.below_high
        if both <= 0:
            return None
        share = Fraction(min(max(self.above_low, 0), both), both)
        return self.low + (self.high - self.low) * share


@dataclass(frozen=True, slots=True)
class SumAndCountRule:
    """The public rule: ε, the bounds of a value (integers, low < high), and the values per person that count (m)."""

    epsilon: Fraction
    low: int
    high: int
    values_per_person: int = 1

    def __post_init__(self) -> None:
        """Raise EpsilonError for a bad ε, BoundsError for bad bounds, ExactnessError or PrivacyError for a bad m."""
        parse_epsilon(self.epsilon)
        for name in ("low", "high", "values_per_person"):
            _require_whole(name, getattr(self, name))
        if self.low >= self.high:
            raise BoundsError(
                f"low is {self.low}, high is {self.high}: expected low < high; exchange the bounds or widen them."
            )
        if self.values_per_person < 1:
            raise PrivacyError(f"values_per_person is {self.values_per_person}: expected at least 1; raise it.")
        require_drawable(self.noise_epsilon, "ε of the noise of each total")

    @property
    def noise_epsilon(self) -> Fraction:
        """The ε of the noise of each total: ε/(m·R)."""
        return self.epsilon / (self.values_per_person * (self.high - self.low))

    def add_up(self, people: Iterable[Sequence[int]]) -> SumAndCount:
        """Return the exact totals of the first m values of each person, each value clamped to the bounds.

        Raise ExactnessError if a value is not an integer.
        """
        above = below = 0
        for values in people:
            for value in values[: self.values_per_person]:
                _require_whole("a value", value)
                clamped = min(max(value, self.low), self.high)
                above += clamped - self.low
                below += self.high - clamped
        return SumAndCount(above, below, self.low, self.high)

    def release(self, people: Iterable[Sequence[int]], noise: Noise) -> SumAndCount:
        """Return the noisy totals. There is one sequence of values for each person. Input without people is valid.

        Raise ExactnessError if a value is not an integer.
        """
        exact = self.add_up(people)
        drawn = draw_two_sided(noise, self.noise_epsilon, 2)
        return SumAndCount(exact.above_low + int(drawn[0]), exact.below_high + int(drawn[1]), exact.low, exact.high)


def _require_whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ExactnessError(f"{name} is a {type(value).__name__}: expected an integer; choose a smaller unit.")
