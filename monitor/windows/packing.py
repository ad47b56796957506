"""The binary format of facts. The reader packs facts, and Lua scripts unpack them. This module also counts members.

* Seen: the row (4 bytes, unsigned), the last slot of the visit minus the stamp c (4 bytes, signed), and the person's
  keyed hash (16 bytes). For the script, `group_seen` converts these facts to blocks, which are sorted by row and hash:
  the number of digits d, the number of facts and the number of groups (4 bytes each); by group the row and the number
  of its facts (4 bytes each); by fact the first 4 bytes of the hash; and by fact the last slot as text of d characters
  and the hash. So the script can pass many facts to one command without reading them one by one. A group has at most
  2,000 facts.
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

import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from monitor.errors import WindowsError
from monitor.windows.facts import ShardFacts
from monitor.windows.hashing import HASH_BYTES

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

SEEN: Final = np.dtype([("row", ">u4"), ("ahead", ">i4"), ("person", f"V{HASH_BYTES}")])
PRESENT: Final = np.dtype([("instant", ">i8"), ("row", ">u4"), ("person", f"V{HASH_BYTES}")])
STAY: Final = np.dtype([("instant", ">i8"), ("length", ">u4"), ("row", ">u4"), ("person", f"V{HASH_BYTES}")])
MEMBER: Final = np.dtype([("row", ">u4"), ("person", f"V{HASH_BYTES}")])

_LARGEST_GROUP: Final = 2_000
"""The maximum number of facts in a group. A script puts their hashes on the stack of Lua, whose size is limited."""

_PORTION: Final = 10_000
"""The maximum number of facts per waiting member; a script merges whole members."""

_FEW: Final = 100
"""Blocks of fewer facts are packed one by one, which takes less time than the fixed costs of arrays (0.2 ms)."""

_FACT: Final = struct.Struct(f">Ii{HASH_BYTES}s")  # as SEEN
_HEAD: Final = struct.Struct(">III")
_GROUP: Final = struct.Struct(">II")

CONSENT: Final = 1 << 31
"""The bit of a row that marks the fact that a person consented."""

_REMEDY: Final = (
    "expected only data of this service. Delete the keys of the service in Redis; the service reads the facts from the "
    "input again."
)


def pack_seen(stamp: Ints, row: Ints, last: Ints, people: Bytes) -> NDArray[np.void]:
    """Pack the people seen; stamps, rows and last slots have shape (n,), hashes have shape (n, 16)."""
    packed = np.empty(row.size, SEEN)
    packed["row"], packed["ahead"] = row, last - stamp
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


def group_seen(stamp: int, packed: bytes, portion: int) -> Iterator[bytes]:
    """Yield the facts seen as blocks for the script, each with at most `portion` facts, sorted by row and hash."""
    if len(packed) < min(_FEW, portion) * SEEN.itemsize:
        if packed:
            yield _make_small_block(stamp, packed)
        return
    facts = np.frombuffer(packed, SEEN)
    hashes = np.ascontiguousarray(facts["person"]).view(">u4")[:: HASH_BYTES // 4].astype(np.uint64)
    order = np.argsort((facts["row"].astype(np.uint64) << np.uint64(32)) | hashes)
    facts, hashes = facts[order], hashes[order].astype(">u4")
    for begin in range(0, len(facts), portion):
        yield _make_block(stamp, facts[begin : begin + portion], hashes[begin : begin + portion])


def _make_small_block(stamp: int, packed: bytes) -> bytes:
    """Return what `_make_block` returns for the same facts."""
    facts = sorted(_FACT.iter_unpack(packed), key=itemgetter(0, 2))
    texts = [str(stamp + ahead).encode() for _, ahead, _ in facts]
    digits = max(map(len, texts))
    groups = [_GROUP.pack(row, len(list(of_row))) for row, of_row in groupby(facts, key=itemgetter(0))]
    hashes = [person[:4] for _, _, person in facts]
    body = [text.zfill(digits) + person for text, (_, _, person) in zip(texts, facts, strict=True)]
    return b"".join((_HEAD.pack(digits, len(facts), len(groups)), *groups, *hashes, *body))


def _make_block(stamp: int, facts: NDArray[np.void], hashes: NDArray[Any]) -> bytes:
    ahead, place = np.unique(facts["ahead"].astype(np.int64), return_inverse=True)
    texts = [str(stamp + slot).encode() for slot in ahead.tolist()]
    digits = max(map(len, texts))
    body = np.empty(len(facts), [("last", f"S{digits}"), ("person", SEEN["person"])])
    body["last"] = np.array([text.zfill(digits) for text in texts])[place]  # zfill keeps a sign in front
    body["person"] = facts["person"]
    row = facts["row"]
    starts = np.flatnonzero(np.concatenate([[True], row[1:] != row[:-1]]))
    starts = np.union1d(starts, np.arange(0, len(facts), _LARGEST_GROUP))
    groups = np.empty((len(starts), 2), ">u4")
    groups[:, 0], groups[:, 1] = row[starts], np.diff(starts, append=len(facts))
    head = np.array([digits, len(facts), len(starts)], ">u4")
    return b"".join(part.tobytes() for part in (head, groups, hashes, body))


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
    by_place: dict[tuple[int, int], list[bytes]] = {}
    for at, kind in enumerate((seen, present, stays)):
        for shard, stamp, packed in kind:
            by_place.setdefault((shard, stamp), [b"", b"", b""])[at] = packed
    facts: dict[int, list[ShardFacts]] = {}
    for (shard, stamp), packed_kinds in sorted(by_place.items()):
        facts.setdefault(shard, []).append(ShardFacts(stamp, *packed_kinds))
    return facts


def split_portions(facts: Iterable[ShardFacts]) -> Iterator[str | int | bytes]:
    """Yield the script's arguments for each portion: the kind of its facts, their stamp, and the facts."""
    by_stamp: dict[int, list[ShardFacts]] = {}
    for stamped in facts:
        by_stamp.setdefault(stamped.stamp, []).append(stamped)
    for stamp, parts in sorted(by_stamp.items()):
        for block in group_seen(stamp, b"".join(part.seen for part in parts), _PORTION):
            yield from ("s", stamp, block)
        packed = sort_by_instant(b"".join(part.present for part in parts), PRESENT)
        for begin in range(0, len(packed), _PORTION * PRESENT.itemsize):
            yield from ("p", stamp, packed[begin : begin + _PORTION * PRESENT.itemsize])
        packed = sort_by_instant(b"".join(part.stays for part in parts), STAY)
        for begin in range(0, len(packed), _PORTION * STAY.itemsize):
            yield from ("d", stamp, packed[begin : begin + _PORTION * STAY.itemsize])


