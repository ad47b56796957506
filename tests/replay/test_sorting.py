"""Lines are sorted by report, also where they don't fit in memory."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from monitor.tools.replay.lines import Line
from monitor.tools.replay.sorting import SortedLines


def lines(number: int, seed: int = 5) -> list[Line]:
    draw = random.Random(seed)
    return [Line(draw.randrange(number // 3), n, str(n).encode(), n % 7 > 0) for n in range(number)]


@pytest.mark.parametrize("run_lines", [1, 10, 99, 100, 101, 1_000])
def test_lines_come_by_report_then_by_their_place_in_the_file(run_lines: int) -> None:
    given, read = lines(100), list[None]()
    with closing(SortedLines(given, lambda: read.append(None), run_lines)) as found:
        assert list(found) == sorted(given)
        assert list(found) == sorted(given), "they can be gone through again"
    assert len(read) == 100


def test_runs_of_many_blocks_are_merged() -> None:
    given = lines(9_000)
    with closing(SortedLines(given, lambda: None, 4_100)) as found:
        assert [line.number for line in found] == [line.number for line in sorted(given)]


def test_temporary_files_go_with_it() -> None:
    found = SortedLines(lines(100), lambda: None, 10)
    folder = Path(found._folder.name)
    assert len(list(folder.iterdir())) == 10
    found.close()
    assert not folder.exists()


def test_nothing_is_written_where_all_fits() -> None:
    with closing(SortedLines(lines(50), lambda: None, 100)) as found:
        assert list(Path(found._folder.name).iterdir()) == []
        assert len(list(found)) == 50


def test_no_lines_are_no_lines() -> None:
    with closing(SortedLines([], lambda: None)) as found:
        assert list(found) == []
