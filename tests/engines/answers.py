"""Count the ticks of a run: decided, lost or unknown, from what the output topic has about each watched place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Counted(NamedTuple):
    """The numbers of ticks between two times."""

    decided: int
    lost: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Ticks:
    """The ticks of a service: their times are multiples of the slot, as seconds since 1970."""

    slot: int
    places: Sequence[str]

    def find_last(self, seconds: float) -> int:
        """Return the time of the last tick until a time."""
        return int(seconds // self.slot * self.slot)

    def is_complete(self, states: Mapping[str, str]) -> bool:
        """Return whether each place has an answer at a tick. `states`: the status by place."""
        return states.keys() >= {*self.places}

    def count(self, answers: Mapping[int, Mapping[str, str]], after: int, until: int) -> Counted:
        """Count the ticks after a tick, until another one. `answers`: the status by tick and place."""
        times = range(after + self.slot, until + 1, self.slot)
        complete = [states for time in times if self.is_complete(states := answers.get(time, {}))]
        unknown = sum("unknown" in {states[place] for place in self.places} for states in complete)
        return Counted(len(complete) - unknown, len(times) - len(complete), unknown)
