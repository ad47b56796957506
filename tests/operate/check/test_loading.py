"""All problems of a configuration and its registry are listed at once, and the shipped configurations have none."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from click.testing import CliRunner

from monitor.cli import main
from monitor.config.valid_config import load_valid_config
from monitor.errors import ConfigError, Problem

CONFIG = Path(__file__).parents[3] / "config"
EXAMPLES = Path(__file__).parents[2] / "kit" / "configs"


@pytest.fixture
def problems(tmp_path: Path) -> Callable[..., dict[str, Problem]]:
    """`problems(change, registry)`: the problems of the city's configuration after changes, by key."""

    def list_problems(change: Callable[[dict[str, Any]], object], registry: str | None = None) -> dict[str, Problem]:
        tree = yaml.safe_load((EXAMPLES / "city.yaml").read_text())
        tree["clock"]["origin"] = "2026-01-05T00:00:00+01:00"
        tree["locations"]["file"] = "city-locations.csv"
        change(tree)
        locations = (CONFIG / "city-locations.csv").read_text() if registry is None else registry
        (tmp_path / "city-locations.csv").write_text(locations)
        path = tmp_path / "city.yaml"
        path.write_text(yaml.safe_dump(tree))
        with pytest.raises(ConfigError) as caught:
            load_valid_config(path, {})
        assert caught.value.source == str(path)
        return {problem.key: problem for problem in caught.value.problems}

    return list_problems


def test_sum_is_listed_with_other_problems(problems: Callable[..., dict[str, Problem]]) -> None:
    """Overspending is listed with the other problems.

    The sum is that of the valid monitors: the hubs are left out, because their window is invalid.
    """

    def change(tree: dict[str, Any]) -> None:
        tree["privacy"]["epsilon"] = "9"
        tree["service"]["shards"] = 5
        tree["kafka"]["partitions"] = {"visits": 8, "alerts": 2}
        tree["monitors"][0]["window"] = "90m"
        tree["monitors"][1]["locations"] = ["clinic-1", "clinik-2"]

    listed = problems(change)
    assert set(listed) == {"privacy.epsilon", "service.shards", "monitors.0.window", "monitors.1.locations"}
    assert "sum: 2 + 15/4 + 5 = 43/4" in listed["privacy.epsilon"].expected
    assert "Did you mean 'clinic-2'?" in listed["monitors.1.locations"].remedy


def test_registry_problems_name_the_file(
    problems: Callable[..., dict[str, Problem]],
) -> None:
    """Problems of the registry are listed with the others, under the name of the file."""

    def change(tree: dict[str, Any]) -> None:
        tree["privacy"]["epsilon"] = "9"
        tree["visits"]["default_stay"] = 15

    listed = problems(change, "location_id\nhub-1\nhub-1\n")
    assert set(listed) == {"visits.default_stay", "city-locations.csv: line 3, location_id"}
    listed = problems(lambda tree: tree["privacy"].update(epsilon="9"), "location_id\nhub-1\nhub-1\n")
    assert set(listed) == {"privacy.epsilon", "city-locations.csv: line 3, location_id"}


def test_sum_has_all_charges(problems: Callable[..., dict[str, Problem]]) -> None:
    """Overspending is a problem with the configured ε, the sum, the difference, every charge and the remedy."""
    listed = problems(lambda tree: tree["privacy"].update(epsilon="9"))
    assert set(listed) == {"privacy.epsilon"}
    message = str(listed["privacy.epsilon"])
    for part in (
        "privacy.epsilon is 9",
        "23/4 more",
        ": 4 = ",
        "4 + 2 + 15/4 + 5 = 59/4",
        "Set it to 59/4 or more",
    ):
        assert part in message


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
