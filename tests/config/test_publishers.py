"""The ε of several publishers about the same people, and their sum."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from random import Random

import pytest
import yaml

from monitor.config.publishers import Publisher, add_charges, read_period, read_publishers
from monitor.contracts.instants import DAY, HOUR
from monitor.errors import ConfigError
from monitor.tools.check.wording import spell_duration

CONFIG = Path(__file__).parents[2] / "config"


def write_entry(path: Path, unit: object, epsilon: object, name: object = "Safe places: north") -> Path:
    """Write what matters of a registry entry."""
    loss = {"privacy_unit": unit, "privacy_parameters": {"epsilon": epsilon}}
    path.write_text(yaml.safe_dump({"deployment": {"basic": {"name": name}, "privacy_loss": loss}}), encoding="utf-8")
    return path


def test_charge_covers_every_period() -> None:
    """No sequence of charges that keeps ε in each period of its own exceeds the charge within another period."""
    random = Random(31)
    for _ in range(300):
        publisher = Publisher("north", Fraction(random.randint(1, 9)), random.randint(1, 6))
        within = random.randint(1, 20)
        paid: list[int] = []  # by instant, as much as the rule still allows or less
        for _ in range(40):
            allowed = int(publisher.epsilon) - sum(paid[-publisher.period + 1 :] if publisher.period > 1 else [])
            paid.append(random.choice((0, allowed, allowed)))
        most = max(sum(paid[start : start + within]) for start in range(len(paid) - within + 1))
        assert most <= publisher.charge_within(within)


def test_charge_is_reached() -> None:
    """A publisher that charges ε at the first instant of each of its periods charges exactly the bound."""
    assert Publisher("north", Fraction(1, 2), 7 * DAY).charge_within(14 * DAY) == 1
    assert Publisher("north", Fraction(1, 2), 7 * DAY).charge_within(15 * DAY) == Fraction(3, 2)
    assert Publisher("north", Fraction(1, 2), 14 * DAY).charge_within(HOUR) == Fraction(1, 2)


def test_period_is_read_as_it_is_written() -> None:
    """Every period that an entry spells is read again."""
    for period in (1_000, 500_000, 61_500_000, HOUR, 14 * DAY, 14 * DAY + HOUR + 1_000):
        assert read_period(f"Person, within any {spell_duration(period)}") == period


def test_configuration_and_entry_are_read(tmp_path: Path) -> None:
    """Others are read from a configuration, or from an entry in YAML; an ε is the decimal in the file."""
    entry = write_entry(tmp_path / "north.yaml", "Person, within any 10 days 1 hour", 0.1)
    city, north = read_publishers((CONFIG / "city.yaml", entry))
    assert city == Publisher("city", Fraction(15), 14 * DAY)
    assert north == Publisher("Safe places: north", Fraction(1, 10), 10 * DAY + HOUR)
    assert add_charges(city, (north,)) == 15 + Fraction(2, 10)


@pytest.mark.parametrize(
    ("unit", "epsilon", "name", "key"),
    [
        ("Event-level", 1, "north", "privacy_unit"),
        ("Person, within any 0 days", 1, "north", "privacy_unit"),
        (None, 1, "north", "privacy_unit"),
        ("Person, within any 14 days7 hours", 1, "north", "privacy_unit"),
        ("Person, within any ٣ days", 1, "north", "privacy_unit"),
        ("Person, within any 7 days", True, "north", "epsilon"),
        ("Person, within any 7 days", 0, "north", "epsilon"),
        ("Person, within any 7 days", float("inf"), "north", "epsilon"),
        ("Person, within any 7 days", None, "north", "epsilon"),
        ("Person, within any 7 days", 1, None, "deployment.basic.name"),
    ],
)
def test_useless_entry_is_refused(tmp_path: Path, unit: object, epsilon: object, name: object, key: str) -> None:
    """An entry whose ε is not that of a person in a period cannot be added. The message names file and key."""
    path = write_entry(tmp_path / "entry.yaml", unit, epsilon, name)
    with pytest.raises(ConfigError) as raised:
        read_publishers((path,))
    (problem,) = raised.value.problems
    assert problem.key.startswith(f"{path}: ")
    assert problem.key.endswith(key)


def test_problems_of_all_files_are_listed(tmp_path: Path) -> None:
    """Every file that cannot be read is in one error."""
    with pytest.raises(ConfigError) as raised:
        read_publishers((tmp_path / "none.yaml", write_entry(tmp_path / "events.yaml", "Event-level", 0)))
    assert [str(tmp_path / "none.yaml") in problem.key for problem in raised.value.problems] == [True, False, False]
