"""Named places between two steps at which a test can kill the process (docs/faults.md).

Failpoints cannot be armed in production: there is no option, variable or file for it. A test starts the process with
its own program, which first calls `arm` (tests/faults).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

PLACES: Final = (
    "setup.topics_created",  # `topics --create` has created the topics; no ledger partition is initialised
    "setup.begun",  # one ledger partition has its first record; later partitions may have none yet
    "reader.assigned",  # the start offsets are known; no record was read
    "reader.polled",  # records were fetched, but not processed
    "reader.accepted",  # visits were decoded and their fates decided; nothing was written
    "reader.dead_letters_written",  # dead letters are durable; facts and progress are not
    "reader.written",  # facts and progress are in the windows
    "reader.committed",  # offsets were committed to Kafka
    "owner.fenced",  # earlier owners cannot write any more
    "owner.announced",  # the owner record is in the ledger; the ledger was not yet read to its end
    "owner.read",  # the ledger was read; its last tick was not yet appended again
    "owner.repeated",  # the last tick was appended again
    "tick.closed",  # a slot has closed; the input end offsets were not yet requested
    "tick.end_offsets",  # the input end offsets are known; nothing was read
    "tick.read",  # progress and counts were read
    "tick.released",  # the release time has come; no noise was drawn
    "ledger.begun",  # a transaction is open; nothing was sent
    "ledger.sent",  # answers were sent and may be visible, but are not committed
    "ledger.committed",  # answers are in the ledger
    "tick.decided",  # the tick is decided; old facts are not yet evicted
    "tick.evicted",  # old facts are evicted
)

_armed: dict[str, Callable[[], None]] = {}


def arm(place: str, action: Callable[[], None]) -> None:
    """Run an action whenever the process passes a place. For tests only.

    Raises:
        KeyError: there is no such place.
    """
    if place not in PLACES:
        raise KeyError(place)
    _armed[place] = action


def failpoint(place: str) -> None:
    """Run the action armed for this place, if any."""
    if _armed and place in _armed:
        _armed[place]()
