"""What is known, and what may be asked of it: the one interface that every store of windows has.

Facts only ever add up: a person was last seen at a watched location in a slot; a person was at a location at a
designated time. Writing one again, by anyone, in any order, changes nothing. Counts are derived, so none can drift.

Each fact carries its stamp: the slot c in which its record was stamped. The count of tick t holds the facts with
c ≤ t and no others. A shard's `opened` is a slot: facts stamped up to it are in the windows, later ones wait. The
reading of tick t opens t and no more. Slot t + 1 is opened when tick t is in the ledger, or when slot t + 1 has closed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

COMPLETE_FROM_START: Final = -(2**52)
"""The `since` of facts that are whole from the first visit on (a slot that fits a double exactly)."""

NEVER: Final = -(2**52)
"""The `dropped` of a shard that never dropped a designated time (an instant)."""


@dataclass(frozen=True, slots=True)
class Span:
    """Records [start, end) of an input partition, as offsets; `end` moves past control and aborted records too."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ShardFacts:
    """What the records of one slot add to one shard, packed as `monitor.windows.packing` says.

    `stamp`: the slot c in which the records were stamped. `seen`: who was last seen at which row in which slot.
    `present`: who was at which row at which designated time.
    """

    stamp: int
    seen: bytes = b""
    present: bytes = b""


@dataclass(frozen=True, slots=True)
class Question:
    """What one shard is asked: (row, first slot of the window) pairs, and designated times.

    `tick`: the tick that the counts are for. Without it the question opens nothing: it looks at what is there.
    """

    windows: tuple[tuple[int, int], ...] = ()
    times: tuple[int, ...] = ()
    tick: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What one shard knew at one moment: everything here was read together, in one transaction.

    `progress`: next offset by input partition. `since`: the facts are whole for visits whose last slot is at or after
    it; `trimmed`: so much of the windows was cut off (whole from that slot on); `dropped`: designated times at or
    before this instant are gone. `time`: the store's clock, an instant. `counts`: by (row, first slot), distinct
    people. `present`: by designated time, distinct people by location, aligned with the shard's rows in registry
    order. `settled`: the counts are those of the tick that was asked about, so they hold the facts stamped up to it and
    no others; False if the store's clock is not in the slot after the tick, if a later slot is open, or if facts wait
    still (ask again).
    """

    progress: Mapping[int, int]
    complete_from: int
    evicted_before: int
    times_evicted_until: int
    time: int
    counts: Mapping[tuple[int, int], int]
    present: Mapping[int, NDArray[np.int64]]
    settled: bool = True


class Windows(Protocol):
    """A store of facts. All methods are safe to repeat; `shards` are numbered from 0 and all belong to one scheme.

    Raises:
        UnreachableError: (any method) the store cannot be reached or answers with a passing failure.
        WindowsError: (any method) the store holds what is not ours, or refuses for good.
    """

    def progress(self) -> list[dict[int, int]]:
        """By shard: the next offset by input partition, for those that were begun."""

    def begin(self, partition: int, offset: int, complete_from: int) -> None:
        """Where a shard has no progress for the partition, start at an offset and raise its `since`, in one step."""

    def restart(self, partition: int, offset: int, complete_from: int) -> None:
        """Set the partition's progress in every shard, also back, and raise `since`, in one step."""

    def write(self, spans: Sequence[Span], facts: Mapping[int, Sequence[ShardFacts]]) -> dict[int, int]:
        """Add a batch's facts, and advance each shard's progress over the spans if it had reached their starts.

        Data and progress of a shard go in one step. A write that advances no progress of a shard stores nothing there.
        Returns, by partition, the lowest progress of all shards afterwards: below a span's start, the consumer has to
        go back to there.
        """

    def read(self, questions: Mapping[int, Question]) -> dict[int, Reading]:
        """By shard, everything that a tick needs, read together; opens what the tick counts."""

    def time(self, shards: Collection[int] = (0,)) -> int:
        """Return the present instant by the store's clock.

        Each shard has the clock of its server. Where the shards have several servers, the latest clock counts.
        """

    def open(self, shards: Sequence[int], slot: int) -> None:
        """Let facts stamped up to a slot into the windows: the tick before it is in the ledger, so nobody asks for it.

        A slot that has not begun by the store's clock is not opened.
        """

    def evict(self, shards: Sequence[int], trim_before: int, drop: Sequence[int], keep: Sequence[int]) -> None:
        """Cut off what lies before a slot, drop designated times, and renew the expiry of the rest.

        `trimmed` and `dropped` are raised in the same transaction, so that a count that would miss something shows
        as incomplete. `keep`: the designated times that are still asked about.
        """

    def empty(self) -> bool:
        """Whether the store holds nothing under this service's name, of any fingerprint."""

    def check(self) -> None:
        """See that the store is there and may keep what it holds.

        Raises:
            EvictionError: it may evict keys.
        """

    def close(self) -> None:
        """Let go of connections."""
