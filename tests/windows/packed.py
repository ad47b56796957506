"""Packed facts one by one, read by a few lines of their own (monitor/windows/packing.py says what the bytes are)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from monitor.windows.facts import ShardFacts

_SEEN: Final = struct.Struct(">Ii16s")
_PRESENT: Final = struct.Struct(">qI16s")


class Seen(NamedTuple):
    """A person was last seen at a row in slot `last`, as a record stamped in slot `stamp` says."""

    stamp: int
    shard: int
    row: int
    person: bytes
    last: int


class Present(NamedTuple):
    """A person was at a row at a designated time, as a record stamped in slot `stamp` says."""

    stamp: int
    shard: int
    instant: int
    row: int
    person: bytes


def seen_in(facts: Mapping[int, Sequence[ShardFacts]]) -> Iterator[Seen]:
    """Who was seen, as often as it is packed."""
    for shard, of_stamps in facts.items():
        for some in of_stamps:
            for row, ahead, person in _SEEN.iter_unpack(some.seen):
                yield Seen(some.stamp, shard, row, person, some.stamp + ahead)


def present_in(facts: Mapping[int, Sequence[ShardFacts]]) -> Iterator[Present]:
    """Who was present, as often as it is packed."""
    for shard, of_stamps in facts.items():
        for some in of_stamps:
            for instant, row, person in _PRESENT.iter_unpack(some.present):
                yield Present(some.stamp, shard, instant, row, person)
