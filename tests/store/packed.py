"""Single facts, packed and listed."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np

from monitor.kinds.facts_and_questions import CONSENT, PRESENT, SEEN, STAY, Facts, Portion
from monitor.store.packing import pack_facts

_HEAD: Final = struct.Struct(">I")
_PAIR: Final = struct.Struct(">II")
_FACT: Final = struct.Struct(">i16s")


class Seen(NamedTuple):
    """A person last seen at a row in slot `last`, from a record stamped in slot `stamp`."""

    stamp: int
    row: int
    last: int
    person: bytes


class Present(NamedTuple):
    """A person present at a row at a designated time, from a record stamped in slot `stamp`."""

    stamp: int
    instant: int
    row: int
    person: bytes


def list_seen(facts: Facts) -> list[Seen]:
    """Return the people seen, with duplicates."""
    return [Seen(*fact) for fact in facts.seen.tolist()]


def list_present(facts: Facts) -> list[Present]:
    """Return the people present, with duplicates."""
    return [Present(*fact) for fact in facts.present.tolist()]


def unpack_block(stamp: int, block: bytes) -> Iterator[Seen]:
    """Yield the facts of a block, as monitor/store/packing.py describes it."""
    (groups,) = _HEAD.unpack_from(block)
    counts = [_PAIR.unpack_from(block, _HEAD.size + _PAIR.size * group) for group in range(groups)]
    rows = chain.from_iterable([row] * facts for row, facts in counts)
    facts = _FACT.iter_unpack(block[_HEAD.size + _PAIR.size * groups :])
    for row, (ahead, person) in zip(rows, facts, strict=True):
        yield Seen(stamp, row, stamp + ahead, person)


def pack_shard_facts(
    stamp: int,
    seen: Mapping[int, Sequence[tuple[bytes, int]]] | None = None,
    present: Mapping[int, Sequence[tuple[int, bytes]]] | None = None,
    stays: Sequence[tuple[int, int, int, bytes]] = (),
    reported: Mapping[int, Sequence[tuple[bytes, int]]] | None = None,
    bucketed: Mapping[int, Sequence[tuple[bytes, int]]] | None = None,
    stamped: Mapping[int, Sequence[tuple[int, bytes]]] | None = None,
) -> list[Portion]:
    """Pack single facts of one stamp.

    Args:
        stamp: the slot c in which the records were stamped.
        seen: by row, (person, last slot).
        present: by instant, (row, person).
        stays: (instant, length in seconds, row, person).
        reported: by row, (person, last slot), for counts since an earlier tick.
        bucketed: by set of buckets, (person, last slot of the bucket).
        stamped: by instant, (row, person), for counts since an earlier tick.
    """
    visits, reports, buckets = (
        np.array([(stamp, row, last, person) for row, people in (of or {}).items() for person, last in people], SEEN)
        for of in (seen, reported, bucketed)
    )
    timed, latest = (
        np.array([(stamp, at, row, person) for at, people in (of or {}).items() for row, person in people], PRESENT)
        for of in (present, stamped)
    )
    lengths = [(stamp, *stay) for stay in stays]
    facts = Facts(visits, reports, buckets, timed, latest, np.array(lengths, STAY))
    rows = np.concatenate([kind["row"] for kind in facts.list_kinds()]) % CONSENT
    return pack_facts(facts, np.zeros(int(rows.max(initial=0)) + 1, np.int64)).get(0, [])
