"""How late visits are reported, and so the share of them that an answer can count."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class ReportDelays:
    """The share of all visits that are reported within each delay (microseconds). Both rise; a share is at most 1."""

    delays: tuple[int, ...]
    shares: tuple[Fraction, ...]

    def find_share(self, delay: int) -> Fraction:
        """Return the share of visits with at most this delay. Between two known delays, that of the shorter counts."""
        known = bisect_right(self.delays, delay)
        return self.shares[known - 1] if known else Fraction(0)

    def find_delay(self, share: Fraction) -> int | None:
        """Return the shortest known delay within which this share is reported; None if there is none."""
        index = bisect_left(self.shares, share)
        return self.delays[index] if index < len(self.delays) else None

    def average_share(self, length: int) -> Fraction:
        """Return the share that is reported by now, of visits that ended evenly within this time until now."""
        ends = [*(delay for delay in self.delays if delay < length), length]
        spans = zip(ends, ends[1:], self.shares, strict=False)
        return sum(((end - begin) * share for begin, end, share in spans), Fraction(0)) / length
