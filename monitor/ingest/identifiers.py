"""Validation of ids in bulk."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from monitor.contracts.visits import ID_BYTES, is_identifier

_NEWLINE = ord("\n")


def _are_plain(ids: list[str]) -> bool:
    """Return whether all ids are printable ASCII of a valid length.

    If they are, the newlines between the joined ids are the only unprintable bytes.
    """
    joined = np.frombuffer(("\n".join(ids) + "\n").encode("utf-8", "surrogatepass"), np.uint8)
    unprintable = np.flatnonzero((joined - np.uint8(0x20)) > (0x7E - 0x20))
    if unprintable.size != len(ids) or (joined[unprintable] != _NEWLINE).any():
        return False
    steps = np.diff(unprintable, prepend=-1)
    return bool(steps.min() > 1 and steps.max() <= ID_BYTES + 1)


def check_identifiers(ids: list[str]) -> NDArray[np.bool_]:
    """Return which ids are valid (`is_identifier`); shape (n,). Each distinct id is checked at most once."""
    if not ids or _are_plain(ids):
        return np.ones(len(ids), np.bool_)
    bad = {text for text in set(ids) if not is_identifier(text)}
    if not bad:
        return np.ones(len(ids), np.bool_)
    return np.array([text not in bad for text in ids], np.bool_)
