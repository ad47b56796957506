"""The state of all parts of the service as hashable values, which can be saved and restored."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, NamedTuple

from monitor.ingest.write_queue import Batch
from monitor.kinds.facts_and_questions import OffsetRange, Portion, Portions
from monitor.kinds.locations import Registry
from monitor.store.packing import pack_facts
from tests.store.memory import Shard

Ranges = tuple[OffsetRange, ...]


class BatchName(NamedTuple):
    """The content of a batch. Batches of the same records differ if other polls were joined: their facts are in parts.

    `facts`: the parts by shard.
    """

    ranges: Ranges
    facts: tuple[tuple[int, tuple[Portion, ...]], ...]


class ShardState(NamedTuple):
    """The state of a shard."""

    numbers: tuple[Any, ...]
    progress: frozenset[tuple[int, int]]
    waiting: frozenset[Any]
    seen: frozenset[tuple[int, frozenset[tuple[bytes, int]]]]
    reported: frozenset[tuple[int, frozenset[tuple[tuple[int, bytes], int]]]]
    bucketed: frozenset[tuple[int, frozenset[tuple[int, bytes]]]]
    present: frozenset[tuple[int, frozenset[bytes]]]
    stamped: frozenset[tuple[int, frozenset[tuple[bytes, int]]]]


class ReaderState(NamedTuple):
    """The state of a reader: positions, waiting partitions, sent batches with the results of writes, pending batch."""

    positions: frozenset[tuple[int, int]]
    waiting: frozenset[int]
    writes: tuple[tuple[BatchName, frozenset[tuple[int, int]] | None], ...]
    pending: BatchName | None


class OwnerState(NamedTuple):
    """The state of an owner of a ledger partition; `decided` is the last tick in the ledger, by any owner."""

    decided: int
    taken_at: int
    end_offsets: frozenset[tuple[int, int]] | None
    read: frozenset[int]


class State(NamedTuple):
    """The state of all parts at one moment."""

    moment: int
    store: tuple[ShardState, ...]
    replica: tuple[ShardState, ...] | None
    readers: tuple[ReaderState, ...]
    zombies: frozenset[BatchName]
    owners: tuple[OwnerState, ...]
    opens: frozenset[tuple[int, int]]
    faults: tuple[int, ...]


@cache
@lru_cache(maxsize=10_000)  # nearly all steps repeat the polls of other steps
def pack_polls(batch: Batch, registry: Registry) -> Portions:
    """Return the facts of a batch by shard, those of each poll in parts of their own."""
    packed: dict[int, list[Portion]] = {}
    for facts in batch.facts:
        for shard, portions in pack_facts(facts, registry.shard).items():
            packed.setdefault(shard, []).extend(portions)
    return packed


@lru_cache(maxsize=10_000)
def batch_name(batch: Batch, registry: Registry) -> BatchName:
    """Return the content of a batch."""
    parts = sorted(pack_polls(batch, registry).items())
    return BatchName(batch.ranges, tuple((shard, tuple(sorted(portions))) for shard, portions in parts))


def shard_state(shard: Shard) -> ShardState:
    """Return the state of a shard."""
    return ShardState(
        (shard.complete_from, shard.evicted_before, shard.times_evicted_until, shard.opened, shard.shown),
        frozenset(shard.progress.items()),
        frozenset(shard.waiting),
        frozenset((row, frozenset(people.items())) for row, people in shard.seen.items()),
        frozenset((row, frozenset(latest.items())) for row, latest in shard.reported.items()),
        frozenset((number, frozenset(members)) for number, members in shard.bucketed.items()),
        frozenset((at, frozenset(members)) for at, members in shard.present.items()),
        frozenset((at, frozenset(latest.items())) for at, latest in shard.stamped.items()),
    )


def shard_of_state(state: ShardState) -> Shard:
    """Return a shard with this state."""
    seen = {row: dict(people) for row, people in state.seen}
    reported = {row: dict(latest) for row, latest in state.reported}
    bucketed = {number: set(members) for number, members in state.bucketed}
    present = {at: set(members) for at, members in state.present}
    stamped = {at: dict(latest) for at, latest in state.stamped}
    complete_from, evicted_before, times_evicted_until, opened, shown = state.numbers
    return Shard(
        dict(state.progress),
        complete_from,
        evicted_before,
        times_evicted_until,
        opened,
        shown,
        set(state.waiting),
        seen,
        reported,
        bucketed,
        present,
        stamped,
    )
