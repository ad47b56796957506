"""Which failures of the parallel run are final, and which tests run again alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.again import MOST, count_without_servers, find_refusal, read_failed


def test_cache_names_the_failed_tests(tmp_path: Path) -> None:
    """The names of failed tests come from the file in pytest's cache; without the file there are no names."""
    file = tmp_path / "lastfailed"
    assert read_failed(file) == []
    file.write_text(json.dumps({"tests/b.py::test_2": True, "tests/a.py::test_1": True}), encoding="utf-8")
    assert read_failed(file) == ["tests/a.py::test_1", "tests/b.py::test_2"]


@pytest.mark.parametrize(
    ("failed", "without_servers", "final"),
    [(0, 0, True), (1, 0, False), (MOST, 0, False), (MOST + 1, 0, True), (2, 1, True)],
)
def test_final_failures(failed: int, without_servers: int, final: bool) -> None:
    """More than MOST failures, failures of tests without servers, and a failed run without failed tests are final."""
    names = [f"tests/a.py::test_{number}" for number in range(failed)]
    assert bool(find_refusal(1, names, without_servers)) is final


@pytest.mark.parametrize("code", [2, 3, 4, 5])
def test_failed_run_is_final(code: int) -> None:
    """Any exit code but 1, such as that of an interrupted run, is final, although the cache has failed tests."""
    assert find_refusal(code, ["tests/a.py::test_1"], 0)


def test_tests_without_servers_are_counted() -> None:
    """Only the tests that start no servers are counted."""
    without = "tests/observe/test_metrics.py::test_no_created_series"
    with_servers = "tests/ticks/test_input_topic.py::test_end_offsets_count_acknowledged_records"
    assert count_without_servers([without, with_servers]) == 1
    assert count_without_servers([with_servers]) == 0
