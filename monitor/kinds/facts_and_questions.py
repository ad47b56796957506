"""The facts, and the questions about them.

There are six kinds of facts:

* a person was last seen at a watched location in a slot;
* a person was at a location at a designated time;
* the latest stamp of such a person's visits, if the location counts what was reported since an earlier tick;
* the length of a visit that covers a designated time, if a monitor needs it;
* the latest stamp of a person's visits, for a location that counts what was reported since an earlier tick;
* the bucket in which a person was reported, for a location with upper bounds.

Facts are only added. Writing a fact again, from any instance and in any order, changes nothing. Counts are derived from
the facts.

Each fact has a stamp: the slot c in which its record was stamped. Tick t counts the facts with c ≤ t and no others. The
windows of a shard contain the facts stamped up to the slot `opened`. Later facts wait. Reading for tick t opens slot t
and no later one. Slot t + 1 is opened when tick t is in the ledger, or when slot t + 1 has closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.time.schedule import Schedule

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


HASH_BYTES: Final = 16
"""128 bits: among 10⁹ people, the chance of a collision, which would make a count too low, is about 10⁻²¹."""

PERSON: Final = np.dtype(f"V{HASH_BYTES}")
"""The keyed hash of a person."""

CONSENT: Final = 1 << 31
"""The bit of a row that marks the fact that a person consented."""

SEEN: Final = np.dtype([("stamp", np.int64), ("row", np.uint32), ("last", np.int64), ("person", PERSON)])
PRESENT: Final = np.dtype([("stamp", np.int64), ("instant", np.int64), ("row", np.uint32), ("person", PERSON)])
STAY: Final = np.dtype(
    [("stamp", np.int64), ("instant", np.int64), ("length", np.uint32), ("row", np.uint32), ("person", PERSON)]
)

FactArray = NDArray[np.void]


def make_facts(kind: np.dtype[np.void], **fields: NDArray[Any]) -> FactArray:
    """Return facts of a kind from one array for each of its fields; shape (n,)."""
    facts = np.empty(len(fields["row"]), kind)
    for name in kind.names or ():
        facts[name] = fields[name]
    return facts


def take_facts(facts: FactArray, indexes: NDArray[np.int64]) -> FactArray:
    """Return the facts with some indexes, without a look at their fields, which would take numpy ten times as long."""
    return facts.view(np.dtype((np.void, facts.dtype.itemsize))).take(indexes).view(facts.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """The facts that records add, as structured arrays, each with the stamp c of its record; shape (n,).

    `seen` (`SEEN`): people who were seen at a row, and the last slot of the visit. `reported` (`SEEN`): the same for
    the rows whose people are also counted by what was reported since an earlier tick. `bucketed` (`SEEN`): the number
    of a set of buckets as row, and the last slot of the bucket. `present` (`PRESENT`): people who
    were present at a row at a designated time; if lower bounds are published, also the same with `CONSENT` added to the
    row, for people who consented. `stamped` (`PRESENT`): the same, in place of `present`, at the designated times whose
    people are also counted by what was reported since an earlier tick; of several stamps, the latest counts. `stays`
    (`STAY`): lengths of visits in seconds, if a monitor needs them; of several lengths of a person at a row, the
    longest counts.
    """

    seen: FactArray = field(default_factory=lambda: np.empty(0, SEEN))
    reported: FactArray = field(default_factory=lambda: np.empty(0, SEEN))
    bucketed: FactArray = field(default_factory=lambda: np.empty(0, SEEN))
    present: FactArray = field(default_factory=lambda: np.empty(0, PRESENT))
    stamped: FactArray = field(default_factory=lambda: np.empty(0, PRESENT))
    stays: FactArray = field(default_factory=lambda: np.empty(0, STAY))

    def __len__(self) -> int:
        """Return the number of facts of all kinds."""
        return sum(facts.size for facts in self.list_kinds())

    def list_kinds(self) -> tuple[FactArray, ...]:
        """Return the facts of each kind."""
        return self.seen, self.reported, self.bucketed, self.present, self.stamped, self.stays


class Portion(NamedTuple):
    """Facts of one kind with one stamp, as scripts read them (`monitor.store.packing`)."""

    kind: str
    stamp: int
    facts: bytes


Portions = Mapping[int, Sequence[Portion]]
"""Facts by shard, ready to be written."""


@dataclass(frozen=True, slots=True)
class NeededFacts:
    """The facts that the answers of a monitor are computed from.

    `rows`: the locations whose people are counted in windows of `window` slots. `bucket`: if they are counted by
    buckets instead, in which they were reported, the slots of a bucket, else 0. `times`: the designated times about
    which people are counted at all locations, for `horizon` microseconds each. `since_ticks`: whether the people of
    `rows` or `times` are also counted by what was reported since an earlier tick. `consenting`: whether people who
    consented are also counted. `longest`: if lengths of visits are read, the longest one in seconds, else 0.
    """

    rows: tuple[int, ...] = ()
    window: int = 0
    since_ticks: bool = False
    bucket: int = 0
    times: Schedule | None = None
    horizon: int = 0
    consenting: bool = False
    longest: int = 0


def find_designated(needed: Iterable[NeededFacts], instants: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which of these instants are designated times for which at least one of these facts is needed."""
    schedules = [each.times for each in needed if each.times is not None]
    if not (instants.size and schedules):
        return np.zeros(instants.size, np.bool_)
    low, high = int(instants.min()), int(instants.max()) + 1
    return np.isin(instants, np.concatenate([times.find_between(low, high) for times in schedules]))


