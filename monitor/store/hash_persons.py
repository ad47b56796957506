"""Keyed hashes of person ids. Stores contain no person id in the clear (docs/rules.md, rule 10)."""

from __future__ import annotations

import hashlib
import sys
from functools import cached_property
from typing import Final

from monitor.errors import UsageError
from monitor.kinds.facts_and_questions import HASH_BYTES

_LEAST_KEY: Final = 16
_TAG_BYTES: Final = 2
_CACHED: Final = 1_000_000
_CACHED_BYTES: Final = 96 * 1024 * 1024  # for a million ids of 50 letters; an id of 256 bytes may take a kilobyte


class _Generations(dict[str, bytes]):
    """A cache of hashes, which computes missing ones and forgets people not seen since it was last full.

    A hit is one look-up in C, without bookkeeping. There are two generations. When the newer one is full, the older one
    is dropped as a whole. Each has at most half of the people and half of the bytes that the cache may have.
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
    """Keyed BLAKE2b hashes of person ids, 128 bits, cached for at most `cached` people (about 200 bytes each).

    Fewer people are cached if their ids are long.

    Raises:
        UsageError: the key is shorter than 16 bytes. With the key, a reader of the store could find out where each
            person was.
    """

    def __init__(self, key: bytes, cached: int = _CACHED) -> None:
        if len(key) < _LEAST_KEY:
            raise UsageError(
                f"the key that person ids are hashed with (visits.person_key_file) has {len(key)} bytes: expected at "
                f"least {_LEAST_KEY}. Create one with `location-monitor keygen person.key`."
            )
        # BLAKE2b takes keys of at most 64 bytes, so a longer key is replaced by its hash.
        self._key = key if len(key) <= hashlib.blake2b.MAX_KEY_SIZE else hashlib.blake2b(key).digest()
        keyed = hashlib.blake2b(key=self._key, person=b"person", digest_size=HASH_BYTES)
        self._hashes = _Generations(keyed, cached)

    def __call__(self, person_id: str) -> bytes:
        """Return the keyed hash of a person id, 16 bytes."""
        return self._hashes[person_id]

    def hash_many(self, persons: list[str]) -> list[bytes]:
        """Return the keyed hashes of person ids, in their order."""
        return list(map(self._hashes.__getitem__, persons))

    @cached_property
    def key_tag(self) -> str:
        """Four hexadecimal digits by which instances compare their keys.

        They are too few to confirm a guess of the key: one guess in 65,536 has the same tag.
        """
        return hashlib.blake2b(key=self._key, person=b"tag", digest_size=_TAG_BYTES).hexdigest()

    @cached_property
    def key_digest(self) -> bytes:
        """An identifier of the key that does not reveal it: a keyed hash with another personalization, 16 bytes."""
        return hashlib.blake2b(key=self._key, person=b"fingerprint", digest_size=HASH_BYTES).digest()
