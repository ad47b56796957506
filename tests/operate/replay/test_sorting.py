"""Lines are sorted by report, also if they do not fit in memory."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from monitor.operate.replay.read_visits import Line, SortedLines


def lines(number: int, seed: int = 5) -> list[Line]:
    draw = random.Random(seed)
    return [Line(draw.randrange(number // 3), n, str(n).encode(), n % 7 > 0) for n in range(number)]


@pytest.mark.parametrize("run_lines", [1, 10, 99, 100, 101, 1_000])
def test_order_of_lines(run_lines: int) -> None:
    """Lines are ordered by report, then by their place in the file, for any number of lines in memory."""
    given, read = lines(100), list[None]()
    with closing(SortedLines(given, lambda: read.append(None), run_lines)) as merged:
        assert list(merged) == sorted(given)
        assert list(merged) == sorted(given), "the lines can be read again"
    assert len(read) == 100


def test_runs_of_many_blocks_are_merged() -> None:
    """Runs longer than a block are merged in order."""
    given = lines(9_000)
    with closing(SortedLines(given, lambda: None, 4_100)) as merged:
        assert [line.number for line in merged] == [line.number for line in sorted(given)]


@pytest.mark.parametrize(("run_lines", "files"), [(10, 10), (100, 1), (101, 0)])
def test_temporary_files(run_lines: int, files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a file for each run, and none if all lines fit in memory. `close` removes them."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with closing(SortedLines(lines(100), lambda: None, run_lines)):
        assert sum(path.is_file() for path in tmp_path.rglob("*")) == files
    assert not list(tmp_path.iterdir())


def test_no_lines() -> None:
    """Without lines, nothing is yielded."""
    with closing(SortedLines([], lambda: None)) as merged:
        assert list(merged) == []
