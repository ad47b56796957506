"""Named points between two steps at which a test can stop or kill the process (docs/faults.md).

Failpoints cannot be armed in production: no option, variable or file does this. A test starts the service from a
separate program, which first calls `arm` (tests/faults).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

FAILPOINTS: Final = (
    "setup.topics_created",  # `topics --create` has created the topics; no ledger partition is initialised
    "setup.begun",  # one ledger partition has its first record; later partitions may have none yet
    "reader.assigned",  # the start offset of a partition is known; none of its records has been read
    "reader.polled",  # records have been fetched, but not processed
    "reader.accepted",  # visits have been decoded and their fates decided; nothing has been written
    "reader.dead_letters_written",  # dead letters are durable; facts and progress are not
    "reader.written",  # facts and progress are in the store
    "reader.committed",  # a commit of offsets to Kafka has been requested
    "owner.fenced",  # earlier owners cannot write any more
    "owner.announced",  # the owner record is in the ledger; the ledger has not been read up to it
    "owner.read",  # the ledger has been read; its last tick has not been appended again
    "owner.repeated",  # the last tick has been appended again
    "tick.closed",  # a slot has closed; the end offsets have not been requested
    "tick.end_offsets",  # the end offsets are known; no counts have been read
    "tick.read",  # progress and counts have been read
    "tick.released",  # the release time has come; no noise has been drawn
    "ledger.begun",  # a transaction is open; nothing has been sent
    "ledger.queued",  # one batch of answers may have been sent; the later ones of the transaction have not
    "ledger.sent",  # answers have been sent and may be visible, but are not committed
    "ledger.committed",  # answers are in the ledger
    "tick.decided",  # the tick is decided; old facts have not been evicted
    "tick.evicted",  # old facts have been evicted
)

_armed: dict[str, Callable[[], None]] = {}


def arm(name: str, action: Callable[[], None]) -> None:
    """Run an action whenever the process passes a failpoint. For tests only.

    Raises:
        KeyError: there is no such failpoint.
    """
    if name not in FAILPOINTS:
        raise KeyError(name)
    _armed[name] = action


def disarm(name: str) -> None:
    """Run no action any more when the process passes a failpoint. For tests only."""
    _armed.pop(name, None)


def failpoint(name: str) -> None:
    """Run the action armed for this failpoint, if any."""
    if _armed and name in _armed:
        _armed[name]()
