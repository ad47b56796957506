"""Every promise of the page of guarantees is complete, and every test that the page names exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.docs.guarantees import collect_tests, render

_TEST = re.compile(r"`(tests/[\w/]+\.py)((?:::\w+)+)`")
_PROMISE = re.compile(r"^### (\d+)\. (.+)$", re.MULTILINE)
_ROOT = Path(__file__).parents[2]
_OF_THE_PROJECT = {"tests/security/test_audit_dependencies.py", "tests/security/test_certificates.py"}
"""Tests of the dependencies, and of warnings to operators, which no promise covers."""

_PARTS = re.compile(r"^\*\*(Promise|Assumes|Tests)\.\*\*", re.MULTILINE)


def _find_tests(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from _find_tests(node.body, f"{prefix}::{node.name}")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield f"{prefix}::{node.name}"


@cache
def _collected(file: Path) -> frozenset[str]:
    """Return the tests that pytest collects from a file, as "::Class::test", without parameters."""
    if not file.is_file():
        return frozenset()
    return frozenset(_find_tests(ast.parse(file.read_text(encoding="utf-8")).body))


@pytest.fixture
def promises(named: dict[str, Any]) -> dict[str, str]:
    """The promises' titles, each with the text below it."""
    _, *parts = re.split(r"^(?=##)", named["docs/guarantees.md"].text, flags=re.MULTILINE)
    return {found[2]: part for part in parts if (found := _PROMISE.match(part))}


@pytest.mark.parametrize("page", ["guarantees", "theorems"])
def test_named_tests_exist(named: dict[str, Any], root: Path, page: str) -> None:
    """Each test that the page names exists."""
    text = named[f"docs/{page}.md"].text
    found = _TEST.findall(text)
    assert len(found) == text.count("`tests/") - len(re.findall(r"`tests/[\w/]+\.py`", text)), "a name is misspelt"
    assert not [f"{file}{test}" for file, test in found if test not in _collected(root / file)]


def test_promises_have_all_parts(promises: dict[str, str]) -> None:
    """Each promise has a statement, its assumptions and at least one test."""
    assert len(promises) > 30
    for title, text in promises.items():
        assert _PARTS.findall(text) == ["Promise", "Assumes", "Tests"], title
        assert _TEST.search(text.partition("**Tests.**")[2]), title


@pytest.mark.parametrize(
    "folder", ["audit", "faults", "fuzz", "mutants", "privacy", "privacy_service", "security", "statistics"]
)
def test_folder_proves_a_promise(promises: dict[str, str], folder: str) -> None:
    """Each of these folders has a test of a promise. In the folders for fuzzing and attacks, each file has one."""
    named = {file for text in promises.values() for file, _ in _TEST.findall(text.partition("**Tests.**")[2])}
    files = {str(path.relative_to(_ROOT)) for path in (_ROOT / "tests" / folder).glob("test_*.py")}
    assert files & named
    if folder in {"fuzz", "security"}:
        assert files - _OF_THE_PROJECT <= named


def test_promises_are_numbered(promises: dict[str, str], named: dict[str, Any]) -> None:
    """Promises are numbered without gaps, and each lists a test at most once."""
    numbers = [int(number) for number, _ in _PROMISE.findall(named["docs/guarantees.md"].text)]
    assert numbers == list(range(1, len(promises) + 1))
    for title, text in promises.items():
        tests = _TEST.findall(text)
        assert len(tests) == len(set(tests)), title


def test_assumptions_are_explained(promises: dict[str, str], named: dict[str, Any]) -> None:
    """A promise names assumptions that the page explains, or states its assumption in words."""
    explained = {row[0] for row in named["docs/guarantees.md"].rows("Guarantees")}
    used = set()
    for title, text in promises.items():
        found = re.search(r"\*\*Assumes\.\*\* (.+?)\n\n", text, re.DOTALL)
        assert found, title
        words = {word.strip() for word in found[1].rstrip(".").split(",")}
        used |= words & explained
        assert words <= explained or " " in found[1] or found[1] == "nothing.", title
    assert used == explained


def test_missing_test_is_noticed(tmp_path: Path) -> None:
    """Only functions that pytest collects count as tests. A file that does not exist has none."""
    file = tmp_path / "test_x.py"
    file.write_text(
        "class TestA:\n    def test_b(self): ...\n\ndef test_c(): ...\ndef helper(): ...\n", encoding="utf-8"
    )
    assert _collected(file) == {"::TestA::test_b", "::test_c"}
    assert not _collected(tmp_path / "test_y.py")


def test_lists_are_generated(named: dict[str, Any], root: Path) -> None:
    """The lists of tests are those of the markers; to update them: python -m tests.docs.guarantees --write."""
    page = named["docs/guarantees.md"].text
    assert render(page, collect_tests(root)) == page
