"""Named places between two steps, where a test may kill the process (docs/guarantees.md, faults).

Nothing in the product arms one: there is no option, variable or file for it. A test that wants a process to die at a
place starts it through a program of its own that calls `arm` first (tests/faults).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

PLACES: Final = (
    "setup.topics_created",  # `topics --create` has made the topics, no ledger partition has begun
    "setup.begun",  # the first record of a ledger partition is in it, those after it may have none yet
    "reader.assigned",  # where to begin is known, nothing was read
    "reader.polled",  # records were fetched, nothing was done with them
    "reader.accepted",  # decoded and decided upon, nothing written
    "reader.dead_letters_written",  # dead letters are durable, facts and progress are not
    "reader.written",  # facts and progress are in the windows
    "reader.committed",  # offsets were committed to Kafka
    "owner.fenced",  # earlier owners can't write any more
    "owner.announced",  # the owner record is in the ledger, which was not read to its end yet
    "owner.read",  # the ledger was read, its last tick not repeated
    "owner.repeated",  # the last tick stands in the ledger once more
    "tick.closed",  # a slot has closed, no barrier was asked for
    "tick.end_offsets",  # the barrier is known, nothing was read
    "tick.read",  # progress and counts were read
    "tick.released",  # the release time has come, nothing was drawn
    "ledger.begun",  # a transaction is open, nothing was sent
    "ledger.sent",  # answers were sent, and may be seen, but are not committed
    "ledger.committed",  # answers are in the ledger
    "tick.decided",  # the tick is done, old facts are not tidied away
    "tick.evicted",  # old facts are gone
)

_armed: dict[str, Callable[[], None]] = {}


def arm(place: str, action: Callable[[], None]) -> None:
    """Have an action done each time a place is passed. For tests only.

    Raises:
        KeyError: if there is no such place.
    """
    if place not in PLACES:
        raise KeyError(place)
    _armed[place] = action


def failpoint(place: str) -> None:
    """Say that a place is passed; does nothing unless a test armed it."""
    if _armed and place in _armed:
        _armed[place]()
