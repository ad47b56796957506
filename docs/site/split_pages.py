"""The source of the site: all pages, with a page of its own for each section of a long one.

A long page is one file in the repository, where a reader searches in it. On the site it would take long to find a
section, so the page there has its first lines and a list of its sections. Links lead to the new places.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from docs.site.generated_parts import PARTS
from tests.docs.conftest import Document

LONG: Final = ("docs/operations", "docs/runbooks", "docs/producers", "docs/subscribers")

_LINK: Final = re.compile(r"(\]\(|<img src=\")([^)\s\":]*)(?=[)\"])")
_FENCED: Final = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
_GENERATED: Final = re.compile(r"<!-- generated: ([\w ]+) -->")
_ANCHORS: Final = re.compile(r"(?:^<a id=\"\w+\"></a>\n)+\n?(?=#)", re.MULTILINE)


@dataclass(frozen=True)
class Part:
    """A page of the site: its path and text, and the path of the page of the repository that it is from."""

    path: Path
    text: str
    origin: Path


@dataclass(frozen=True)
class Source:
    """The pages of a repository. `places` has, of the sections of long pages, the part that has the heading."""

    root: Path
    parts: list[Part] = field(default_factory=list)
    places: dict[tuple[Path, str], Path] = field(default_factory=dict)

    def read(self, path: Path) -> None:
        """Add a page with its generated parts, and if it is long, its sections."""
        text = _GENERATED.sub(lambda found: PARTS[found[1]](), path.read_text(encoding="utf-8"))
        if path.relative_to(self.root).with_suffix("").as_posix() not in LONG:
            self.parts.append(Part(path, text, path))
            return
        first, *sections = split_sections(text)
        names = []
        for section in sections:
            anchors = Document(path, section).anchors
            name = Document(path, section.partition("\n")[0]).anchors.pop()
            target = path.with_suffix("") / f"{name}.md"
            self.places.update({(path, anchor): target for anchor in anchors})
            self.parts.append(Part(target, raise_headings(section), path))
            names.append(f"{path.stem}/{name}")
        listed = "\n".join(names)
        self.parts.append(Part(path, f"{first}\n```{{toctree}}\n:maxdepth: 2\n\n{listed}\n```\n", path))

    def move_links(self, part: Part) -> str:
        """Return the text of a part, whose relative links lead to the parts of long pages."""

        def move(found: re.Match[str]) -> str:
            path, _, anchor = found[2].partition("#")
            target = Path(os.path.normpath(part.origin.parent / path)) if path else part.origin
            target = self.places.get((target, anchor), target)
            moved = "" if target == part.path and anchor else os.path.relpath(target, part.path.parent)
            return f"{found[1]}{moved}{'#' if anchor else ''}{anchor}"

        texts = _FENCED.split(part.text)
        return "".join(text if number % 2 else _LINK.sub(move, text) for number, text in enumerate(texts))


def split_sections(text: str) -> list[str]:
    """Return the text before the first heading of the second level, and each section below one."""
    sections = [""]
    for number, piece in enumerate(_FENCED.split(_ANCHORS.sub("", text))):
        first, *others = [piece] if number % 2 else re.split(r"^(?=## )", piece, flags=re.MULTILINE)
        sections[-1] += first
        sections += others
    return sections


def raise_headings(text: str) -> str:
    """Return a section whose heading is that of a page, and so on."""
    pieces = _FENCED.split(text)
    return "".join(
        piece if number % 2 else re.sub(r"^#(#+ )", r"\1", piece, flags=re.MULTILINE)
        for number, piece in enumerate(pieces)
    )


def list_pages(root: Path) -> Iterator[Path]:
    """Yield the pages of a repository."""
    yield from sorted(root.glob("*.md"))
    yield from sorted((root / "docs").rglob("*.md"))


def write_source(root: Path, target: Path) -> Path:
    """Write the source of the site into a folder, with links to everything else that pages name, and return it."""
    source = Source(root)
    for path in list_pages(root):
        source.read(path)
    for part in source.parts:
        path, text = target / part.path.relative_to(root), source.move_links(part)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    wanted = {target / part.path.relative_to(root) for part in source.parts}
    for path in set(list_pages(target)) - wanted:
        path.unlink()
    others = [*root.iterdir(), *(root / "docs").iterdir()]
    for path in (one for one in others if one.name == ".github" or not one.name.startswith(".")):
        link = target / path.relative_to(root)
        if path.name != "build" and not link.exists():
            link.symlink_to(path)
    return target
