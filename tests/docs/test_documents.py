"""What the documents name is there: files, sections, commands, targets; and their examples are true to the program."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml

from monitor.cli import main
from monitor.config import load_config
from monitor.contracts.alerts import OverTimeAlert
from monitor.contracts.visits import Fault
from monitor.ingest.decode import decode

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_COMMAND = re.compile(r"location-monitor +([a-z]+)\b([^`#\n]*)")
_ANY_COMMAND = re.compile(r"(?:^|`|\$ )location-monitor +([a-z]+)", re.MULTILINE)
_DECISION_PARTS = ["Context", "Decision", "Consequences", "Alternatives"]
LONGEST_DECISION = 40


def test_every_link_leads_somewhere(document: Any, root: Path) -> None:
    for link in _LINK.findall(document.prose):
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (document.path.parent / path).resolve() if path else document.path
        assert target.exists(), link
        assert root in target.parents, link
        if anchor:
            assert anchor in type(document)(target, target.read_text(encoding="utf-8")).anchors, link


def test_every_picture_says_in_words_what_it_shows(document: Any) -> None:
    for words, _path in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", document.prose, re.DOTALL):
        assert len(words) > 40


@pytest.mark.parametrize("name", ["data-way", "one-sided"])
def test_a_picture_has_a_title_and_a_description(root: Path, name: str) -> None:
    text = (root / f"docs/pictures/{name}.svg").read_text(encoding="utf-8")
    assert re.search(r"<title id=\"title\">.+</title>", text)
    assert re.search(r"<desc id=\"desc\">.+</desc>", text)
    assert 'aria-labelledby="title desc"' in text


def test_every_command_and_option_is_one_of_the_program(document: Any) -> None:
    assert set(_ANY_COMMAND.findall(document.text)) <= set(main.commands)
    for name, rest in _COMMAND.findall(document.text):
        if name not in main.commands:
            continue  # a word of the prose; what is written as code is looked at above
        known = {option for parameter in main.commands[name].params for option in parameter.opts}
        given = set(re.findall(r"(?<!\S)--[a-z-]+", rest))
        assert given <= known, f"location-monitor {name} {rest}"


def test_every_target_of_make_is_there(document: Any, root: Path) -> None:
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    shell = "\n".join(document.fences("sh"))
    named = re.findall(r"`make ([a-z -]+)`", document.prose) + re.findall(r"^make ([a-z-]+)", shell, re.MULTILINE)
    assert {target for line in named for target in line.split()} <= targets


def test_the_readme_names_every_command(named: dict[str, Any]) -> None:
    rows = {shlex.split(row[0].strip("`"))[1] for row in named["README.md"].rows("Commands")}
    assert rows == set(main.commands)


def test_a_whole_configuration_in_a_document_is_valid(document: Any, tmp_path: Path) -> None:
    for number, code in enumerate(document.fences("yaml")):
        if "monitors" in (yaml.safe_load(code) or {}):
            file = tmp_path / f"{number}.yaml"
            file.write_text(code, encoding="utf-8")
            load_config(file, {})


def test_every_sample_in_json_is_one(document: Any) -> None:
    for code in document.fences("json"):
        value = json.loads(code)
        if "visits" in value:
            decoded = decode(code.encode())
            assert decoded.visits
            assert not any(isinstance(fault, Fault) for fault in decoded.faults)
        else:
            alert = OverTimeAlert.model_validate(value)
            assert alert.model_dump(mode="json") == value


def test_nothing_of_one_machine_is_in_a_document(document: Any) -> None:
    assert not re.search(r"/(?:work|tmp|home|root)/|127\.0\.0\.1", document.text)


def test_every_decision_says_why_and_what_else_in_one_page(named: dict[str, Any]) -> None:
    decisions = {name: each for name, each in named.items() if re.search(r"decisions/\d{4}-", name)}
    numbers = [int(Path(name).name[:4]) for name in decisions]
    assert numbers == list(range(1, len(decisions) + 1))
    for name, each in decisions.items():
        assert re.findall(r"^## (.+)$", each.text, re.MULTILINE) == _DECISION_PARTS, name
        assert len(each.text.splitlines()) <= LONGEST_DECISION, name
        assert each.text.startswith(f"# {int(Path(name).name[:4])}. "), name


def test_the_index_of_decisions_lists_them_all(named: dict[str, Any]) -> None:
    listed = set(_LINK.findall(named["docs/decisions/README.md"].text))
    assert listed == {Path(name).name for name in named if re.search(r"decisions/\d{4}-", name)}


def test_every_document_is_within_reach_of_the_index(named: dict[str, Any]) -> None:
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


def test_the_changelog_names_the_version_to_come(named: dict[str, Any]) -> None:
    text = named["CHANGELOG.md"].text
    assert re.search(r"^## \[(Unreleased|\d+\.\d+\.\d+)\]", text, re.MULTILINE)
