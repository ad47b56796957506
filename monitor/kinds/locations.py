"""The public list of locations as rows and shards. All parameters of monitors refer to its rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from json.encoder import encode_basestring

import numpy as np
from numpy.typing import NDArray


def find_shards(location_ids: Sequence[str], shards: int) -> NDArray[np.int32]:
    """Return the shard of each location: the first 8 bytes of SHA-256 of its id, big-endian, mod `shards`."""
    digests = (hashlib.sha256(location.encode()).digest() for location in location_ids)
    numbers = np.fromiter(digests, "S8", len(location_ids)).view(">u8")
    return (numbers % np.uint64(shards)).astype(np.int32)


def find_shard(location_id: str, shards: int) -> int:
    """Return the shard of one location, as `find_shards` does."""
    return int(find_shards([location_id], shards)[0])


@dataclass(frozen=True)
class Registry:
    """The public list of locations, in file order. The row of a location is its index in this order."""

    ids: Sequence[str]
    shards: int

    @cached_property
    def rows(self) -> Mapping[str, int]:
        """The row of each location id."""
        return dict(zip(self.ids, range(len(self.ids)), strict=True))

    @cached_property
    def shard(self) -> NDArray[np.int32]:
        """The shard of each row; shape (locations,)."""
        return find_shards(self.ids, self.shards)

    @cached_property
    def by_shard(self) -> tuple[NDArray[np.int32], ...]:
        """The rows of each shard, in registry order."""
        # numpy sorts integers of at most 16 bits in linear time.
        order = np.argsort(self.shard.astype(np.min_scalar_type(self.shards)), kind="stable").astype(np.int32)
        ends = np.cumsum(np.bincount(self.shard, minlength=self.shards))
        return tuple(np.split(order, ends[:-1]))

    @cached_property
    def json_lengths(self) -> NDArray[np.int32]:
        """The bytes of each id as a JSON string; shape (locations,)."""
        texts = map(encode_basestring, self.ids)  # as json.dumps without ensure_ascii, in a third of the time
        return np.fromiter(map(len, map(str.encode, texts)), np.int32, len(self.ids))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all ids in file order, each followed by a newline, in hexadecimal."""
        return hashlib.sha256("\n".join((*self.ids, "")).encode()).hexdigest()
