"""Facts as bytes: packed once by the reader, sent as they are, and unpacked by the store.

A person who was seen: the row (4 bytes, unsigned), the last slot of the visit less the stamp c (4 bytes, signed), and
the person's keyed hash (16 bytes); sorted by row. A person at a designated time: the instant (8 bytes, signed), the row
(4 bytes, unsigned), and the person's keyed hash; sorted by instant. All numbers are big-endian.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.windows.facts import ShardFacts
from monitor.windows.hashing import HASH_BYTES

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

SEEN: Final = np.dtype([("row", ">u4"), ("ahead", ">i4"), ("person", f"V{HASH_BYTES}")])
PRESENT: Final = np.dtype([("instant", ">i8"), ("row", ">u4"), ("person", f"V{HASH_BYTES}")])
MEMBER: Final = np.dtype([("row", ">u4"), ("person", f"V{HASH_BYTES}")])
"""What a designated time's set holds: the end of a packed fact."""


def pack_seen(stamp: Ints, row: Ints, last: Ints, people: Bytes) -> NDArray[np.void]:
    """Pack who was last seen where; stamps, rows and last slots of shape (n,), hashes of shape (n, 16)."""
    packed = np.empty(row.size, SEEN)
    packed["row"], packed["ahead"] = row, last - stamp
    packed["person"] = people.view(f"V{HASH_BYTES}").ravel()
    return packed


def pack_present(instant: Ints, row: Ints, people: Bytes) -> NDArray[np.void]:
    """Pack who was where at designated times; instants and rows of shape (n,), hashes of shape (n, 16)."""
    packed = np.empty(row.size, PRESENT)
    packed["instant"], packed["row"] = instant, row
    packed["person"] = people.view(f"V{HASH_BYTES}").ravel()
    return packed


def by_shard_and_stamp(
    shard: Ints, stamp: Ints, first: Ints, packed: NDArray[np.void]
) -> Iterator[tuple[int, int, bytes]]:
    """Packed facts as (shard, stamp, bytes), those of one shard and stamp in the order of `first`."""
    if not shard.size:
        return
    order = np.lexsort((first, stamp, shard))
    shard, stamp, packed = shard[order], stamp[order], packed[order]
    changes = np.flatnonzero((shard[1:] != shard[:-1]) | (stamp[1:] != stamp[:-1])) + 1
    for begin, end in pairwise([0, *changes.tolist(), shard.size]):
        yield int(shard[begin]), int(stamp[begin]), packed[begin:end].tobytes()


def grouped(
    seen: Iterable[tuple[int, int, bytes]], present: Iterable[tuple[int, int, bytes]]
) -> dict[int, list[ShardFacts]]:
    """By shard, the facts of each stamp; given as (shard, stamp, packed)."""
    found: dict[tuple[int, int], list[bytes]] = {}
    for at, kind in enumerate((seen, present)):
        for shard, stamp, packed in kind:
            found.setdefault((shard, stamp), [b"", b""])[at] = packed
    facts: dict[int, list[ShardFacts]] = {}
    for (shard, stamp), (who_was_seen, who_was_present) in sorted(found.items()):
        facts.setdefault(shard, []).append(ShardFacts(stamp, who_was_seen, who_was_present))
    return facts


def pack_shard_facts(
    stamp: int,
    seen: Mapping[int, Sequence[tuple[bytes, int]]] | None = None,
    present: Mapping[int, Sequence[tuple[int, bytes]]] | None = None,
) -> ShardFacts:
    """Pack the facts of one stamp, for those who have them one by one.

    Args:
        stamp: the slot c in which the records were stamped.
        seen: by row, (person, last slot).
        present: by instant, (row, person).
    """
    visits = [(row, last - stamp, who) for row, people in sorted((seen or {}).items()) for who, last in people]
    stays = [(at, row, who) for at, people in sorted((present or {}).items()) for row, who in people]
    return ShardFacts(stamp, np.array(visits, SEEN).tobytes(), np.array(stays, PRESENT).tobytes())
