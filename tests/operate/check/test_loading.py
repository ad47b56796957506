"""All problems of a configuration and its registry are listed at once, including the sum of the period."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

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
