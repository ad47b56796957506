"""The command line without servers: help, exit codes, `check` and `schema`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships none

from monitor.cli import main

EXAMPLES = Path(__file__).parents[2] / "config"
COMMANDS = ("check", "demo", "replay", "run", "schema", "topics", "watch")


def called(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.mark.parametrize("words", [(), *((command,) for command in COMMANDS)])
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_each_command_explains_itself(words: Sequence[str], option: str) -> None:
    result = called(*words, option)
    assert result.exit_code == 0
    assert result.output.startswith("Usage: ")
    assert "Options:" in result.output


def test_every_command_is_listed_with_what_it_does() -> None:
    listed = called("--help").output
    for command in COMMANDS:
        assert f"\n  {command}  " in listed


def test_the_version_is_told() -> None:
    assert called("--version").output.startswith("location-monitor, version ")


@pytest.mark.parametrize(
    "words",
    [
        ("dance",),
        ("run",),
        ("run", "--config", "nowhere.yaml"),
        ("check", "--config", EXAMPLES / "demo.yaml", "--frobnicate"),
        ("schema", "people"),
        ("schema",),
        ("replay", "nowhere.csv", "--config", EXAMPLES / "demo.yaml", "--alerts", "out.jsonl"),
        ("replay", EXAMPLES / "demo.yaml", "--config", EXAMPLES / "demo.yaml"),
    ],
)
def test_wrong_usage_ends_with_2(words: Sequence[str | Path]) -> None:
    result = called(*words)
    assert result.exit_code == 2
    assert "Error: " in result.output


@pytest.mark.parametrize("example", ["demo.yaml", "city.yaml", "secure.yaml"])
def test_check_passes_the_examples_and_says_what_they_mean(example: str) -> None:
    result = called("check", "--config", EXAMPLES / example)
    assert result.exit_code == 0, result.output
    assert "What one person pays" in result.output


@pytest.mark.parametrize("example", ["demo.yaml", "city.yaml", "secure.yaml"])
def test_check_tells_programs_the_same_as_json(example: str) -> None:
    result = called("check", "--config", EXAMPLES / example, "--json")
    assert result.exit_code == 0
    assert isinstance(json.loads(result.output), dict)


def demo() -> dict[str, Any]:
    """The demo's configuration as a tree; YAML would read its origin as a time of Python's."""
    tree: dict[str, Any] = yaml.safe_load((EXAMPLES / "demo.yaml").read_text())
    tree["clock"]["origin"] = "2026-01-05T00:00:00+00:00"
    return tree


@pytest.fixture
def spoilt(tmp_path: Path) -> Path:
    """The demo's configuration with four faults."""
    tree = demo()
    tree["clock"]["slot"] = "soon"
    tree["monitors"][0]["threshold"] = 0
    tree["monitors"][1]["epsilon"] = 0.5
    tree["colour"] = "blue"
    (tmp_path / "demo-locations.csv").write_text((EXAMPLES / "demo-locations.csv").read_text())
    path = tmp_path / "spoilt.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


@pytest.mark.parametrize("command", ["check", "topics", "run"])
def test_a_wrong_configuration_ends_with_2_and_lists_every_error(command: str, spoilt: Path) -> None:
    result = called(command, "--config", spoilt)
    assert result.exit_code == 2
    assert "4 problems, nothing was started" in result.output
    for key in ("clock.slot", "monitors.0.threshold", "monitors.1.epsilon", "colour"):
        assert f"- {key}" in result.output


def test_more_than_is_stated_ends_with_2_and_the_sum(tmp_path: Path) -> None:
    tree = demo()
    tree["privacy"]["epsilon"] = "3"
    (tmp_path / "demo-locations.csv").write_text((EXAMPLES / "demo-locations.csv").read_text())
    path = tmp_path / "overspent.yaml"
    path.write_text(yaml.safe_dump(tree))
    result = called("check", "--config", path)
    assert result.exit_code == 2
    assert "17" in result.output


@pytest.mark.parametrize("what", ["config", "visits", "alerts"])
def test_schemas_are_valid_json_schema(what: str) -> None:
    result = called("schema", what)
    assert result.exit_code == 0
    schema = json.loads(result.output)
    Draft202012Validator.check_schema(schema)
    assert schema


def test_the_asyncapi_document_is_json_of_version_3() -> None:
    result = called("schema", "asyncapi")
    assert result.exit_code == 0
    assert json.loads(result.output)["asyncapi"].startswith("3.")
