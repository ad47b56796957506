"""Known mutants can be applied to the present code, and a change is found in any layout and with any comments."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mutants.mutants import Change, apply_change, read_mutants

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).parents[2]

MODULE = """
def first(numbers):
    # a comment
    total = sum(numbers)
    return total + 1


class Second:
    def total(self, numbers):
        for number in numbers:
            if number > 1:
                continue
            print(number,
                  number > 1)
        return max(numbers) + 1
"""

Mutate = Callable[..., str]


@pytest.fixture
def mutate(tmp_path: Path) -> Mutate:
    """A function that applies one change to MODULE, and returns the new text: `mutate("first", find, replace)`."""

    def apply(function: str, find: str, replace: str = "", file: str = "module.py") -> str:
        (tmp_path / file).write_text(MODULE, encoding="utf-8")
        apply_change(Change("some.toml", file, find, replace, function), tmp_path)
        return (tmp_path / file).read_text(encoding="utf-8")

    return apply


def test_named_files_exist() -> None:
    """The file of each test that a known mutant names exists."""
    files = {test.partition("::")[0] for mutant in read_mutants() for test in mutant.tests}
    assert [file for file in sorted(files) if not (REPOSITORY / file).is_file()] == []


def test_every_mutant_applies(tmp_path: Path) -> None:
    """Each known mutant changes each of its files, and uses no name that is undefined there."""
    for mutant in read_mutants():
        root = tmp_path / mutant.name
        for file in {change.file for change in mutant.changes}:
            copy = root / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(REPOSITORY / file, copy)
        for change in mutant.changes:
            before = (root / change.file).read_bytes()
            apply_change(change, root)
            assert (root / change.file).read_bytes() != before, f"{mutant.name} changes nothing"
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select", "F821", str(tmp_path)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_expression_is_replaced_in_its_function(mutate: Mutate) -> None:
    """An expression that is in two functions is replaced in the one that is named, in any layout."""
    assert "return sum(numbers)\n" in mutate("first", "total + 1", "sum(numbers)")
    assert "return max(numbers) + 2" in mutate("Second.total", "max( numbers )  + 1", "max(numbers) + 2")


def test_statements_are_replaced(mutate: Mutate) -> None:
    """Statements are replaced or deleted wherever they are. A body that becomes empty gets `pass`."""
    assert "if number > 1:\n                pass" in mutate("Second.total", "continue")
    assert mutate("first", "total = sum(numbers)", "total = 0\ntotal += 1").count("total += 1") == 1


def test_text_of_other_files_is_replaced(mutate: Mutate) -> None:
    """In a file that is not Python, a quoted text is replaced."""
    assert "-- a comment" in mutate("", "# a comment", "-- a comment", file="script.lua")


@pytest.mark.parametrize(
    ("function", "find", "message"),
    [
        ("first", "totals + 1", r"(?s)first of module.py contains this code 0 times.*most similar.*\ntotal \+ 1\n"),
        ("Second.total", "number > 1", r"Second.total of module.py contains this code 2 times, expected once"),
        ("Second.first", "number", r"module.py has 0 definitions of Second.first: expected one"),
    ],
    ids=["gone", "twice", "no such function"],
)
def test_stale_mutant_is_reported(mutate: Mutate, function: str, find: str, message: str) -> None:
    """A change that is not found exactly once fails. The message names the mutant, the function and similar code."""
    with pytest.raises(AssertionError, match=message) as caught:
        mutate(function, find, "0")
    assert str(caught.value).startswith("some.toml")
