"""The registry of locations."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.config.registry import Location, load_registry
from monitor.errors import ConfigError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "locations.csv"


def problems_of(file: Path, content: str | bytes) -> dict[str, str]:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ConfigError) as caught:
        load_registry(file)
    return {problem.key: problem.expected for problem in caught.value.problems}


def test_locations_keep_file_order(file: Path) -> None:
    """Locations are returned in file order, with optional fields."""
    file.write_text(
        "\ufefflocation_id,name,latitude,longitude,kind,district\r\n"
        'b,"Shop, the",35.5,-139,shop,North\r\n\r\na,,,,,\r\n'
        "渋谷,渋\u3000谷,-90,180,,\r\n",
        encoding="utf-8",
    )
    assert tuple(load_registry(file)) == (
        Location("b", "Shop, the", 35.5, -139.0, "shop", "North"),
        Location("a"),
        Location("渋谷", "渋\u3000谷", -90.0, 180.0),
    )


def test_only_ids_are_required(file: Path) -> None:
    """The columns besides location_id are optional."""
    file.write_text("location_id\na\n" + "ü" * 128 + "\n", encoding="utf-8")
    assert [location.id for location in load_registry(file)] == ["a", "ü" * 128]


@pytest.mark.parametrize(
    ("header", "key", "expected"),
    [
        ("", "the header", "the columns location_id"),
        ("id,name", "none of the 2 columns in the header", "each of them once"),
        ("location_id;name", "the separator of the columns", "a comma"),
        ("location_id,lat,lon", "the header", "columns of location_id[,name,latitude,longitude,kind,district]"),
        ("location_id,location_id", "the column location_id", "it once"),
        ("location_id,latitude", "the header", "one of longitude too, or neither"),
    ],
)
def test_invalid_header_is_refused(file: Path, header: str, key: str, expected: str) -> None:
    """The header must have location_id, no unknown or duplicate columns, and both coordinates or neither."""
    assert problems_of(file, f"{header}\na,1,2\n" if header else "")[key] == expected


def test_all_problems_are_listed(file: Path) -> None:
    """All problems of the rows are listed, by line and column."""
    problems = problems_of(
        file,
        "location_id,name,latitude,longitude\n"
        "a,A,91,0\n"
        "a,A,0,-181\n"
        ",empty,0,0\n"
        "b,B,0\n"
        f"{'x' * 257},,nan,east\n"
        '"c\td",C,0,0\n'
        "d,D\x07,0,0\n"
        "e,E,52.5,\n"
        "e ,E,0,0\n"
        'f,"F,0,0\n',
    )
    assert set(problems) == {
        "line 2, latitude",
        "line 3, location_id",
        "line 3, longitude",
        "line 4, location_id",
        "line 5",
        "line 6, location_id",
        "line 6, latitude",
        "line 6, longitude",
        "line 7, location_id",
        "line 8, name",
        "line 9",
        "line 10, location_id",
        "the quote that opens a cell in line 11",
    }
    assert problems["line 3, location_id"] == "a unique id, but line 2 has the same"
    assert problems["line 10, location_id"].startswith("no space before or after the id")


def test_list_of_problems_is_limited(file: Path) -> None:
    """The first 20 problems are listed, and the others counted."""
    problems = problems_of(file, "location_id\n" + "a\n" * 34)
    assert len(problems) == 21
    assert list(problems)[-1] == "and 13 more"


@pytest.mark.parametrize("content", [b"location_id\n", b"location_id\n\n"])
def test_registry_must_not_be_empty(file: Path, content: bytes) -> None:
    """A registry without locations is refused."""
    assert problems_of(file, content)["the file"] == "at least one"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"location_id\n\xff\n", "1 to 256 bytes of UTF-8 without control characters"),
        (b"location_id,name\na,\xff\n", "text in UTF-8"),
        ("location_id\na\n".encode("utf-16"), "text in UTF-8"),
        ("location_id,名前\na,b\n".encode("shift-jis"), "text in UTF-8"),
        (b'location_id\n"a\n', "a closing quote before the end, line 2"),
        (b'location_id\n"a"b\n', "a separator or the end of the line"),
        (b'location_id\n"a\nb"\n', "one row in a line"),
        (b"location_id\n" + b"x" * 200_000 + b"\n", "1 to 256 bytes of UTF-8 without control characters"),
    ],
)
def test_file_must_be_csv_in_utf8(file: Path, content: bytes, expected: str) -> None:
    """A file that is not CSV in UTF-8 is refused."""
    assert expected in problems_of(file, content).values()


def test_missing_registry_is_refused(file: Path) -> None:
    """A missing registry is refused, and the message says what its path is relative to."""
    with pytest.raises(ConfigError, match="relative to the configuration file"):
        load_registry(file)
