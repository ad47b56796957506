"""Bodies of responses, built at most once for each state, with their ETag and compressed form."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

_KEPT: Final = 64
_LEAST_GZIP: Final = 1_024
LEVEL: Final = 5


@dataclass(frozen=True, slots=True)
class Body:
    """A body, its compressed form (None for a short body), and its strong ETag without quotes."""

    content: bytes
    compressed: bytes | None
    tag: str


def make_body(content: bytes) -> Body:
    """Return a body with its ETag and its compressed form, which are the same for the same content."""
    compressed = gzip.compress(content, LEVEL, mtime=0) if len(content) >= _LEAST_GZIP else None
    return Body(content, compressed, hashlib.sha256(content).hexdigest()[:32])


class Bodies:
    """The bodies of the latest states, by key. Use it in one event loop only."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[Hashable, Body]] = OrderedDict()
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    def get(self, key: Hashable, state: Hashable, build: Callable[[], bytes]) -> Body:
        """Return the body of a key. It is built again only if `state`, which decides its content, has changed."""
        return self.find(key, state) or self._keep(key, state, make_body(build()))

    async def get_large(self, key: Hashable, state: Hashable, build: Callable[[], bytes]) -> Body:
        """Return a body as `get` does, but build it in a thread. `build` must not use values that may change."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            found = self.find(key, state)
            if found is None:
                found = self._keep(key, state, await asyncio.to_thread(lambda: make_body(build())))
            return found

    def find(self, key: Hashable, state: Hashable) -> Body | None:
        """Return the body of a key if it was built for this state."""
        kept = self._kept.get(key)
        return kept[1] if kept is not None and kept[0] == state else None

    def _keep(self, key: Hashable, state: Hashable, body: Body) -> Body:
        self._kept[key] = state, body
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return body
