"""Every code block of every page is run, or checked as far as its language allows, or marked as not run with a reason.

A mark is a comment on the line before the block: `<!-- not run: needs root -->`. Shell blocks are parsed: commands and
options by click, targets by the Makefile. Statements that need no server run in a folder that has the examples of
`config/`. The tutorial runs as a whole in `test_tutorial.py`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click
import pytest
import yaml
from click.testing import CliRunner
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no type information

from monitor.cli import main
from monitor.config.load import load_config
from monitor.config.whole_config import Config
from monitor.kinds.at_times.record import AtTimesSnapshot
from monitor.kinds.locations import find_shard
from monitor.kinds.over_time.record import OverTimeAlert
from monitor.operate.schema.command import build_alerts_schema, build_visits_schema
from monitor.page.scripts_and_styles import read_openapi
from monitor.records.fields import encode, make_decoder
from monitor.records.visit_contract import Fault
from simulators.cli import cli as simulators
from tests.docs.blocks import BACKGROUND, NOT_RUN, Block, read_blocks, split_commands, split_statements
from tests.docs.conftest import ROOT, read_documents
from tests.ingest.one_by_one import decode

TUTORIAL: Final = "docs/tutorial/own-data.md"
NOT_CODE: Final = ("text", "mermaid", "java", "go")
"""Languages without a check here. `test_send_visits.py` runs the programs in Java and Go."""

VISITS: Final = Draft202012Validator(build_visits_schema())
ALERTS: Final = Draft202012Validator(build_alerts_schema())

OFFLINE: Final = ("check", "convert", "plan", "register", "schema")
"""Commands that need no server: they run."""

BASH: Final = shutil.which("bash") or "/bin/bash"
PLAIN: Final = ("base64", "cat", "chmod", "export", "head", "sleep")
"""Programs of the shell that run without an effect outside the folder."""

ASKING: Final = ("curl", "date", "df", "echo", "grep", "helm", "kubectl", "openssl", "redis-cli", "test")
"""Programs that ask a running service, server or cluster. The shell parses them, and they do not run."""

BLOCKS: Final = [block for document in read_documents() for block in read_blocks(document)]
CODE: Final = [block for block in BLOCKS if block.runs and block.language not in NOT_CODE]


def select(*languages: str, but: str = "") -> pytest.MarkDecorator:
    """Parametrize a test with the blocks of some languages that are not marked, except those of a page."""
    chosen = [block for block in CODE if block.language in languages and block.page != but]
    return pytest.mark.parametrize("block", chosen, ids=str)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that shell blocks name: config/ as in a checkout, and the same files beside it."""
    place = tmp_path_factory.mktemp("blocks")
    shutil.copytree(ROOT / "config", place / "config", ignore=shutil.ignore_patterns("*.key"))
    shutil.copytree(place / "config", place, dirs_exist_ok=True)
    return place


def test_every_block_is_checked() -> None:
    """Each block has a language that a test of this file checks, or a mark with a reason."""
    assert len(BLOCKS) > 60
    known = {*NOT_CODE, *CHECKS}
    assert [str(block) for block in BLOCKS if block.runs and block.language not in known] == []
    assert [str(block) for block in BLOCKS if not block.runs and len(block.reason) < 10] == []


def test_marks_are_known() -> None:
    """A comment before a block is a mark of this test, so that no mark is misspelt."""
    others = [block for block in BLOCKS if block.mark and not block.mark.startswith((NOT_RUN, BACKGROUND))]
    assert [str(block) for block in others] == []


