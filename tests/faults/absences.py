"""The times at which no instance could decide a tick, and the ticks that must be lost or decided as a result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Fate(Enum):
    """The required fate of a tick. `OPEN`: both fates are correct."""

    LOST = "lost"
    DECIDED = "decided"
    OPEN = "lost or decided"


@dataclass(frozen=True, slots=True)
class Absence:
    """A time without an instance or a broker, in instants.

    It began between `leaving` and `left`, and ended between `returning` and `returned`. If one of several instances is
    killed, its partitions may remain undecided for a while, or another instance decides them: `complete` is then false.
    """

    leaving: int
    left: int
    returning: int
    returned: int
    complete: bool = True


def find_fate(next_slot: tuple[int, int], absences: Iterable[Absence], enough: int) -> Fate:
    """Return the fate of a tick, given the start and the end of its next slot.

    It must be lost if one complete absence covers that slot, and must be decided if the slot has a piece of at least
    `enough` microseconds outside all absences.
    """
    start, end = next_slot
    absences = sorted(absences, key=lambda absence: absence.leaving)
    if any(absence.complete and absence.left <= start and end <= absence.returning for absence in absences):
        return Fate.LOST
    free_from, longest = start, 0
    for absence in absences:
        longest = max(longest, min(absence.leaving, end) - free_from)
        free_from = max(free_from, absence.returned)
    return Fate.DECIDED if max(longest, end - free_from) >= enough else Fate.OPEN
