"""Every promise of the page of guarantees is complete and has a test, and every test that a page names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from docs.site.promises import collect_tests, find_tests

_TEST = re.compile(r"`(tests/[\w/]+\.py)((?:::\w+)+)`")
_PROMISE = re.compile(r"^### (\d+)\. (.+)$", re.MULTILINE)
_PARTS = re.compile(r"^\*\*(Promise|Assumes)\.\*\*", re.MULTILINE)
_PROVEN = re.compile(r"(.+?) \((\[\w+\]\(proof/\w+\.v\)(?:, \[\w+\]\(proof/\w+\.v\))*)\)\.(?: |$)")


@cache
def _collected(file: Path) -> frozenset[str]:
    """Return the tests that pytest collects from a file, as "::Class::test", without parameters."""
    if not file.is_file():
        return frozenset()
    return frozenset(name for name, _ in find_tests(ast.parse(file.read_text(encoding="utf-8")).body))


@pytest.fixture
def promises(named: dict[str, Any]) -> dict[str, str]:
    """The promises' titles, each with the text below it."""
    _, *parts = re.split(r"^(?=##)", named["docs/guarantees.md"].text, flags=re.MULTILINE)
    return {found[2]: part for part in parts if (found := _PROMISE.match(part))}


@pytest.mark.parametrize("page", ["guarantees", "theorems", "osdp"])
def test_named_tests_exist(named: dict[str, Any], root: Path, page: str) -> None:
    """Each test that the page names exists."""
    text = named[f"docs/{page}.md"].text
    found = _TEST.findall(text)
    assert len(found) == text.count("`tests/") - len(re.findall(r"`tests/[\w/]+\.py`", text)), "a name is misspelt"
    assert not [f"{file}{test}" for file, test in found if test not in _collected(root / file)]


def test_promises_have_all_parts(promises: dict[str, str]) -> None:
    """Each promise has a statement and its assumptions."""
    assert len(promises) > 30
    for title, text in promises.items():
        assert _PARTS.findall(text) == ["Promise", "Assumes"], title


def test_every_promise_has_tests(named: dict[str, Any], root: Path) -> None:
    """Promises are numbered without gaps, and the markers of the tests name each of them and no other number."""
    numbers = [int(number) for number, _ in _PROMISE.findall(named["docs/guarantees.md"].text)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert sorted(collect_tests(root)) == numbers


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


def list_proven_sentences(promises: dict[str, str]) -> set[tuple[str, str, str]]:
    """Return (number of the promise, sentence, file) for each sentence that a promise has under "Proof"."""
    proven = set()
    for text in promises.values():
        found = re.search(r"\*\*Proof\.\*\* (.+?)\n\n", text + "\n\n", re.DOTALL)
        paragraph = " ".join(found[1].split()) if found else ""
        assert _PROVEN.sub("", paragraph) == "", f"not a sentence with its file: {paragraph}"
        number = _PROMISE.findall(text)[0][0]
        for sentence, files in _PROVEN.findall(paragraph):
            proven |= {(number, sentence, file) for file in re.findall(r"\(proof/(\w+\.v)\)", files)}
    return proven


def test_proofs_quote_the_theorems(promises: dict[str, str], root: Path) -> None:
    """The sentences under "Proof" are those of the theorems of docs/proof, and each theorem has a sentence there."""
    quoted = set()
    for path in (root / "docs/proof").glob("*.v"):
        *parts, _ = re.split(r"^ *Theorem ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for part in parts:
            comment = " ".join(part.rpartition("(**")[2].split())
            found = re.findall(r'Promise (\d+): "(.+?)\."(?= |$)', comment)
            assert found, f"{path.name}: a theorem quotes no promise: {comment}"
            quoted |= {(number, sentence, path.name) for number, sentence in found}
    assert quoted == list_proven_sentences(promises)
    assert len(quoted) > 15
