"""The facts, the questions about them, and the interface of every store of windows.

There are two kinds of facts: a person was last seen at a watched location in a slot, and a person was at a location at
a designated time. Facts are only added. Writing a fact again, from any instance and in any order, changes nothing.
Counts are derived from the facts.

Each fact has a stamp: the slot c in which its record was stamped. Tick t counts the facts with c ≤ t and no others. The
windows of a shard contain the facts stamped up to the slot `opened`. Later facts wait. Reading for tick t opens slot t
and no later one. Slot t + 1 is opened when tick t is in the ledger, or when slot t + 1 has closed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

COMPLETE_FROM_START: Final = -(2**52)
"""The `complete_from` of facts that are complete from the first visit on (a slot, exact as a double)."""

NEVER: Final = -(2**52)
"""The `times_evicted_until` of a shard that never evicted a designated time (an instant)."""


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets [start, end) of an input partition. Some may belong to control records or aborted records."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ShardFacts:
    """The facts that the records of one slot add to one shard, in the format of `monitor.store.packing`.

    `stamp`: the slot c in which the records were stamped. `seen`: (row, last slot, person) of people who were seen.
    `present`: (designated time, row, person) of people who were present; if lower bounds are published, also the same
    with a flag in the row, for people who consented. `stays`: (designated time, length in seconds, row, person) of
    visits, if dwell times are published; of several lengths of a person at a row, the longest counts.
    """

    stamp: int
    seen: bytes = b""
    present: bytes = b""
    stays: bytes = b""


Window = tuple[int, Sequence[int] | NDArray[np.int64]]
"""The first slot of a window, and the watched rows whose people are counted from this slot on."""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """The counts to read from one shard: windows, and designated times.

    `consenting`: the times among `times` for which the people who consented are also counted. `stays`: the designated
    times for which the lengths of visits are read. `tick`: the tick that the counts are for. Without a tick, the
    question opens no slot.
    """

    windows: Sequence[Window] = ()
    times: tuple[int, ...] = ()
    tick: int | None = None
    consenting: tuple[int, ...] = ()
    stays: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """The answer of one shard, read in one transaction.

    `progress`: the next offset by input partition. `complete_from`: the facts are complete for visits whose last slot
    is this slot or a later one. `evicted_before`: facts about earlier slots were evicted from the windows.
    `times_evicted_until`: designated times up to this instant were evicted. `time`: the store's clock, an instant.
    `counts`: distinct people, aligned with the question's windows and their rows. `present`: by designated time,
    distinct people by location, aligned with the shard's rows in registry order. `consenting`: the same for people who
    consented. `stays`: by designated time, the person, row and length in seconds of each visit, in any order.
    `settled`: the counts include the facts stamped up to the question's tick and no others. It is False if the store's
    clock is not in the slot after the tick, if a later slot is open, or if facts still wait (ask again).
    """

    progress: Mapping[int, int]
    complete_from: int
    evicted_before: int
    times_evicted_until: int
    time: int
    counts: Sequence[NDArray[np.int64]]
    present: Mapping[int, NDArray[np.int64]]
    settled: bool = True
    consenting: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)
    stays: Mapping[int, Sequence[tuple[bytes, int, int]]] = field(default_factory=dict)


Facts = Mapping[int, Sequence[ShardFacts]]
"""Facts by shard."""


@dataclass(frozen=True, slots=True)
class PackedFacts:
    """Facts by shard in the form in which a store sends them. Only the store that packed them can write them."""

    by_shard: Mapping[int, Sequence[str | int | bytes]]


class Windows(Protocol):
    """A store of facts. All methods are safe to repeat; shards are numbered from 0.

    Raises:
        UnreachableError: (any method) the store cannot be reached, or reports a transient failure.
        WindowsError: (any method) a key of the store has foreign data, or the store refuses permanently.
    """

    def read_progress(self) -> list[dict[int, int]]:
        """Return, by shard, the next offset by input partition."""

    def begin(self, partition: int, offset: int, complete_from: int) -> None:
        """In shards without progress for the partition, start at an offset and raise `complete_from`, in one step."""

    def restart(self, partition: int, offset: int, complete_from: int) -> None:
        """Move the partition's progress in every shard, forward or back, and raise `complete_from`, in one step."""

    def pack(self, facts: Facts) -> Facts | PackedFacts:
        """Prepare a batch's facts for `write`. Another thread may do this while `write` waits for the store."""

    def write(self, spans: Sequence[Span], facts: Facts | PackedFacts) -> dict[int, int]:
        """Add a batch's facts, and advance the progress of each shard that has reached the starts of the spans.

        Facts and progress of a shard change in one step. A write that advances no progress of a shard stores nothing
        there.

        Returns:
            By partition, the lowest progress of all shards after the write, -1 where a shard has none. If it is below
            the start of the span, the consumer has to seek back to the returned offset.
        """

    def read(self, questions: Mapping[int, Question]) -> dict[int, Reading]:
        """Open the slots that the ticks count, and return, by shard, everything that a tick needs, read in one step.

        A shard that a cluster is moving is missing, unless this is true of all shards. Then UnreachableError is raised.
        """

    def time(self, shards: Collection[int] = (0,)) -> int:
        """Return the present instant by the clock of the shards' server; of several servers, by the latest clock."""

    def open(self, shards: Sequence[int], slot: int) -> None:
        """Move facts stamped up to a slot into the windows, after the tick before this slot has been decided.

        A slot that has not begun by the store's clock is not opened.
        """

    def evict(self, shards: Sequence[int], before: int, drop: Sequence[int], keep: Sequence[int]) -> None:
        """Evict facts about slots before a slot and the designated times `drop`, and renew the other expiries.

        `evicted_before` and `times_evicted_until` are raised in the same transaction, so that a count that lacks
        evicted facts can be recognized as incomplete. `keep`: the designated times that are still counted.
        """

    def is_empty(self) -> bool:
        """Return whether the store has no key of this service, under any fingerprint."""

    def check(self) -> None:
        """Check that the store is reachable and keeps its data.

        Raises:
            EvictionError: the store may evict keys.
        """

    def close(self) -> None:
        """Close the connections."""
