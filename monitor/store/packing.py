"""The binary format of facts. The reader packs facts, and Lua scripts unpack them. This module also counts members.

* Seen: the row (4 bytes, unsigned), the last slot of the visit minus the stamp c (4 bytes, signed), and the person's
  keyed hash (16 bytes). For the script, `group_seen` groups these facts by row, so that one command adds many of them:
  the number of groups (4 bytes); by group the row and the number of its facts (4 bytes each); and by fact the last slot
  minus the stamp, and the hash.
* Present: the instant of the designated time (8 bytes, signed), the row (4 bytes, unsigned), and the person's keyed
  hash. `sort_by_instant` sorts these facts by instant for the script.
* Stay: the instant of the designated time (8 bytes, signed), the length in seconds (4 bytes, unsigned), the row (4
  bytes, unsigned), and the person's keyed hash.
* Member of a designated time's set: the row and the person's keyed hash, which is the end of a packed fact.
* Consent: a second present fact (and member) of the same person, with `CONSENT` added to the row. It exists only for
  designated times with lower bounds (docs/rules.md, rule 13), so other sets never contain it.

All numbers are big-endian.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.errors import WindowsError
from monitor.store.facts import ShardFacts
from monitor.store.hashing import HASH_BYTES

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

SEEN: Final = np.dtype([("row", ">u4"), ("lead", ">i4"), ("person", f"V{HASH_BYTES}")])
PRESENT: Final = np.dtype([("instant", ">i8"), ("row", ">u4"), ("person", f"V{HASH_BYTES}")])
STAY: Final = np.dtype([("instant", ">i8"), ("length", ">u4"), ("row", ">u4"), ("person", f"V{HASH_BYTES}")])
_GROUP: Final = np.dtype([("row", ">u4"), ("facts", ">u4")])
_FACT: Final = np.dtype([("lead", ">i4"), ("person", f"V{HASH_BYTES}")])
MEMBER: Final = np.dtype([("row", ">u4"), ("person", f"V{HASH_BYTES}")])

_PORTION: Final = 10_000
"""The maximum number of facts per waiting member; a script merges whole members."""

CONSENT: Final = 1 << 31
"""The bit of a row that marks the fact that a person consented."""

_REMEDY: Final = (
    "expected only data of this service. Delete the keys of the service in Redis; the service reads the facts from the "
    "input again."
)


def pack_seen(stamp: Ints, row: Ints, last: Ints, people: Bytes) -> NDArray[np.void]:
    """Pack the people seen; stamps, rows and last slots have shape (n,), hashes have shape (n, 16)."""
    packed = np.empty(row.size, SEEN)
    packed["row"], packed["lead"] = row, last - stamp
    packed["person"] = people.view(f"V{HASH_BYTES}").ravel()
    return packed


def pack_present(instant: Ints, row: Ints, people: Bytes) -> NDArray[np.void]:
    """Pack the people present; instants and rows have shape (n,), hashes have shape (n, 16)."""
    packed = np.empty(row.size, PRESENT)
    packed["instant"], packed["row"] = instant, row
    packed["person"] = people.view(f"V{HASH_BYTES}").ravel()
    return packed


def pack_stays(instant: Ints, length: Ints, row: Ints, people: Bytes) -> NDArray[np.void]:
    """Pack visits; instants, lengths in seconds and rows have shape (n,), hashes have shape (n, 16)."""
    packed = np.empty(row.size, STAY)
    packed["instant"], packed["length"], packed["row"] = instant, length, row
    packed["person"] = people.view(f"V{HASH_BYTES}").ravel()
    return packed


def split_by_shard(shard: Ints, stamp: Ints, packed: NDArray[np.void]) -> Iterator[tuple[int, int, bytes]]:
    """Yield packed facts as (shard, stamp, bytes)."""
    if not shard.size:
        return
    order = np.lexsort((stamp, shard))
    shard, stamp, packed = shard[order], stamp[order], packed[order]
    changes = np.flatnonzero((shard[1:] != shard[:-1]) | (stamp[1:] != stamp[:-1])) + 1
    for begin, end in pairwise([0, *changes.tolist(), shard.size]):
        yield int(shard[begin]), int(stamp[begin]), packed[begin:end].tobytes()


def group_seen(packed: bytes, portion: int = _PORTION) -> Iterator[bytes]:
    """Yield the facts seen as blocks for the script, each with at most `portion` facts, sorted by row."""
    facts = np.frombuffer(packed, SEEN)
    facts = facts[np.argsort(facts["row"].astype(np.int64))]
    for begin in range(0, facts.size, portion):
        yield _make_block(facts[begin : begin + portion])


def _make_block(facts: NDArray[np.void]) -> bytes:
    row = facts["row"]
    starts = np.concatenate([[0], np.flatnonzero(row[1:] != row[:-1]) + 1])
    groups, body = np.empty(starts.size, _GROUP), np.empty(facts.size, _FACT)
    groups["row"], groups["facts"] = row[starts], np.diff(starts, append=facts.size)
    body["lead"], body["person"] = facts["lead"], facts["person"]
    return b"".join((starts.size.to_bytes(4), groups.tobytes(), body.tobytes()))


def sort_by_instant(packed: bytes, kind: np.dtype[np.void]) -> bytes:
    """Return packed facts of a kind (`PRESENT` or `STAY`), sorted by designated time."""
    facts = np.frombuffer(packed, kind)
    return facts[np.argsort(facts["instant"], kind="stable")].tobytes()


def group_by_shard(
    seen: Iterable[tuple[int, int, bytes]],
    present: Iterable[tuple[int, int, bytes]],
    stays: Iterable[tuple[int, int, bytes]] = (),
) -> dict[int, list[ShardFacts]]:
    """Return the facts of each stamp by shard; the arguments yield (shard, stamp, packed)."""
    by_slot: dict[tuple[int, int], list[bytes]] = {}
    for at, kind in enumerate((seen, present, stays)):
        for shard, stamp, packed in kind:
            by_slot.setdefault((shard, stamp), [b"", b"", b""])[at] = packed
    facts: dict[int, list[ShardFacts]] = {}
    for (shard, stamp), packed_kinds in sorted(by_slot.items()):
        facts.setdefault(shard, []).append(ShardFacts(stamp, *packed_kinds))
    return facts


def split_portions(facts: Iterable[ShardFacts]) -> Iterator[str | int | bytes]:
    """Yield the script's arguments for each portion: the kind of its facts, their stamp, and the facts."""
    by_stamp: dict[int, list[ShardFacts]] = {}
    for stamped in facts:
        by_stamp.setdefault(stamped.stamp, []).append(stamped)
    for stamp, parts in sorted(by_stamp.items()):
        for block in group_seen(b"".join(part.seen for part in parts)):
            yield from ("s", stamp, block)
        packed = sort_by_instant(b"".join(part.present for part in parts), PRESENT)
        for begin in range(0, len(packed), _PORTION * PRESENT.itemsize):
            yield from ("p", stamp, packed[begin : begin + _PORTION * PRESENT.itemsize])
        packed = sort_by_instant(b"".join(part.stays for part in parts), STAY)
        for begin in range(0, len(packed), _PORTION * STAY.itemsize):
            yield from ("d", stamp, packed[begin : begin + _PORTION * STAY.itemsize])


