"""Named places between two steps at which a test can kill the process (docs/faults.md).

Production code has no way to arm a failpoint: no option, variable or file does it. A test starts the process through
its own program, which calls `arm` first (tests/faults).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

PLACES: Final = (
    "setup.topics_created",  # `topics --create` has created the topics; no ledger partition is initialised
    "setup.begun",  # one ledger partition has its first record; later partitions may have none yet
    "reader.assigned",  # the start offsets are known; nothing was read
    "reader.polled",  # records were fetched; nothing was done with them
    "reader.accepted",  # visits are decoded and their fates decided; nothing was written
    "reader.dead_letters_written",  # dead letters are durable; facts and progress are not
    "reader.written",  # facts and progress are in the windows
    "reader.committed",  # offsets were committed to Kafka
    "owner.fenced",  # earlier owners cannot write any more
    "owner.announced",  # the owner record is in the ledger; the ledger was not read to its end yet
    "owner.read",  # the ledger was read; its last tick was not appended again yet
    "owner.repeated",  # the last tick was appended again
    "tick.closed",  # a slot has closed; the input end offsets were not requested yet
    "tick.end_offsets",  # the input end offsets are known; nothing was read
    "tick.read",  # progress and counts were read
    "tick.released",  # the release time has come; no noise was drawn
    "ledger.begun",  # a transaction is open; nothing was sent
    "ledger.sent",  # answers were sent and may be visible, but are not committed
    "ledger.committed",  # answers are in the ledger
    "tick.decided",  # the tick is decided; old facts are not evicted yet
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
