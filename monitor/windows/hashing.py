"""How a person is named in a store: by a keyed hash, never in the clear (docs/rules.md, rule 10)."""

from __future__ import annotations

import hashlib
import sys
from functools import cached_property
from typing import Final

from monitor.errors import UsageError

HASH_BYTES: Final = 16
"""128 bits: among 10⁹ people a collision, which would be an undercount, has a chance of 10⁻²¹."""

_LEAST_KEY: Final = 16
_CACHED: Final = 1_000_000
_CACHED_BYTES: Final = 96 * 1024 * 1024  # of ids: a million of 50 letters; one of 256 bytes may take a kilobyte


class _Generations(dict[str, bytes]):
    """A cache that fills misses by itself, and that forgets whom it has not seen since it was last full.

    A hit is one look-up in C, with no book-keeping; of two generations the older one is dropped as a whole. Each holds
    half of the most people at most, and ids of half of the most bytes.
    """

    __slots__ = ("_bytes", "_keyed", "_most", "_older")

    def __init__(self, keyed: hashlib.blake2b, most: int) -> None:
        super().__init__()
        self._keyed = keyed
        self._most = max(1, most // 2)
        self._bytes = 0
        self._older: dict[str, bytes] = {}

    def __missing__(self, person_id: str) -> bytes:
        hashed = self._older.get(person_id)
        if hashed is None:
            state = self._keyed.copy()
            state.update(person_id.encode())
            hashed = state.digest()
        self._bytes += sys.getsizeof(person_id)
        if len(self) >= self._most or self._bytes > _CACHED_BYTES // 2:
            self._older = dict(self)
            self.clear()
            self._bytes = sys.getsizeof(person_id)
        self[person_id] = hashed
        return hashed


class PersonHasher:
    """Keyed BLAKE2b of person ids, 128 bits, remembered for at most `cached` people (about 200 bytes each).

    Where ids are long, fewer are remembered.

    Raises:
        UsageError: if the key is shorter than 16 bytes: it could be guessed, and with it who was where.
    """

    def __init__(self, key: bytes, cached: int = _CACHED) -> None:
        if len(key) < _LEAST_KEY:
            raise UsageError(
                f"the key that person ids are hashed with has {len(key)} bytes: expected at least {_LEAST_KEY}. "
                "Make one with `head -c 32 /dev/urandom > person.key`."
            )
        # BLAKE2b takes keys of at most 64 bytes; a longer one counts in full through its hash.
        self._key = key if len(key) <= hashlib.blake2b.MAX_KEY_SIZE else hashlib.blake2b(key).digest()
        keyed = hashlib.blake2b(key=self._key, person=b"person", digest_size=HASH_BYTES)
        self._hashes = _Generations(keyed, cached)

    def __call__(self, person_id: str) -> bytes:
        """The keyed hash of a person id: 16 bytes."""
        return self._hashes[person_id]

    def many(self, persons: list[str]) -> list[bytes]:
        """The keyed hashes of many person ids, in their order."""
        return list(map(self._hashes.__getitem__, persons))

    @cached_property
    def key_digest(self) -> bytes:
        """What tells two keys apart and tells nothing about either: a keyed hash under a name of its own, 16 bytes."""
        return hashlib.blake2b(key=self._key, person=b"fingerprint", digest_size=HASH_BYTES).digest()