def read_stays(members: Iterable[bytes], lengths: Iterable[float | bytes]) -> list[tuple[bytes, int, int]]:
    """Return the person, row and length in seconds of each member of a designated time with dwell times."""
    row_bytes = MEMBER.itemsize - HASH_BYTES
    return [
        (member[row_bytes:], int.from_bytes(member[:row_bytes]), int(float(length)))
        for member, length in zip(members, lengths, strict=True)
    ]


def count_members(members: bytes, rows: Ints) -> tuple[Ints, Ints]:
    """Count the distinct people by location in a designated time's set.

    Args:
        members: distinct members of 20 bytes, each a person at a row, in sequence.
        rows: the shard's rows in registry order, shape (locations,).

    Returns:
        The people at each of `rows`, and how many of them consented; both have shape (locations,).

    Raises:
        WindowsError: a member is not in this format, or its row is not in this shard.
    """
    if len(members) % MEMBER.itemsize:
        size = MEMBER.itemsize
        raise WindowsError(f"a designated time's set has members that are not {size} bytes long: {_REMEDY}")
    member_rows = np.frombuffer(members, MEMBER)["row"].astype(np.int64)
    consented, member_rows = member_rows >= CONSENT, member_rows % CONSENT
    indexes = np.searchsorted(rows, member_rows)
    if indexes.size and (indexes.max() == rows.size or not np.array_equal(rows[indexes], member_rows)):
        raise WindowsError(f"a designated time's set has locations of another shard: {_REMEDY}")
    people, consenting = (np.bincount(indexes[which], minlength=rows.size) for which in (~consented, consented))
    return people, consenting
