"""Single facts, packed; and packed facts, unpacked by independent code (the format is in monitor/store/packing.py)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from monitor.store.facts import ShardFacts
from monitor.store.packing import PRESENT, SEEN, pack_stays

_SEEN: Final = struct.Struct(">Ii16s")
_PRESENT: Final = struct.Struct(">qI16s")


class Seen(NamedTuple):
    """A person last seen at a row in slot `last`, from a record stamped in slot `stamp`."""

    stamp: int
    shard: int
    row: int
    person: bytes
    last: int


class Present(NamedTuple):
    """A person present at a row at a designated time, from a record stamped in slot `stamp`."""

    stamp: int
    shard: int
    instant: int
    row: int
    person: bytes


def unpack_seen(facts: Mapping[int, Sequence[ShardFacts]]) -> Iterator[Seen]:
    """Return the people seen, with duplicates."""
    for shard, of_stamps in facts.items():
        for some in of_stamps:
            for row, ahead, person in _SEEN.iter_unpack(some.seen):
                yield Seen(some.stamp, shard, row, person, some.stamp + ahead)


def unpack_present(facts: Mapping[int, Sequence[ShardFacts]]) -> Iterator[Present]:
    """Return the people present, with duplicates."""
    for shard, of_stamps in facts.items():
        for some in of_stamps:
            for instant, row, person in _PRESENT.iter_unpack(some.present):
                yield Present(some.stamp, shard, instant, row, person)


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


def pack_people(slot: int, places: int, person: bytes, instant: int) -> ShardFacts:
    """Pack the facts of a person at the first places: in a slot, and at a designated time for half an hour."""
    rows = np.arange(places)
    packed = pack_shard_facts(
        slot, {row: [(person, slot)] for row in range(places)}, {instant: [(row, person) for row in range(places)]}
    )
    hashes = np.frombuffer(person * places, np.uint8).reshape(places, -1)
    stays = pack_stays(np.full(places, instant), np.full(places, 1_800), rows, hashes)
    return replace(packed, stays=stays.tobytes())