@select("sh")
def test_shell_block_is_valid(block: Block) -> None:
    """The shell can parse the block, and each of its commands exists with these options."""
    result = subprocess.run([BASH, "-n"], input=block.code, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    for statement in split_statements(block.code):
        for words in split_commands(statement):
            check_command(words, block)


def check_command(words: list[str], block: Block) -> None:
    """Parse a command by the program that it calls."""
    program = Path(words[0]).name
    if program == "location-monitor":
        parse_click(main, words[1:])
    elif program == "make":
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
        assert {word for word in words[1:] if "=" not in word} <= targets, words
    elif words[1:3] == ["-m", "simulators"]:
        parse_click(simulators, words[3:])
    elif not (program in (*PLAIN, *ASKING) or (program == "python" and block.page == TUTORIAL)):
        pytest.fail(f"{block}: {program} is not checked by any test: mark the block as not run")


def parse_click(group: click.Group, words: list[str]) -> None:
    """Parse a command line as click does, with paths that need not exist."""
    command = group.commands[words[0]]
    parent = click.Context(group, **group.context_settings)  # click keeps the names of the help option that it sees
    _, rest, _ = command.make_parser(click.Context(command, parent=parent)).parse_args(list(words[1:]))
    given = {word.partition("=")[0] for word in words}
    for option in command.params:
        if isinstance(option, click.Option) and option.required:
            assert given & set(option.opts), f"{words}: {option.opts} is missing"
    assert len(rest) <= sum(isinstance(each, click.Argument) for each in command.params), words


@select("sh", but=TUTORIAL)
def test_offline_statements_run(block: Block, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statements that need no server end with exit code 0."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("CONFIG", "config/city.yaml")
    for statement in split_statements(block.code):
        commands = split_commands(statement)
        if all(words[0] in PLAIN for words in commands):
            subprocess.run([BASH, "-euc", statement], cwd=folder, check=True, timeout=20)
        elif Path(commands[0][0]).name == "location-monitor" and commands[0][1] in OFFLINE:
            words = [os.path.expandvars(word) for word in commands[0][1:]]
            result = CliRunner().invoke(main, words)
            assert result.exit_code == 0, f"{shlex.join(words)}: {result.output}"


def test_python_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block that has no mark runs in an empty folder. The tutorial's run in `test_tutorial.py`."""
    for block in CODE:
        if block.language == "python" and block.page != TUTORIAL:
            monkeypatch.chdir(tmp_path)
            exec(compile(block.code, str(block), "exec"), {"__name__": "__main__"})  # noqa: S102  # the pages' own code


@select("yaml")
def test_yaml_block_is_a_configuration(block: Block, folder: Path) -> None:
    """The block is a configuration, or sections that replace those of the demo's configuration."""
    given = yaml.safe_load(block.code).keys()
    assert given <= Config.model_fields.keys(), f"{block}: mark a file that is not a configuration"
    demo = yaml.safe_load((folder / "config" / "demo.yaml").read_text(encoding="utf-8"))
    demo["clock"]["origin"] = "2026-01-05T00:00:00Z"  # safe_load reads it as a datetime
    others = {} if "service" in given else {name: demo[name] for name in demo.keys() - given}
    path = folder / "config" / "fragment.yaml"
    path.write_text(block.code + (yaml.safe_dump(others) if others else ""), encoding="utf-8")
    load_config(path, {})


@select("properties")
def test_properties_are_pairs(block: Block) -> None:
    """Each line is a key, "=" and a value."""
    assert all(re.fullmatch(r"[a-z.]+=\S.*", line) for line in block.code.splitlines())


@select("json")
def test_json_block_is_valid(block: Block) -> None:
    """The block is a record of visits, an answer or a response of the page, by its schema and its model."""
    value = json.loads(block.code)
    if "kind" in value:
        ALERTS.validate(value)
        model = AtTimesSnapshot if value["kind"] == "at_times" else OverTimeAlert
        assert json.loads(encode(make_decoder(model)(block.code.encode()))) == value
    elif "answers" in value:
        schema = {"$ref": "#/components/schemas/States", "components": read_openapi()["components"]}
        Draft202012Validator(schema).validate(value)
    else:
        VISITS.validate(value)
        decoded = decode(block.code.encode())
        assert decoded.visits
        assert not any(isinstance(fault, Fault) for fault in decoded.faults)


def test_snapshot_example_is_in_its_shard() -> None:
    """The locations of the example of a snapshot belong to its shard."""
    examples = [json.loads(block.code) for block in CODE if block.language == "json"]
    (snapshot,) = [value for value in examples if value.get("kind") == "at_times"]
    for place in (*snapshot["noisy_counts"], *snapshot["counts_at_least"]):
        assert find_shard(place, snapshot["shards"]) == snapshot["shard"]


CHECKS: Final[Mapping[str, Callable[..., Any]]] = {
    "sh": test_shell_block_is_valid,
    "python": test_python_blocks_run,
    "yaml": test_yaml_block_is_a_configuration,
    "properties": test_properties_are_pairs,
    "json": test_json_block_is_valid,
}
"""The languages that are checked, each with its test."""
