"""Keyed hashes of person ids do not depend on the state of the cache."""

from __future__ import annotations

import hashlib
import sys

import pytest

from monitor.errors import UsageError
from monitor.store.hashing import PersonHasher

KEY = bytes(range(32))
PEOPLE = [f"person-{number}" for number in range(100)]


@pytest.mark.promise(22)
def test_hash_is_blake2b() -> None:
    """A hash is the keyed BLAKE2b of the id, in 16 bytes."""
    expected = hashlib.blake2b(b"ann", key=KEY, person=b"person", digest_size=16).digest()
    assert PersonHasher(KEY)("ann") == expected


def test_order_of_hashes() -> None:
    """Hashes are in the order of the ids."""
    hasher = PersonHasher(KEY)
    assert hasher.hash_many(["ann", "bob", "ann"]) == [hasher("ann"), hasher("bob"), hasher("ann")]


def test_full_cache() -> None:
    """A full cache stays bounded, and changes no hash."""
    hasher, small = PersonHasher(KEY), PersonHasher(KEY, cached=8)
    assert small.hash_many(PEOPLE * 3) == hasher.hash_many(PEOPLE * 3)
    assert len(small._hashes) + len(small._hashes._older) <= 8


def test_cache_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache is bounded in bytes: an id of 256 bytes may take a kilobyte."""
    monkeypatch.setattr("monitor.store.hashing._CACHED_BYTES", 100_000)
    hasher = PersonHasher(KEY)
    people = [f"{number:06d}" + "a" * 240 + "\N{PARTY POPPER}" for number in range(3_000)]
    assert hasher.hash_many(people) == [PersonHasher(KEY)(person) for person in people]
    kept = [*hasher._hashes, *hasher._hashes._older]
    assert 50_000 < sum(map(sys.getsizeof, kept)) <= 100_000


def test_cache_of_size_zero() -> None:
    """A cache of size zero works."""
    assert PersonHasher(KEY, cached=0).hash_many(PEOPLE) == PersonHasher(KEY).hash_many(PEOPLE)


def test_key_changes_hashes() -> None:
    """Another key gives other hashes."""
    assert PersonHasher(KEY)("ann") != PersonHasher(KEY[::-1])("ann")


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
