"""The strict reader of CSV: no row vanishes in a quote, and all problems of a header are named."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
from pathlib import Path

import pytest

from monitor.config.bounded_lines import BoundedLines, open_lines
from monitor.config.csv_table import Row, Table
from monitor.errors import FileFormatError

HEADER = "person,place,note"


def is_person(cells: list[str]) -> bool:
    return len(cells) > 1 and cells[1] in "abcdz"


def open_table(text: str, delimiter: str = ",") -> tuple[Table, BoundedLines]:
    lines = BoundedLines(Path("x.csv"), io.StringIO(text, newline=""), lambda: len(text))
    return Table(lines, delimiter), lines


def read(text: str) -> list[Row]:
    return list(open_table(text)[0].read_rows(is_person))


def explain(text: str, delimiter: str = ",") -> str:
    table, _lines = open_table(text, delimiter)
    try:
        table.find_columns(("person", "place"), ("note",), position=(("lat",), ("lon",)))
        list(table.read_rows(is_person))
    except FileFormatError as error:
        return str(error)
    return ""


def test_cells_with_line_breaks_are_read() -> None:
    """A cell within quotes may have line breaks, separators and quotes; a row has the number of its first line."""
    text = f'{HEADER}\r\np1,a,"one, two\r\nthree ""four"""\r\n\r\n"p,2",b,5" pipe\r\np3,c,"\n,d"\r\n'
    table, lines = open_table(text)
    assert list(table.read_rows(is_person)) == [
        (2, ["p1", "a", 'one, two\r\nthree "four"']),
        (4, []),
        (5, ["p,2", "b", '5" pipe']),
        (6, ["p3", "c", "\n,d"]),
    ]
    assert (lines.line, lines.joined, lines.first_joined) == (7, 2, 2)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["p1,a,x", 'p2,b,"y', "p3,c,z"], "the quote that opens a cell in line 3 is never closed"),
        (['p1,"a\nb","y', "p3,c,z"], "the quote that opens a cell in line 3 is never closed"),
        (['p1,a,"x', "p2,b,y", 'p3,c,"z', "p4,d,u"], "in line 2 is closed in line 4, and text follows"),
        (['p1,a,"x" ,y'], "in line 2 is closed in line 2, and text follows"),
        (
            ['p1,a,"x', 'p2,b,y"'],
            "the row in lines 2 to 3 is joined by quotes, but line 2 and line 3 can be read alone",
        ),
        (['p1,a,"x', "p2,b,y", "p3,c,z", '"'], "the row in lines 2 to 5 is joined by quotes, but line 2 and line 3"),
        (['"p1,a,x', 'p2",b,y'], "the row in lines 2 to 3 is joined by quotes"),
        (['x,"', "p1,a,", "p2,b,y", '"'], "the row in lines 2 to 5 is joined by quotes, but line 3 and line 4"),
    ],
    ids=["open", "open behind a cell of two lines", "text later", "text behind", "two", "all", "id", "own line"],
)
def test_stray_quotes_are_found(rows: list[str], message: str) -> None:
    """A quote that joins rows ends the reading, with the line in which it opens."""
    assert message in explain("\n".join([HEADER, *rows, "p9,z,"]) + "\n")


def test_no_row_vanishes_in_quotes() -> None:
    """With any two stray quotes at the beginning or end of any cells, no valid row is lost without a word."""
    rows = [["p1", "a", "x"], ["p2", "b", ""], ["p3", "c", "z"], ["p4", "d", "u"]]
    places = [(row, column, side) for row in range(4) for column in range(3) for side in (0, 1)]
    for strays in itertools.chain(itertools.combinations(places, 1), itertools.combinations(places, 2)):
        cells = [list(row) for row in rows]
        for row, column, side in strays:
            cells[row][column] = '"' + cells[row][column] if side == 0 else cells[row][column] + '"'
        touched = {row for row, _column, _side in strays}
        try:
            found = read("\n".join([HEADER, *map(",".join, cells)]) + "\n")
        except FileFormatError:
            continue
        names = {row.cells[0] for row in found if is_person(row.cells)}
        assert {rows[index][0] for index in range(4) if index not in touched} <= names
        assert len(found) + 1 >= len(rows)


@pytest.mark.parametrize(
    ("header", "delimiter", "messages"),
    [
        ("", ",", ["the header is missing: expected the columns person,place"]),
        ("a,b", ",", ["none of the 2 columns in the header is named person, place"]),
        ("person;place;note", ",", ["the separator of the columns is a semicolon: expected a comma"]),
        ("person\tplace", ",", ["the separator of the columns is a tab: expected a comma"]),
        ("person,place", ";", ["the separator of the columns is a comma: expected a semicolon"]),
        ("person, place", ",", ["named place", "Remove the spaces around the names"]),
        (
            "person,note,person,note,lat",
            ",",
            ["named place", "the column person is 2 times", "the column note is 2 times", "half a position (lat)"],
        ),
    ],
)
def test_header_problems_are_listed(header: str, delimiter: str, messages: list[str]) -> None:
    """All problems of a header are listed at once: missing and repeated columns, other separators, half a position."""
    explained = explain(f"{header}\nolga,x\n" if header else "", delimiter)
    assert all(message in explained for message in messages)
    assert "olga" not in explained


def test_unused_columns_are_known() -> None:
    """The columns that nobody asked for are known, also repeated ones."""
    table, lines = open_table("person,x,place,y,x\n")
    assert table.find_columns(("place",), ("note", "person")) == [2, None, 0]
    assert lines.unused == ("x", "y")


FORMATS: dict[str, tuple[str, bytes, str]] = {
    "UTF-16": ("a.csv", HEADER.encode("utf-16"), "is UTF-16"),
    "UTF-16 without a mark": ("a.csv", HEADER.encode("utf-16-be"), "is UTF-16 without a byte order mark"),
    "ZIP": ("stops.txt", b"PK\x03\x04\x14\x00", "stops.txt"),
    "gzip": ("a.csv", gzip.compress(HEADER.encode()), "Give it a name that ends in .gz"),
    "no gzip": ("a.csv.gz", HEADER.encode(), "is not gzipped"),
    "binary": ("a.csv", b"\x01\x00\x03\x04", "is binary"),
    "ZIP in gzip": ("a.csv.gz", gzip.compress(b"PK\x03\x04"), "is a ZIP archive"),
}


@pytest.mark.parametrize(("name", "content", "message"), FORMATS.values(), ids=FORMATS)
def test_other_formats_are_named(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    """A file that is not text in UTF-8 is refused with its format, and what to do."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FileFormatError, match=message), open_lines(tmp_path / name):
        pass


def test_shift_jis_is_refused() -> None:
    """A header that is not UTF-8 is refused, and other encodings are named."""
    text = "person,場所\n".encode("shift-jis").decode(errors="surrogateescape")
    assert "Shift-JIS" in explain(text)


def test_field_limit_stays() -> None:
    """The limit of cells, a setting of the whole process, is as before."""
    before = csv.field_size_limit()
    assert len(read(f"{HEADER}\np1,a,{'x' * 200_000}\n")[0].cells[2]) == 200_000
    assert csv.field_size_limit() == before
