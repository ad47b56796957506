"""The files, headings, commands and targets that pages name exist, and their examples are valid."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no type information

from monitor.cli import main
from monitor.contracts.output_records import AtTimesSnapshot, OverTimeAlert
from monitor.contracts.schemas import build_alerts_schema, build_visits_schema
from monitor.contracts.visits import Fault
from monitor.tools.page.static_files import read_openapi
from tests.ingest.one_by_one import decode

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_COMMAND = re.compile(r"location-monitor +([a-z]+(?:-[a-z]+)*)\b([^`#\n]*)")
_ANY_COMMAND = re.compile(r"(?:^|`|\$ )location-monitor +([a-z]+(?:-[a-z]+)*)", re.MULTILINE)
VISITS = Draft202012Validator(build_visits_schema())
ALERTS = Draft202012Validator(build_alerts_schema())


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
    """Each target of make that a page names is in the Makefile."""
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    shell = "\n".join(document.fences("sh"))
    named = re.findall(r"`make ([a-z -]+)`", document.prose) + re.findall(r"^make ([a-z-]+)", shell, re.MULTILINE)
    assert {target for line in named for target in line.split()} <= targets


def test_json_examples_are_valid(document: Any) -> None:
    """Each JSON example in a page is a valid record of visits, answer or response, by its schema and its model."""
    for code in document.fences("json"):
        value = json.loads(code)
        if "kind" in value:
            ALERTS.validate(value)
            model = AtTimesSnapshot if value["kind"] == "at_times" else OverTimeAlert
            answer = model.model_validate(value)
            assert answer.model_dump(mode="json") == value
        elif "answers" in value:
            schema = {"$ref": "#/components/schemas/States", "components": read_openapi()["components"]}
            Draft202012Validator(schema).validate(value)
        else:
            VISITS.validate(value)
            decoded = decode(code.encode())
            assert decoded.visits
            assert not any(isinstance(fault, Fault) for fault in decoded.faults)


def test_snapshot_example_is_in_its_shard(named: dict[str, Any]) -> None:
    """The locations of the example of a snapshot belong to its shard."""
    examples = [json.loads(code) for code in named["docs/subscribers.md"].fences("json")]
    (snapshot,) = [value for value in examples if value["kind"] == "at_times"]
    for place in (*snapshot["noisy_counts"], *snapshot["counts_at_least"]):
        digest = hashlib.sha256(place.encode()).digest()
        assert int.from_bytes(digest[:8]) % snapshot["shards"] == snapshot["shard"]


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
