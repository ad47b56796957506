"""Keyed hashes of person ids do not depend on the state of the cache."""

from __future__ import annotations

import hashlib
import tracemalloc

import pytest

from monitor.errors import UsageError
from monitor.store.hash_persons import PersonHasher

KEY = bytes(range(32))
PEOPLE = [f"person-{number}" for number in range(100)]


@pytest.mark.promise(22)
def test_hash_is_blake2b() -> None:
    """A hash is the keyed BLAKE2b of the id, in 16 bytes."""
    expected = hashlib.blake2b(b"ann", key=KEY, person=b"person", digest_size=16).digest()
    assert PersonHasher(KEY)("ann") == expected


@pytest.mark.parametrize("cached", [0, 8])
def test_full_cache(cached: int) -> None:
    """A full cache changes no hash, and hashes are in the order of the ids."""
    hasher = PersonHasher(KEY)
    assert PersonHasher(KEY, cached).hash_many(PEOPLE * 3) == [hasher(person) for person in PEOPLE * 3]


@pytest.mark.parametrize(("cached", "cached_bytes"), [(50, 10**9), (10**6, 50_000)])
def test_cache_is_bounded(cached: int, cached_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache is bounded in people and in bytes: an id of 256 bytes may take a kilobyte."""
    monkeypatch.setattr("monitor.store.hash_persons._CACHED_BYTES", cached_bytes)
    hasher = PersonHasher(KEY, cached)
    tracemalloc.start()
    try:
        for number in range(3_000):
            hasher(f"{number:06d}" + "a" * 240 + "\N{PARTY POPPER}")
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 25_000 < kept < 80_000


def test_long_key() -> None:
    """All bytes of a long key count."""
    long = b"k" * 100
    assert PersonHasher(long)("ann") != PersonHasher(long[:-1] + b"x")("ann")


def test_key_digest() -> None:
    """The key digest differs between keys, and is not the hash of a person."""
    hasher = PersonHasher(KEY)
    assert hasher.key_digest == PersonHasher(KEY).key_digest
    assert hasher.key_digest != PersonHasher(KEY[::-1]).key_digest
    assert hasher.key_digest != hasher("")


@pytest.mark.parametrize("length", [0, 15])
def test_short_key_is_refused(length: int) -> None:
    """A short key is refused, with a command that creates one."""
    with pytest.raises(UsageError, match="keygen"):
        PersonHasher(b"k" * length)


@pytest.mark.promise(23)
def test_key_tag_reveals_no_key() -> None:
    """Two keys have different tags, and a tag has 16 bits, so it confirms no guess."""
    tags = {PersonHasher(bytes([number]) * 32).key_tag for number in range(1, 6)}
    assert len(tags) == 5
    assert {len(bytes.fromhex(tag)) for tag in tags} == {2}
    assert PersonHasher(KEY).key_digest.hex()[:4] != PersonHasher(KEY).key_tag
