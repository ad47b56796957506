"""The command line without servers: help, exit codes, `check` and `schema`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from monitor.cli import main
from monitor.records.signed_notes import read_signing_key
from monitor.values.person_key import is_key

EXAMPLES = Path(__file__).parents[1] / "config"


def invoke(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.mark.parametrize("words", [(), *((command,) for command in main.commands)])
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_of_each_command(words: Sequence[str], option: str) -> None:
    """Each command has help with a usage line and options."""
    result = invoke(*words, option)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("Usage: ")
    assert "Options:" in result.output


def test_version_and_commands() -> None:
    """--version prints the version, and the main help lists every command."""
    assert invoke("--version").output.startswith("location-monitor, version ")
    listed = invoke("--help").output
    assert re.search(r"\w\.\.\.$", listed, re.MULTILINE) is None, "a summary is cut at 80 columns"
    for command in main.commands:
        assert f"\n  {command}  " in listed


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
def test_wrong_usage_exits_with_2(words: Sequence[str | Path]) -> None:
    """Wrong usage exits with code 2 and a message."""
    result = invoke(*words)
    assert result.exit_code == 2
    assert "Error: " in result.output


def read_demo() -> dict[str, Any]:
    """Return the demo's configuration as a tree, with the origin as a string: YAML would parse it as a datetime."""
    tree: dict[str, Any] = yaml.safe_load((EXAMPLES / "demo.yaml").read_text())
    tree["clock"]["origin"] = "2026-01-05T00:00:00+00:00"
    return tree


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """The demo's configuration with four errors."""
    tree = read_demo()
    tree["clock"]["slot"] = "soon"
    tree["monitors"][0]["threshold"] = 0
    tree["monitors"][1]["epsilon"] = 0.5
    tree["colour"] = "blue"
    (tmp_path / "demo-locations.csv").write_text((EXAMPLES / "demo-locations.csv").read_text())
    path = tmp_path / "broken.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


@pytest.mark.parametrize("command", ["check", "topics", "run"])
def test_invalid_config_exits_with_2(command: str, broken: Path) -> None:
    """An invalid configuration exits with code 2 and lists all problems, with those of the secrets that `run` needs."""
    keys = ["clock.slot", "monitors.0.threshold", "monitors.1.epsilon", "colour"]
    keys += ["visits.person_key_file"] if command == "run" else []
    result = invoke(command, "--config", broken)
    assert result.exit_code == 2
    assert f"{len(keys)} problems, nothing was started" in result.output
    for key in keys:
        assert f"- {key}" in result.output


@pytest.mark.parametrize(("threshold", "code"), [(80, 0), (4, 1)])
def test_strict_check_fails_on_a_verdict(threshold: int, code: int, tmp_path: Path) -> None:
    """`check --strict` exits with 1 if a verdict is not fine; without --strict, such a configuration exits with 0."""
    tree = read_demo()
    tree["monitors"][1]["threshold"] = threshold
    (tmp_path / "demo-locations.csv").write_text((EXAMPLES / "demo-locations.csv").read_text())
    path = tmp_path / "strict.yaml"
    path.write_text(yaml.safe_dump(tree))
    assert invoke("check", "--config", path).exit_code == 0
    result = invoke("check", "--config", path, "--strict")
    assert result.exit_code == code
    assert ("  useless  midday: " in result.output) is bool(code)


@pytest.mark.parametrize(
    "words",
    [
        ("check", "--config", EXAMPLES / "demo.yaml", "--json"),
        *(("schema", name) for name in ("config", "visits", "alerts", "asyncapi")),
    ],
)
def test_output_is_json(words: Sequence[str | Path]) -> None:
    """The report of `check --json` and each schema are JSON objects."""
    result = invoke(*words)
    assert result.exit_code == 0
    assert json.loads(result.output)


def test_keygen_writes_a_signing_key(tmp_path: Path) -> None:
    """`keygen --signing` writes a private key to a file that only its owner can read, and prints the public key."""
    file = tmp_path / "signing.key"
    result = invoke("keygen", "--signing", "example.org/town", file)
    assert result.exit_code == 0
    assert result.output.strip() == str(read_signing_key(file.read_text().strip()).verifier)
    assert file.stat().st_mode & 0o777 == 0o600
    assert invoke("keygen", "--signing", "a name", tmp_path / "other.key").exit_code == 2


def test_keygen_writes_a_new_private_key(tmp_path: Path) -> None:
    """`keygen` writes a random key to a file that only its owner can read, and replaces no file."""
    file = tmp_path / "person.key"
    assert invoke("keygen", file).exit_code == 0
    key = file.read_bytes()
    assert is_key(key.strip())
    assert file.stat().st_mode & 0o777 == 0o600
    second = invoke("keygen", file)
    assert second.exit_code == 2
    assert "a key that is in use must not be lost" in " ".join(second.output.split())
    assert file.read_bytes() == key


def test_errors_cannot_control_the_terminal(tmp_path: Path) -> None:
    """An error shows control characters of a file, here in an unknown key, as replacement characters."""
    config = tmp_path / "town.yaml"
    config.write_text('"k\\e]0;PWN\\a\\N": 1\nservice: {name: town}\n', encoding="utf-8")
    result = invoke("check", "--config", config)
    assert result.exit_code == 2
    assert "k\N{REPLACEMENT CHARACTER}]0;PWN\N{REPLACEMENT CHARACTER}" in result.output
    assert [character for character in result.output if not (character.isprintable() or character == "\n")] == []
