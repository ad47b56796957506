"""Every citation in code, tests and pages leads to a page, a heading or a reference of this repository."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.long

_ROOT = Path(__file__).parents[2]
_FOLDERS = ("monitor", "simulators", "tests", "docs", "deploy", "config")
_SUFFIXES = {"", ".lua", ".md", ".py", ".sh", ".toml", ".yaml", ".yml"}
_NUMBERS = r"\d+(?:-\d+)?(?:(?:, and |, | and )\d+(?:-\d+)?)*"
_PARTS = rf"(?:sections?|rules?) {_NUMBERS}"
_PAGE = re.compile(rf"\bdocs/((?:[\w-]+/)*[\w-]+\.md)(?:#([\w-]+))?((?:(?:, | and |; ){_PARTS})*)")
_PART = re.compile(rf"\b(section|rule)s? ({_NUMBERS})")
_NUMBERED = re.compile(rf"\b(rule|decision|promise)s? ({_NUMBERS})", re.IGNORECASE)
# Names of pages that were never in the repository.
_OUTSIDE = re.compile(
    r"(?<!docs/)\b(?:privacy model|interface|runtime|privacy|performance)(?:\.md)?, (?:rule|section)s? \d"
)
_CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
_KEY = re.compile(r"(?<![\w\])])\[([A-Z]{2,5})\](?!\()")
# A line break with the indent and the comment or diff marker of the next line.
_WRAPPED = re.compile(r"\s*\n[ +-]*(?:(?:#|--|\*|>)[ ]+)?\s*")
_PATH = re.compile(r"`((?:monitor|simulators|tests|docs|config|deploy)/[\w./-]*|(?:\w+/)+[\w-]+\.(?:py|lua))`")
_HOME = {"rule": "rules.md", "promise": "guarantees.md", "decision": "decisions.md"}


@dataclass(frozen=True)
class Pages:
    """The anchors and the texts of the pages under docs/, by path from there, and the keys of the references."""

    anchors: Mapping[str, set[str]]
    texts: Mapping[str, str]
    keys: frozenset[str]

    def has(self, page: str, kind: str, number: int) -> bool:
        """Return whether a page has a heading with this number."""
        prefix = {"rule": f"### Rule {number}. ", "promise": f"### {number}. "}.get(kind, f"## {number}. ")
        return bool(re.search(rf"^{re.escape(prefix)}\S", self.texts.get(page, ""), re.MULTILINE))


@pytest.fixture(scope="module")
def pages(named: dict[str, Any]) -> Pages:
    """Return the pages that can be cited."""
    documents = {name.removeprefix("docs/"): each for name, each in named.items() if name.startswith("docs/")}
    return Pages(
        {name: each.anchors for name, each in documents.items()},
        {name: each.prose for name, each in documents.items()},
        frozenset(re.findall(r"^\| \[([A-Z]+)\] \|", documents["literature.md"].text, re.MULTILINE)),
    )


@cache
def _list_sources() -> list[Path]:
    """Return the files that are checked: all except this one, which contains wrong citations on purpose."""
    paths = [path for folder in _FOLDERS for path in sorted((_ROOT / folder).rglob("*")) if path.is_file()]
    paths += [*sorted(_ROOT.glob("*.md")), _ROOT / "Makefile", _ROOT / "pyproject.toml"]
    return [path for path in paths if path.suffix in _SUFFIXES and path != Path(__file__)]


@cache
def _read_words(path: Path) -> str:
    """Return the text of a page or mutant, and of code the comments and strings: a subscript is not a citation."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md" or path.parent.name == "known":
        return text
    if path.suffix != ".py":
        return "\n".join(re.findall(r"(?:#|--).*", text))
    names = {"COMMENT", "STRING", "FSTRING_MIDDLE"}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join(token.string for token in tokens if tokenize.tok_name[token.type] in names)


def _expand(numbers: str) -> Iterator[int]:
    """Yield the numbers of a list such as "3, 6 and 7" or "1-3"."""
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", numbers):
        yield from range(int(first), int(last or first) + 1)


def _find_wrong(text: str, pages: Pages) -> list[str]:
    """Return the citations in a text that lead nowhere."""
    flat = _WRAPPED.sub(" ", text)
    wrong = [citation[0] for citation in _OUTSIDE.finditer(flat)]
    for citation in _PAGE.finditer(flat):
        page, anchor, parts = citation.groups()
        if page not in pages.anchors or (anchor and anchor not in pages.anchors[page]):
            wrong.append(citation[0])
        for kind, numbers in _PART.findall(parts):
            wrong += [f"{page}: {kind} {n}" for n in _expand(numbers) if not pages.has(page, kind.lower(), n)]
    for kind, numbers in _NUMBERED.findall(_PAGE.sub("", flat)):
        home = _HOME[kind.lower()]
        wrong += [f"{kind} {n}" for n in _expand(numbers) if not pages.has(home, kind.lower(), n)]
    return wrong + [f"[{key}]" for key in _find_keys(text) if key not in pages.keys]


def _find_keys(text: str) -> list[str]:
    """Return the keys of references in a text, such as ADP in [ADP]."""
    return _KEY.findall(_CODE.sub("", text))


@pytest.mark.parametrize("folder", [*_FOLDERS, ""])
def test_citations_lead_somewhere(folder: str, pages: Pages) -> None:
    """Every page, section, rule, decision, promise and reference that is cited exists."""
    sources = [path for path in _list_sources() if "/".join(path.relative_to(_ROOT).parts[:-1][:1]) == folder]
    assert sources
    wrong = {str(path.relative_to(_ROOT)): _find_wrong(_read_words(path), pages) for path in sources}
    assert {path: citations for path, citations in wrong.items() if citations} == {}


def test_file_citing_papers_names_references() -> None:
    """A reader who meets a key such as [ADP] finds in the same file where it is defined."""
    citing = {path: text for path in _list_sources() if _find_keys(text := _read_words(path))}
    assert citing
    lacking = {str(path.relative_to(_ROOT)) for path, text in citing.items() if "literature.md" not in text}
    assert lacking == {"docs/literature.md"}


def test_rules_and_sections_are_numbered(named: dict[str, Any]) -> None:
    """A number names one rule of the privacy model, and one section of each page that is cited by sections."""
    sections = r"^## (\d+)\. "
    expected = [("rules", r"^### Rule (\d+)\. ", 15), ("rules", sections, 8), ("interface", sections, 5)]
    for page, heading, last in [*expected, ("architecture", sections, 5), ("decisions", sections, 20)]:
        numbers = re.findall(heading, named[f"docs/{page}.md"].prose, re.MULTILINE)
        assert numbers == [str(number) for number in range(1, last + 1)], page


def test_glossary_has_each_term_once(named: dict[str, Any]) -> None:
    """A term, or an abbreviation such as W, has one row."""
    rows = re.findall(r"^\| ([^|-][^|]*) \|", named["docs/glossary.md"].text, re.MULTILINE)
    terms = [term for row in rows for term in row.split(", ") if row != "term"]
    assert len(terms) == len(set(terms))


def test_paths_in_page_exist(document: Any) -> None:
    """A path of this repository that a page names, from the root or from monitor/, exists."""
    paths = {path for path in _PATH.findall(document.prose) if "…" not in path}
    places = (_ROOT, _ROOT / "monitor", document.path.parent)
    assert {path for path in paths if not any((place / path).exists() for place in places)} == set()
