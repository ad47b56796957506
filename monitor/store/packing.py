"""The binary format of facts. The reader packs facts, and Lua scripts unpack them. This module also counts members.

* Seen, and reported, grouped by row, so that one command adds many facts: the number of groups (4 bytes); by group the
  row and the number of its facts (4 bytes each); and by fact the last slot of the visit minus the stamp c (4 bytes,
  signed) and the person's keyed hash (16 bytes).
* Member of the reports of a row: a packed fact without its row. The score is the stamp.
* Bucketed: as seen, with the number of a set of buckets (`Parameters.bucket_sets`) in place of the row, and the last
  slot of the bucket in place of that of the visit. Member of the set: this slot as text, and the person's keyed hash.
* Present, and stamped, sorted by instant: the instant of the designated time (8 bytes, signed), the row (4 bytes,
  unsigned), and the person's keyed hash.
* Stay, sorted by instant: the instant of the designated time (8 bytes, signed), the length in seconds (4 bytes,
  unsigned), the row (4 bytes, unsigned), and the person's keyed hash.
* Member of a designated time's set: the row and the person's keyed hash, which is the end of a packed fact. Of a
  stamped fact, the score is the stamp.
* Consent: a second present fact (and member) of the same person, with `CONSENT` added to the row. It exists only for
  designated times with lower bounds (docs/rules.md, rule 13), so other sets never contain it.

All numbers are big-endian.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from monitor.errors import StoreError
from monitor.kinds.facts_and_questions import (
    CONSENT,
    HASH_BYTES,
    PERSON,
    FactArray,
    Facts,
    Portion,
    Stamps,
    make_facts,
    take_facts,
)

Ints = NDArray[np.int64]
Rows = NDArray[np.int32]

_GROUP: Final = np.dtype([("row", ">u4"), ("facts", ">u4")])
_SEEN: Final = np.dtype([("lead", ">i4"), ("person", PERSON)])
_PRESENT: Final = np.dtype([("instant", ">i8"), ("row", ">u4"), ("person", PERSON)])
_STAY: Final = np.dtype([("instant", ">i8"), ("length", ">u4"), ("row", ">u4"), ("person", PERSON)])
MEMBER: Final = np.dtype([("row", ">u4"), ("person", PERSON)])

PORTION: Final = 10_000
"""The maximum number of facts per portion. A script merges whole portions."""

_REMEDY: Final = (
    "expected only data of this service. Delete the keys of the service in Redis; the service reads the facts from the "
    "input again."
)


def pack_facts(facts: Facts, shard: NDArray[np.int32]) -> dict[int, list[Portion]]:
    """Return the portions by shard, in which scripts read facts. `shard`: the shard of each row; shape (locations,)."""
    packed: dict[int, list[Portion]] = {}
    for kind, order, of_kind in (
        ("s", "row", facts.seen),
        ("r", "row", facts.reported),
        ("b", "row", facts.bucketed),
        ("p", "instant", facts.present),
        ("q", "instant", facts.stamped),
        ("d", "instant", facts.stays),
    ):
        # numpy sorts integers of at most 16 bits in linear time.
        shards = shard[of_kind["row"] % CONSENT % shard.size].astype(np.min_scalar_type(int(shard.max())))
        for number, of_shard in _split(shards, of_kind):
            for stamp, of_stamp in _split(of_shard["stamp"], of_shard):
                ordered = take_facts(of_stamp, np.argsort(of_stamp[order]))
                portions = (ordered[begin : begin + PORTION] for begin in range(0, ordered.size, PORTION))
                packed.setdefault(number, []).extend(Portion(kind, stamp, _PACKERS[kind](some)) for some in portions)
    return packed


def _split(keys: NDArray[Any], facts: FactArray) -> Iterator[tuple[int, FactArray]]:
    """Yield the facts of each key, in ascending order of the keys."""
    if not facts.size:
        return
    if (keys == keys[0]).all():
        yield int(keys[0]), facts
        return
    order = np.argsort(keys, kind="stable")
    keys, facts = keys[order], take_facts(facts, order)
    changes = np.flatnonzero(keys[1:] != keys[:-1]) + 1
    for begin, end in pairwise([0, *changes.tolist(), facts.size]):
        yield int(keys[begin]), facts[begin:end]


def _pack_seen(facts: FactArray) -> bytes:
    row = facts["row"]
    starts = np.concatenate([[0], np.flatnonzero(row[1:] != row[:-1]) + 1])
    groups, body = np.empty(starts.size, _GROUP), np.empty(facts.size, _SEEN)
    groups["row"], groups["facts"] = row[starts], np.diff(starts, append=facts.size)
    body["lead"], body["person"] = facts["last"] - facts["stamp"], facts["person"]
    return b"".join((starts.size.to_bytes(4), groups.tobytes(), body.tobytes()))


def _pack_timed(form: np.dtype[np.void], facts: FactArray) -> bytes:
    return make_facts(form, **{name: facts[name] for name in form.names or ()}).tobytes()


_PACKERS: Final[Mapping[str, Callable[[FactArray], bytes]]] = {
    "s": _pack_seen,
    "r": _pack_seen,
    "b": _pack_seen,
    "p": partial(_pack_timed, _PRESENT),
    "q": partial(_pack_timed, _PRESENT),
    "d": partial(_pack_timed, _STAY),
}


def read_stays(members: Iterable[bytes], lengths: Iterable[float | bytes]) -> list[tuple[bytes, int, int]]:
    """Return the person, row and length in seconds of each member of a designated time with lengths of visits."""
    row_bytes = MEMBER.itemsize - HASH_BYTES
    return [
        (member[row_bytes:], int.from_bytes(member[:row_bytes]), int(float(length)))
        for member, length in zip(members, lengths, strict=True)
    ]


def count_members(members: bytes, rows: Rows) -> tuple[Ints, Ints]:
    """Count the distinct people by location in a designated time's set.

    Args:
        members: distinct members of 20 bytes, each a person at a row, in sequence.
        rows: the shard's rows in registry order, shape (locations,).

    Returns:
        The people at each of `rows`, and how many of them consented; both have shape (locations,).

    Raises:
        StoreError: a member is not in this format, or its row is not in this shard.
    """
    if len(members) % MEMBER.itemsize:
        size = MEMBER.itemsize
        raise StoreError(f"a designated time's set has members that are not {size} bytes long: {_REMEDY}")
    consented, member_rows = _read_rows(members)
    indexes = np.searchsorted(rows, member_rows)
    if indexes.size and (indexes.max() == rows.size or not np.array_equal(rows[indexes], member_rows)):
        raise StoreError(f"a designated time's set has locations of another shard: {_REMEDY}")
    people, consenting = (np.bincount(indexes[which], minlength=rows.size) for which in (~consented, consented))
    return people, consenting


def read_stamps(members: bytes, stamps: bytes, rows: Rows) -> Stamps:
    """Return the latest stamps of the people at a designated time. The members are as in `count_members`.

    `stamps`: the stamp of each member as text, separated by spaces. The members of people who consented are left out.
    """
    consented, member_rows = _read_rows(members)
    latest = np.array(stamps.split(), np.float64).astype(np.int64)
    return Stamps(np.searchsorted(rows, member_rows[~consented]), latest[~consented])


def _read_rows(members: bytes) -> tuple[NDArray[np.bool_], Ints]:
    """Return whether each member is that of a person who consented, and its row."""
    member_rows = np.frombuffer(members, MEMBER)["row"].astype(np.int64)
    return member_rows >= CONSENT, member_rows % CONSENT
