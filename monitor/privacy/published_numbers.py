"""The published numbers that records contain and the state of a location consists of, besides the marks over time."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from monitor.privacy.over_time import Mark


class TimeNumber(NamedTuple):
    """A published noisy count of a location about a designated time: its tick, and its ε.

    `epsilon` is None if the record does not state it, as when every location had one noisy count. It counts as all ε.
    """

    tick: int
    noisy_count: int
    epsilon: Fraction | None


@dataclass(frozen=True, slots=True)
class Number(Mark):
    """The number of one bucket. `tick` is the last slot of the bucket, also if it was drawn at a later tick.

    `until` is the last tick whose window can contain a visit that the number counts.
    """

    bucket: int
    """b, under which it was drawn, in slots."""
    window: int
    """W, under which it was drawn, in slots."""

    @property
    def first(self) -> int:
        """The first slot of the bucket."""
        return self.tick - self.bucket + 1
