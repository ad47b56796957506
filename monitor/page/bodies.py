"""Bodies of responses, built at most once for each state, with their ETag and compressed form."""

from __future__ import annotations

import gzip
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

_KEPT: Final = 64
_LEAST_GZIP: Final = 1_024
_LEVEL: Final = 5


@dataclass(frozen=True, slots=True)
class Body:
    """A body, its compressed form if it is worth it, and its strong ETag without quotes."""

    content: bytes
    compressed: bytes | None
    tag: str


def make_body(content: bytes) -> Body:
    """Return a body with its ETag and its compressed form, which are the same for the same content."""
    compressed = gzip.compress(content, _LEVEL, mtime=0) if len(content) >= _LEAST_GZIP else None
    return Body(content, compressed, hashlib.sha256(content).hexdigest()[:32])


class Bodies:
    """The bodies of the latest states, by key. `state` changes whenever a body may have changed."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[Hashable, Body]] = OrderedDict()

    def get(self, key: Hashable, state: Hashable, build: Callable[[], bytes]) -> Body:
        """Return the body of a key, built again only if the state has changed."""
        found = self._kept.get(key)
        if found is None or found[0] != state:
            found = state, make_body(build())
            self._kept[key] = found
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return found[1]