Window = tuple[int, Sequence[int] | NDArray[np.int64]]
"""The first slot of a window, and the watched rows whose people are counted from this slot on."""


class Since(NamedTuple):
    """A question: the number of people in the window from the slot `start` on, by records stamped after `tick`.

    `row`: the watched row.
    """

    start: int
    tick: int
    row: int


class BucketCount(NamedTuple):
    """A question: the number of people in a set of `Parameters.bucket_sets` who were reported in one bucket.

    `last`: the last slot of the bucket.
    """

    number: int
    last: int


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """The counts to read from one shard: windows, and designated times.

    `consenting`: the times among `times` for which the people who consented are also counted. `stays`: the designated
    times for which the lengths of visits are read. `since`: the counts by what was reported since an earlier tick.
    `buckets`: the counts of buckets. `tick`: the tick that the counts are for. Without a tick, the question opens no
    slot.
    """

    windows: Sequence[Window] = ()
    times: tuple[int, ...] = ()
    tick: int | None = None
    consenting: tuple[int, ...] = ()
    stays: tuple[int, ...] = ()
    since: tuple[Since, ...] = ()
    buckets: tuple[BucketCount, ...] = ()


class Stamps(NamedTuple):
    """The people of a shard at a designated time: by person and location, the location and the latest stamp.

    `places`: the location's index among the shard's rows in registry order. Both arrays have the shape (people,).
    """

    places: NDArray[np.int64]
    latest: NDArray[np.int64]

    def count_since(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the people at each location with a record that was stamped after a slot; `starts` has one for each."""
        return np.bincount(self.places[self.latest > starts[self.places]], minlength=starts.size)


@dataclass(frozen=True, slots=True)
class Reading:
    """The answer of one shard, read in one transaction.

    `progress`: the next offset by input partition. `complete_from`: the facts are complete for visits whose last slot
    is this slot or a later one. `evicted_before`: facts about earlier slots were evicted from the windows.
    `times_evicted_until`: designated times up to this instant were evicted. `time`: the store's clock, an instant.
    `counts`: distinct people, aligned with the question's windows and their rows. `since`: distinct people by what was
    reported since an earlier tick. `buckets`: distinct people by bucket. `present`: by designated time,
    distinct people by location, aligned with the shard's rows in registry order. `stamps`: the same people with their
    latest stamps, at the times with `Facts.stamped`. `consenting`: as `present`, for people who consented.
    `stays`: by designated time, the person, row and length in seconds of each visit, in any order.
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
    since: Mapping[Since, int] = field(default_factory=dict)
    buckets: Mapping[BucketCount, int] = field(default_factory=dict)
    stamps: Mapping[int, Stamps] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredShard:
    """The next offset of one shard by input partition, and the slot from which its facts are complete."""

    progress: Mapping[int, int]
    complete_from: int
