"""A large registry, read in one step, has the same locations, rows, shards and sizes as one read line by line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest

from monitor.config import load_registry
from monitor.config.large_registry import LargeRegistry, find_padded, list_ids, read_large
from monitor.config.location import Location
from monitor.contracts.location_ids import LocationIds
from monitor.contracts.parameters import Registry

PLAIN = b"location_id\ninn\nbath\n"


def make_ids(number: int, seed: int = 1) -> list[str]:
    """Return distinct ids with quotation marks, backslashes, spaces and other scripts."""
    rng, letters = Random(seed), "ab/ '\\é日😀-."
    ids = {"".join(rng.choice(letters) for _ in range(rng.randrange(1, 12))) for _ in range(number)}
    return [f"{text}{place}" if place % 3 else f" {place}{text} " for place, text in enumerate(sorted(ids))]


def write(tmp_path: Path, ids: list[str]) -> Path:
    path = tmp_path / "locations.csv"
    path.write_text("\n".join(["location_id", *ids]) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def both(tmp_path: Path) -> Callable[[list[str]], tuple[tuple[Location, ...], LargeRegistry]]:
    """A function that reads ids by the plain reader, and as a large registry."""

    def read(ids: list[str]) -> tuple[tuple[Location, ...], LargeRegistry]:
        path = write(tmp_path, ids)
        plain, large = load_registry(path), read_large(path.read_bytes(), 1)
        assert isinstance(plain, tuple)
        assert large is not None
        return plain, large

    return read


Both = Callable[[list[str]], tuple[tuple[Location, ...], LargeRegistry]]


def test_locations_are_the_same(both: Both) -> None:
    """Both readers return the same locations in the same order, and find the same ids with white space at an end."""
    plain, large = both(make_ids(3_000))
    assert tuple(large) == plain
    assert large[5:9] == list(plain[5:9])
    assert large[-1] == plain[-1]
    assert list(list_ids(large)) == list(list_ids(plain))
    assert find_padded(large) == find_padded(plain) != []


def test_registries_are_the_same(both: Both) -> None:
    """Rows, shards, digest and sizes of both registries are the same."""
    plain, large = (Registry(list_ids(locations), 7) for locations in both(make_ids(3_000)))
    assert dict(large.rows) == plain.rows
    assert large.shard.tolist() == plain.shard.tolist()
    assert [rows.tolist() for rows in large.by_shard] == [rows.tolist() for rows in plain.by_shard]
    assert large.digest == plain.digest
    sizes = [len(json.dumps(text, ensure_ascii=False).encode()) for text in plain.ids]
    assert large.json_lengths.tolist() == plain.json_lengths.tolist() == sizes


def test_unknown_ids_have_no_row(both: Both) -> None:
    """An id that is not in the registry has no row, also when it is asked for again, or is not valid Unicode."""
    rows = Registry(list_ids(both(["inn", "bath"])[1]), 2).rows
    for text in ("attic", "attic", "", "inn\n", "\ud800"):
        assert text not in rows
        assert rows.get(text, -1) == -1
    assert (rows["bath"], rows["bath"], len(rows), list(rows)) == (1, 1, 2, ["inn", "bath"])


def test_equal_hashes_are_distinguished() -> None:
    """An id is found behind another one with the same hash."""
    ids = LocationIds(b"bath\ninn\n")
    assert not LocationIds(b"bath\ninn\n").rows.may_have_duplicates
    ids.hashes[0] = ids.hashes[1]
    assert ids.rows.may_have_duplicates
    assert ids.rows["inn"] == 1


@pytest.mark.parametrize(
    ("content", "ids"),
    [
        (PLAIN, ["inn", "bath"]),
        (b"location_id\ninn\nbath", ["inn", "bath"]),
        (PLAIN.replace(b"\n", b"\r\n"), ["inn", "bath"]),
        (b"\xef\xbb\xbf" + PLAIN, ["inn", "bath"]),
        ("location_id\nö\n".encode(), ["ö"]),
    ],
)
def test_plain_forms_are_read(content: bytes, ids: list[str]) -> None:
    """Line ends of both kinds, a byte order mark and a missing last line end are read."""
    large = read_large(content, 1)
    assert large is not None
    assert [location.id for location in large] == ids


@pytest.mark.parametrize(
    "content",
    [
        b"location_id,name\ninn,Inn\n",
        b"name\ninn\n",
        b"location_id\n",
        PLAIN + b"inn\n",
        PLAIN + b"\nmill\n",
        PLAIN + b'"mill"\n',
        PLAIN + b"mill,farm\n",
        PLAIN + b"mi\tll\n",
        PLAIN + b"mi\rll\n",
        PLAIN + "mi\x85ll\n".encode(),
        PLAIN + b"mi\x7fll\n",
        PLAIN + b"\xff\n",
        PLAIN + b"\xed\xa0\x80\n",
        PLAIN + b"x" * 257 + b"\n",
    ],
)
def test_plain_reader_gets_other_forms(content: bytes) -> None:
    """Anything with another column, a quotation mark, a control character or a problem is left to the plain reader."""
    assert read_large(content, 1) is None


def test_small_files_stay_plain() -> None:
    """A small registry stays a tuple of locations."""
    assert read_large(PLAIN) is None


def test_lengths_are_those_of_the_ids() -> None:
    """The length of each id is its number of bytes."""
    ids = LocationIds("a\nbé\nccc\n".encode())
    assert ids.count_bytes().tolist() == [1, 3, 3]
    assert np.array_equal(ids.count_json_bytes(), [3, 5, 5])
