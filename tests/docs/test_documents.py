"""The files, headings, commands and targets that pages name exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from monitor.cli import main

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_COMMAND = re.compile(r"location-monitor +([a-z]+(?:-[a-z]+)*)\b([^`#\n]*)")
_ANY_COMMAND = re.compile(r"(?:^|`|\$ )location-monitor +([a-z]+(?:-[a-z]+)*)", re.MULTILINE)


def test_links_lead_somewhere(document: Any, root: Path) -> None:
    """The file and the heading of each relative link exist in this repository."""
    for link in _LINK.findall(document.prose):
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (document.path.parent / path).resolve() if path else document.path
        assert target.exists(), link
        assert root in target.parents, link
        if anchor:
            assert anchor in type(document)(target, target.read_text(encoding="utf-8")).anchors, link


def test_pictures_have_alternative_texts(document: Any) -> None:
    """The alternative text of each picture describes it in more than 40 characters."""
    for words, _path in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", document.prose, re.DOTALL):
        assert len(words) > 40


def test_commands_and_options_exist(document: Any) -> None:
    """Each command and each option that a page names exists."""
    assert set(_ANY_COMMAND.findall(document.text)) <= set(main.commands)
    for name, rest in _COMMAND.findall(document.text):
        if name not in main.commands:
            continue  # a word of the prose; commands written as code are checked above
        known = {option for parameter in main.commands[name].params for option in parameter.opts}
        given = set(re.findall(r"(?<!\S)--[a-z-]+", rest))
        assert given <= known, f"location-monitor {name} {rest}"


def test_make_targets_exist(document: Any, root: Path) -> None:
    """Each target of make that a page names in its prose is in the Makefile."""
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = re.findall(r"`make ([a-z -]+)`", document.prose)
    assert {target for line in named for target in line.split()} <= targets


def test_pages_name_no_machine(document: Any) -> None:
    """No page contains a path of the machine that it was written on, or a port of it."""
    assert not re.search(r"/(?:work|tmp|home|root)/|127\.0\.0\.1:[0-9]", document.text)


def test_readme_leads_to_every_page(named: dict[str, Any]) -> None:
    """Links lead from the README to each page."""
    reached: set[str] = set()
    waiting = ["README.md"]
    while waiting:
        name = waiting.pop()
        if name in reached or name not in named:
            continue
        reached.add(name)
        document = named[name]
        root = Path(document.path).parents[len(Path(name).parts) - 1]
        for link in _LINK.findall(document.prose):
            target = (document.path.parent / link.partition("#")[0]).resolve()
            if target.is_relative_to(root):
                waiting.append(str(target.relative_to(root)))
    assert reached == set(named)
