"""Members of a designated time's set: the row as 4 bytes, big-endian, then the person's keyed hash of 16 bytes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.errors import WindowsError
from monitor.windows.packing import MEMBER

_REMEDY: Final = (
    "expected only what this service writes. Delete all keys of the service in Redis; the facts are read again from "
    "the input."
)


def count_members(members: Collection[bytes], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Distinct people by location, from a set's members: all distinct, so that each is one person at one row.

    Args:
        members: 20 bytes each, no two alike.
        rows: the shard's rows in registry order, shape (locations,).

    Returns:
        Counts aligned with `rows`, shape (locations,).

    Raises:
        WindowsError: if a member is not one that we write, for a row of this shard.
    """
    packed = b"".join(members)
    if len(packed) != len(members) * MEMBER.itemsize:
        size = MEMBER.itemsize
        raise WindowsError(f"a designated time's set holds members that are not {size} bytes long: {_REMEDY}")
    found = np.frombuffer(packed, MEMBER)["row"].astype(np.int64)
    places = np.searchsorted(rows, found)
    if found.size and (places.max() == rows.size or not np.array_equal(rows[places], found)):
        raise WindowsError(f"a designated time's set holds locations of another shard: {_REMEDY}")
    return np.bincount(places, minlength=rows.size)
