"""All that the parts of the service remember, as values: states that can be told apart, kept and taken back."""

from __future__ import annotations

from typing import Any, NamedTuple

from monitor.windows.facts import Span
from tests.windows.memory import _Shard

Spans = tuple[Span, ...]


class ShardState(NamedTuple):
    """All that a shard holds, as one value."""

    numbers: tuple[Any, ...]
    progress: frozenset[tuple[int, int]]
    waiting: frozenset[Any]
    seen: frozenset[tuple[int, frozenset[tuple[bytes, int]]]]
    present: frozenset[tuple[int, frozenset[bytes]]]


class ReaderState(NamedTuple):
    """What a reader remembers: positions, partitions that wait, and the write on its way with what it led to."""

    positions: frozenset[tuple[int, int]]
    waiting: frozenset[int]
    writing: Spans
    landed: frozenset[tuple[int, int]] | None


class OwnerState(NamedTuple):
    """What an owner of a ledger partition remembers; `decided` is the ledger's last tick, whoever the owner is."""

    decided: int
    taken_at: int
    end_offsets: frozenset[tuple[int, int]] | None
    read: frozenset[int]


class State(NamedTuple):
    """Everything, at one moment."""

    moment: int
    store: tuple[ShardState, ...]
    replica: tuple[ShardState, ...] | None
    readers: tuple[ReaderState, ...]
    zombies: frozenset[Spans]
    owners: tuple[OwnerState, ...]
    opens: frozenset[tuple[int, int]]
    faults: tuple[int, ...]


def shard_state(shard: _Shard) -> ShardState:
    """All that a shard holds."""
    return ShardState(
        (shard.complete_from, shard.evicted_before, shard.times_evicted_until, shard.opened, shard.shown),
        frozenset(shard.progress.items()),
        frozenset(shard.waiting),
        frozenset((row, frozenset(people.items())) for row, people in shard.seen.items()),
        frozenset((at, frozenset(members)) for at, members in shard.present.items()),
    )


def shard_of_state(state: ShardState) -> _Shard:
    """A shard that holds this."""
    seen = {row: dict(people) for row, people in state.seen}
    present = {at: set(members) for at, members in state.present}
    complete_from, evicted_before, times_evicted_until, opened, shown = state.numbers
    return _Shard(
        dict(state.progress),
        complete_from,
        evicted_before,
        times_evicted_until,
        opened,
        shown,
        set(state.waiting),
        seen,
        present,
    )
