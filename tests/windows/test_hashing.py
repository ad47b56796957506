"""Person ids become keyed hashes: always the same ones, whatever the cache remembers."""

from __future__ import annotations

import hashlib
import sys

import pytest

from monitor.errors import UsageError
from monitor.windows.hashing import PersonHasher

KEY = bytes(range(32))
PEOPLE = [f"person-{number}" for number in range(100)]


def test_a_hash_is_blake2b_of_the_id_under_the_key_in_16_bytes() -> None:
    expected = hashlib.blake2b(b"ann", key=KEY, person=b"person", digest_size=16).digest()
    assert PersonHasher(KEY)("ann") == expected


def test_many_hashes_come_in_the_order_of_the_ids() -> None:
    hasher = PersonHasher(KEY)
    assert hasher.many(["ann", "bob", "ann"]) == [hasher("ann"), hasher("bob"), hasher("ann")]


def test_a_cache_that_overflows_changes_no_hash_and_stays_bounded() -> None:
    hasher, small = PersonHasher(KEY), PersonHasher(KEY, cached=8)
    assert small.many(PEOPLE * 3) == hasher.many(PEOPLE * 3)
    assert len(small._hashes) + len(small._hashes._older) <= 8


def test_a_cache_is_bounded_in_bytes_however_long_ids_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """An id of 256 bytes may take a kilobyte: a million of them would take more memory than the service has."""
    monkeypatch.setattr("monitor.windows.hashing._CACHED_BYTES", 100_000)
    hasher = PersonHasher(KEY)
    people = [f"{number:06d}" + "a" * 240 + "\N{PARTY POPPER}" for number in range(3_000)]
    assert hasher.many(people) == [PersonHasher(KEY)(person) for person in people]
    kept = [*hasher._hashes, *hasher._hashes._older]
    assert 50_000 < sum(map(sys.getsizeof, kept)) <= 100_000


def test_even_a_cache_of_none_works() -> None:
    assert PersonHasher(KEY, cached=0).many(PEOPLE) == PersonHasher(KEY).many(PEOPLE)


def test_another_key_gives_other_hashes() -> None:
    assert PersonHasher(KEY)("ann") != PersonHasher(KEY[::-1])("ann")


def test_all_of_a_long_key_counts() -> None:
    long = b"k" * 100
    assert PersonHasher(long)("ann") != PersonHasher(long[:-1] + b"x")("ann")


def test_the_key_digest_tells_keys_apart_and_is_no_persons_hash() -> None:
    hasher = PersonHasher(KEY)
    assert hasher.key_digest == PersonHasher(KEY).key_digest
    assert hasher.key_digest != PersonHasher(KEY[::-1]).key_digest
    assert hasher.key_digest != hasher("")


@pytest.mark.parametrize("length", [0, 15])
def test_a_key_that_could_be_guessed_is_refused_with_a_way_to_make_one(length: int) -> None:
    with pytest.raises(UsageError, match="urandom"):
        PersonHasher(b"k" * length)
