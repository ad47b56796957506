"""The facts, and the questions about them.

There are two kinds of facts: a person was last seen at a watched location in a slot, and a person was at a location at
a designated time. Facts are only added. Writing a fact again, from any instance and in any order, changes nothing.
Counts are derived from the facts.

Each fact has a stamp: the slot c in which its record was stamped. Tick t counts the facts with c ≤ t and no others. The
windows of a shard contain the facts stamped up to the slot `opened`. Later facts wait. Reading for tick t opens slot t
and no later one. Slot t + 1 is opened when tick t is in the ledger, or when slot t + 1 has closed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

COMPLETE_FROM_START: Final = -(2**52)
"""The `complete_from` of facts that are complete from the first visit on (a slot, exact as a double)."""

NEVER: Final = -(2**52)
"""The `times_evicted_until` of a shard that never evicted a designated time (an instant)."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
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


@dataclass(frozen=True, slots=True)
class StoredShard:
    """The next offset of one shard by input partition, and the slot from which its facts are complete."""

    progress: Mapping[int, int]
    complete_from: int
