"""Shipped configurations pass `check --strict`, with the thresholds of the `plan` command above each monitor."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from click.testing import CliRunner

from monitor.cli import main

ROOT: Final = Path(__file__).parents[3]
PLAIN: Final = ("config/city.yaml", "config/demo.yaml", "config/secure.yaml", "deploy/config.yaml")
CHART: Final = tuple(str(path.relative_to(ROOT)) for path in sorted((ROOT / "deploy/chart/ci").glob("*.yaml")))
_COMMAND: Final = re.compile(r"# location-monitor plan (.*(?:\n *#   --.*)*)\n *- name: (\S+)")


def prepare(name: str, folder: Path) -> Path:
    """Return the configuration; for the chart, in a file of its own with a registry of the watched places."""
    path = ROOT / name
    if name in PLAIN:
        return path
    tree: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))["config"]
    places = {place for monitor in tree["monitors"] for place in monitor.get("locations", ())}
    (folder / "locations.csv").write_text("\n".join(("location_id", *sorted(places), "elsewhere")), encoding="utf-8")
    tree["locations"] = {"file": "locations.csv"}
    for section, key in (("kafka", "username"), ("redis", "username")):
        if key in tree[section]:
            tree[section]["password_file"] = str(folder / "locations.csv")  # a secret of the chart; any file serves
    (folder / "config.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    return folder / "config.yaml"


def find_commands() -> Iterator[tuple[str, str, str]]:
    """Yield the file, the monitor and the options of each `plan` command above a monitor."""
    for name in (*PLAIN, *CHART):
        for options, monitor in _COMMAND.findall((ROOT / name).read_text(encoding="utf-8")):
            yield name, monitor, re.sub(r"\n *#", "", options)


COMMANDS: Final = tuple(find_commands())


@pytest.mark.parametrize("name", [*PLAIN, *CHART])
def test_shipped_files_pass_strictly(name: str, tmp_path: Path) -> None:
    """The verdict on one visit, one person, the alarms of noise and everything else is "fine"."""
    result = CliRunner().invoke(main, ["check", "--strict", "--json", "--config", str(prepare(name, tmp_path))])
    assert result.exit_code == 0, result.output
    verdicts = json.loads(result.output)["verdicts"]
    assert {"one visit", "one person", "fine"} <= {value for verdict in verdicts for value in verdict.values()}


@pytest.mark.parametrize(("name", "monitor", "options"), COMMANDS)
def test_values_are_those_of_the_command(name: str, monitor: str, options: str) -> None:
    """`plan`, called as the comment says, proposes first what stands in the file."""
    tree = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    (written,) = (each for each in tree.get("config", tree)["monitors"] if each["name"] == monitor)
    result = CliRunner().invoke(main, ["plan", "--json", *shlex.split(options)])
    assert result.exit_code == 0, result.output
    plan = json.loads(result.output)["plans"][0]
    assert (Fraction(plan["epsilon"]), plan["threshold"]) == (Fraction(written["epsilon"]), written["threshold"])
    assert plan.get("answers_per_window", 1) == written.get("answers_per_window", 1)


def test_commands_are_found() -> None:
    """All but one of the files state the command. The values for the chart with all kinds come from `plan --config`."""
    assert len(COMMANDS) == 9
