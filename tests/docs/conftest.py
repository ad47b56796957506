"""The pages, as text, links and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```\w*\n.*?^```$", re.DOTALL | re.MULTILINE)
_CELL = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True)
class Document:
    """One Markdown file."""

    path: Path
    text: str

    @property
    def prose(self) -> str:
        """The text without code blocks."""
        return _FENCE.sub("", self.text)

    @property
    def anchors(self) -> set[str]:
        """The anchors of its headings, as code hosts derive them."""
        headings = re.findall(r"^#+ (.+)$", self.prose, re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}

    def rows(self, under: str) -> Iterator[list[str]]:
        """Yield the cells of each row of the tables below a heading, without the tables' heads."""
        section = self.prose.split(f"# {under}\n", 1)[1].split("\n#", 1)[0]
        lines = [line for line in section.splitlines() if line.startswith("|")]
        for line, following in zip(lines, [*lines[1:], ""], strict=True):
            if not line.startswith("|---") and not following.startswith("|---"):
                yield [cell.strip() for cell in _CELL.split(line)[1:-1]]

    def __str__(self) -> str:
        """Return its path from the project's root."""
        return str(self.path.relative_to(ROOT))


def read_documents() -> list[Document]:
    """Return every page of the root and of docs/."""
    paths = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    return [Document(path, path.read_text(encoding="utf-8")) for path in paths]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that has the argument `document` on every page."""
    if "document" in metafunc.fixturenames:
        metafunc.parametrize("document", read_documents(), ids=str)


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's root."""
    return ROOT


@pytest.fixture(scope="session")
def named() -> dict[str, Document]:
    """The documents by their path from the root."""
    return {str(document): document for document in read_documents()}
