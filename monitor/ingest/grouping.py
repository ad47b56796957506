"""Facts grouped for the store: by shard, and in a shard by watched row or designated time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from monitor.windows.facts import ShardFacts
from monitor.windows.hashing import HASH_BYTES

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_ROW_BYTES = 4


def members(row: Ints, hashes: Bytes) -> Bytes:
    """Pack members of designated times: the row as 4 bytes, big-endian, then the person's hash; shape (n, 20)."""
    packed = np.empty((row.size, _ROW_BYTES + HASH_BYTES), np.uint8)
    packed[:, :_ROW_BYTES] = row.astype(">u4").view(np.uint8).reshape(-1, _ROW_BYTES)
    packed[:, _ROW_BYTES:] = hashes
    return packed


def _runs(*columns: Ints) -> Iterator[tuple[int, int]]:
    """Where runs of equal values begin and end, in columns sorted together."""
    changes = np.zeros(columns[0].size - 1, np.bool_)
    for column in columns:
        changes |= column[1:] != column[:-1]
    bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), columns[0].size]
    return pairwise(bounds)


def add_seen(facts: dict[int, ShardFacts], shard: Ints, row: Ints, people: list[bytes], last: Ints) -> None:
    """Add who was last seen where: n > 0 rows, hashes and last slots; `shard` is by row of the registry."""
    order = np.argsort(row, kind="stable")
    row = row[order]
    ordered = [people[at] for at in order.tolist()]
    slots: list[int] = last[order].tolist()
    for start, end in _runs(row):
        one = int(row[start])
        facts.setdefault(int(shard[one]), ShardFacts()).seen[one] = (ordered[start:end], slots[start:end])


def add_present(facts: dict[int, ShardFacts], shard: Ints, instant: Ints, packed: Bytes) -> None:
    """Add who was where at designated times: n > 0 shards, times and members."""
    order = np.lexsort((shard, instant))
    shard, instant = shard[order], instant[order]
    ordered: list[bytes] = packed[order].view(f"V{packed.shape[1]}").ravel().tolist()
    for start, end in _runs(shard, instant):
        facts.setdefault(int(shard[start]), ShardFacts()).present[int(instant[start])] = ordered[start:end]
