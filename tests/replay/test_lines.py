"""A replay file line by line: what is a visit, when it is reported, and what the good ones span."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from monitor.errors import UsageError
from monitor.public.instants import format_instant
from monitor.public.parameters import Parameters
from monitor.tools.replay.lines import Extent, Line, read_lines

HEADER = "person_id,location_id,arrived_at,left_at,reported_at"
Write = Callable[..., Path]


def read(path: Path, parameters: Parameters) -> tuple[list[Line], Extent]:
    extent = Extent(parameters)
    return list(read_lines(path, extent)), extent


def hour(number: int, minute: int = 0) -> str:
    return f"2026-11-20T{number:02}:{minute:02}:00Z"


def test_a_visit_is_reported_when_it_says_else_when_it_ends_else_after_the_default_stay(
    parameters: Parameters, write: Write
) -> None:
    path = write(
        HEADER,
        f"a,inn,{hour(3)},{hour(4)},{hour(9)}",
        f"b,inn,{hour(3)},{hour(4)},",
        f"c,inn,{hour(3)},,",
    )
    lines, _extent = read(path, parameters)
    assert [format_instant(line.reported_at) for line in lines] == [hour(9), hour(4), hour(3, 15)]
    assert [json.loads(line.payload) for line in lines] == [
        {"person_id": "a", "location_id": "inn", "arrived_at": hour(3), "left_at": hour(4)},
        {"person_id": "b", "location_id": "inn", "arrived_at": hour(3), "left_at": hour(4)},
        {"person_id": "c", "location_id": "inn", "arrived_at": hour(3)},
    ]


def test_columns_come_in_any_order_and_the_optional_ones_may_be_absent(parameters: Parameters, write: Write) -> None:
    lines, _extent = read(write("arrived_at,note,location_id,person_id", f"{hour(5)},hi,inn,a"), parameters)
    assert json.loads(lines[0].payload) == {"person_id": "a", "location_id": "inn", "arrived_at": hour(5)}


def test_a_line_that_is_no_visit_comes_just_before_the_next_good_one_or_after_the_last(
    parameters: Parameters, write: Write
) -> None:
    good = f"a,inn,{hour(3)},{hour(4)},"
    lines, extent = read(write(HEADER, "x", good, f"b,inn,{hour(5)},{hour(4)},", f"c,inn,{hour(6)},,noon"), parameters)
    assert [(line.number, line.is_visit, format_instant(line.reported_at)) for line in lines] == [
        (0, False, hour(4)),
        (1, True, hour(4)),
        (2, False, hour(4)),
        (3, False, hour(4)),
    ]
    assert (extent.lines, extent.bad) == (4, 3)


def test_bytes_that_are_no_utf_8_are_kept_as_they_are(parameters: Parameters, write: Write) -> None:
    lines, _extent = read(write(HEADER, f"\udcff,inn,{hour(3)},,", f"a,inn,{hour(3)},,"), parameters)
    assert b"\xff" in lines[0].payload
    assert not lines[0].is_visit


def test_an_id_of_a_megabyte_is_a_bad_line_and_no_fault_of_the_reader(parameters: Parameters, write: Write) -> None:
    lines, _extent = read(write(HEADER, f"{'x' * 1_000_000},inn,{hour(3)},,", f"a,inn,{hour(3)},,"), parameters)
    assert [line.is_visit for line in lines] == [False, True]


def test_a_gzipped_file_is_read_like_a_plain_one(parameters: Parameters, write: Write) -> None:
    plain = write(HEADER, f"a,inn,{hour(3)},,")
    packed = plain.with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read(packed, parameters)[0] == read(plain, parameters)[0]


def test_it_spans_the_first_slot_to_the_last_tick_of_any_window_or_horizon(
    parameters: Parameters, write: Write
) -> None:
    #   slot   3 … 7 (last slot of b) … 13 = 7 + the longer of W = 3 and the horizon of 6 slots
    _lines, extent = read(write(HEADER, f"b,inn,{hour(7)},,", f"a,bath,{hour(3)},,{hour(5)}"), parameters)
    assert (extent.first_tick, extent.last_tick) == (3, 13)


def test_visits_outside_the_registry_span_nothing_and_a_far_departure_is_cut_at_f_slots(
    parameters: Parameters, write: Write
) -> None:
    _lines, extent = read(write(HEADER, f"a,attic,{hour(1)},,", f"b,inn,{hour(3)},{hour(20)},{hour(3)}"), parameters)
    assert (extent.first_tick, extent.last_tick) == (3, 3 + 1 + 6)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("person_id,arrived_at", "a,b"), "the header lacks location_id"),
        (("",), "the header lacks person_id, location_id, arrived_at"),
        ((HEADER, "no visit"), "none of its 1 lines is a valid visit"),
        ((HEADER,), "none of its 0 lines is a valid visit"),
    ],
)
def test_what_holds_no_visit_is_refused_with_what_was_expected(
    parameters: Parameters, write: Write, lines: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        read(write(*lines), parameters)


def test_a_truncated_gzip_file_is_refused(parameters: Parameters, write: Write) -> None:
    path = write(HEADER, f"a,inn,{hour(3)},,")
    packed = path.with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(path.read_bytes() * 100)[:-20])
    with pytest.raises(UsageError, match="cannot be read as CSV"):
        read(packed, parameters)
