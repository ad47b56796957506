"""A configuration and its registry together: all that is wrong is listed at once, the sum of the period included."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.errors import ConfigError, OverspentError, Problem
from monitor.tools.check.loading import load_checked

EXAMPLES = Path(__file__).parents[2] / "config"


@pytest.fixture
def problems(tmp_path: Path) -> Callable[..., dict[str, Problem]]:
    """The problems of the city's configuration with changes, by key: `problems(spoil, registry)`."""

    def found(spoil: Callable[[dict[str, Any]], object], registry: str | None = None) -> dict[str, Problem]:
        tree = yaml.safe_load((EXAMPLES / "city.yaml").read_text())
        tree["clock"]["origin"] = "2026-01-05T00:00:00+01:00"
        spoil(tree)
        locations = (EXAMPLES / "city-locations.csv").read_text() if registry is None else registry
        (tmp_path / "city-locations.csv").write_text(locations)
        path = tmp_path / "city.yaml"
        path.write_text(yaml.safe_dump(tree))
        with pytest.raises(ConfigError) as caught:
            load_checked(path, {})
        assert caught.value.source == str(path)
        return {problem.key: problem for problem in caught.value.problems}

    return found


def test_the_sum_is_told_together_with_what_else_is_wrong(problems: Callable[..., dict[str, Problem]]) -> None:
    """Of those monitors that are right by themselves: the hubs are left out, for their window is wrong."""

    def spoil(tree: dict[str, Any]) -> None:
        tree["privacy"]["epsilon"] = "9"
        tree["service"]["shards"] = 5
        tree["kafka"]["partitions"] = {"visits": 8, "alerts": 2}
        tree["monitors"][0]["window"] = "90m"
        tree["monitors"][1]["locations"] = ["clinic-1", "clinik-2"]

    found = problems(spoil)
    assert set(found) == {"privacy.epsilon", "service.shards", "monitors.0.window", "monitors.1.locations"}
    assert "sum: 2 + 15/4 + 5 = 43/4" in found["privacy.epsilon"].remedy
    assert "Did you mean 'clinic-2'?" in found["monitors.1.locations"].remedy


def test_what_is_wrong_with_the_registry_is_told_with_the_rest_under_its_name(
    problems: Callable[..., dict[str, Problem]],
) -> None:
    """Lines alone would not say of which file."""

    def spoil(tree: dict[str, Any]) -> None:
        tree["privacy"]["epsilon"] = "9"
        tree["visits"]["default_stay"] = 15

    found = problems(spoil, "location_id\nhub-1\nhub-1\n")
    assert set(found) == {"visits.default_stay", "city-locations.csv: line 3, location_id"}
    found = problems(lambda tree: tree["privacy"].update(epsilon="9"), "location_id\nhub-1\nhub-1\n")
    assert set(found) == {"privacy.epsilon", "city-locations.csv: line 3, location_id"}


def test_the_sum_alone_is_told_as_such(tmp_path: Path) -> None:
    """Written out, without a list around it."""
    tree = yaml.safe_load((EXAMPLES / "city.yaml").read_text())
    tree["clock"]["origin"] = "2026-01-05T00:00:00+01:00"
    tree["privacy"]["epsilon"] = "9"
    (tmp_path / "city-locations.csv").write_text((EXAMPLES / "city-locations.csv").read_text())
    (tmp_path / "city.yaml").write_text(yaml.safe_dump(tree))
    with pytest.raises(OverspentError, match=r"4 \+ 2 \+ 15/4 \+ 5 = 59/4"):
        load_checked(tmp_path / "city.yaml", {})