def pack_windows(windows: Iterable[tuple[int, int]]) -> Iterator[int | bytes]:
    """Yield the arguments of the script that counts windows (row, first slot): a first slot, then the rows with it.

    A script reads many rows from one argument faster than from many. The order of the windows is kept.
    """
    for start, pairs in groupby(windows, key=itemgetter(1)):
        yield from (start, np.fromiter((row for row, _ in pairs), ">u4").tobytes())


def pack_shard_facts(
    stamp: int,
    seen: Mapping[int, Sequence[tuple[bytes, int]]] | None = None,
    present: Mapping[int, Sequence[tuple[int, bytes]]] | None = None,
) -> ShardFacts:
    """Pack single facts of one stamp.

    Args:
        stamp: the slot c in which the records were stamped.
        seen: by row, (person, last slot).
        present: by instant, (row, person).
    """
    visits = [(row, last - stamp, person) for row, people in sorted((seen or {}).items()) for person, last in people]
    stays = [(at, row, person) for at, people in sorted((present or {}).items()) for row, person in people]
    return ShardFacts(stamp, np.array(visits, SEEN).tobytes(), np.array(stays, PRESENT).tobytes())


def read_stays(members: Iterable[tuple[bytes, float]]) -> list[tuple[bytes, int, int]]:
    """Return the person, row and length in seconds of each (member, length) of a designated time with dwell times."""
    row_bytes = MEMBER.itemsize - HASH_BYTES
    return [(member[row_bytes:], int.from_bytes(member[:row_bytes]), int(length)) for member, length in members]


def count_members(members: Collection[bytes], rows: Ints) -> tuple[Ints, Ints, Ints]:
    """Count the distinct people by location in a designated time's set.

    Args:
        members: distinct members of 20 bytes, each a person at a row.
        rows: the shard's rows in registry order, shape (locations,).

    Returns:
        The places in `rows` that have people, ascending; and for each, the people, and how many of them consented.

    Raises:
        WindowsError: a member is not in this format, or its row is not in this shard.
    """
    packed = b"".join(members)
    if len(packed) != len(members) * MEMBER.itemsize:
        size = MEMBER.itemsize
        raise WindowsError(f"a designated time's set has members that are not {size} bytes long: {_REMEDY}")
    member_rows = np.frombuffer(packed, MEMBER)["row"].astype(np.int64)
    consented = member_rows >= CONSENT
    visited, index = np.unique(member_rows % CONSENT, return_inverse=True)
    places = np.searchsorted(rows, visited)
    if visited.size and (places[-1] == rows.size or not np.array_equal(rows[places], visited)):
        raise WindowsError(f"a designated time's set has locations of another shard: {_REMEDY}")
    people, consenting = (np.bincount(index[which], minlength=visited.size) for which in (~consented, consented))
    return places, people, consenting
