"""Read a large registry in bulk. The reader in `registry.py` takes 5 µs and 250 bytes for each location.

Only the plain form is read here: the one column `location_id`, without quotes, blank lines, control characters or
repeated ids. Any other file is left to the plain reader, which also lists the problems. So both readers accept the same
files, and return the same locations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, overload

import numpy as np

from monitor.config.location import Location
from monitor.contracts.location_ids import LARGE, LocationIds
from monitor.contracts.visits import ID_BYTES

_HEADER: Final = b"location_id\n"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_SPECIAL: Final = bytes({*range(0x20), 0x7F, *b'",'} - {ord("\n")})
"""The ASCII control characters other than a line feed, and the characters with a meaning in CSV."""

_CONTROLS: Final = re.compile(rb"\xc2[\x80-\x9f]")
"""The other control characters (Unicode category Cc), in UTF-8."""


class LargeRegistry(Sequence[Location]):
    """Locations that have only ids. Each access creates the location."""

    def __init__(self, ids: LocationIds) -> None:
        self.ids = ids

    def __len__(self) -> int:
        """Return the number of locations."""
        return len(self.ids)

    @overload
    def __getitem__(self, row: int) -> Location: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[Location]: ...
    def __getitem__(self, row: int | slice) -> Location | Sequence[Location]:
        """Return the location of a row, or those of several rows."""
        if isinstance(row, slice):
            return [Location(location) for location in self.ids[row]]
        return Location(self.ids[row])


def list_ids(locations: Sequence[Location]) -> Sequence[str]:
    """Return the ids of locations, in the form in which a registry keeps them."""
    return locations.ids if isinstance(locations, LargeRegistry) else tuple(location.id for location in locations)


def read_large(content: bytes, least: int = LARGE) -> LargeRegistry | None:
    """Return the locations of a file with at least `least` lines; None if the plain reader has to read the file."""
    if content.count(b"\n") < least:
        return None
    content = content.removeprefix(_BYTE_ORDER_MARK).replace(b"\r\n", b"\n")
    if not content.startswith(_HEADER) or _has_special(content) or not _is_utf8(content):
        return None
    block = content[len(_HEADER) :]
    ids = LocationIds(block if block.endswith(b"\n") else block + b"\n")
    lengths = ids.count_bytes()
    if not lengths.size or lengths.min() < 1 or lengths.max() > ID_BYTES or ids.rows.may_have_duplicates:
        return None
    return LargeRegistry(ids)


def _has_special(content: bytes) -> bool:
    """Return whether there are special characters. A regular expression for all of them takes ten times as long."""
    if len(content.translate(None, _SPECIAL)) < len(content):
        return True
    return not content.isascii() and _CONTROLS.search(content) is not None


def _is_utf8(content: bytes) -> bool:
    if content.isascii():
        return True
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def find_padded(locations: Sequence[Location]) -> list[str]:
    """Return the ids that begin or end with white space."""
    if not isinstance(locations, LargeRegistry):
        return [location.id for location in locations if location.id != location.id.strip()]
    ids = locations.ids
    characters = np.frombuffer(ids.block, np.uint8)
    last = np.cumsum(ids.count_bytes() + 1) - 2
    first = np.concatenate([[0], last[:-1] + 2])
    edges = np.stack([characters[first], characters[last]])
    # A byte above ASCII may be part of white space such as U+3000.
    suspects = np.flatnonzero(((edges == ord(" ")) | (edges > ord("~"))).any(axis=0))
    return [text for row in suspects.tolist() if (text := ids[row]) != text.strip()]
