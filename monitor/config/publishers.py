"""Other publishers of answers about the same people, and what one person may pay to all of them together.

What a publisher states does not depend on data, so anyone can add it up (docs/privacy.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from monitor.config.load import load_config
from monitor.config.whole_config import Config
from monitor.config.yaml_file import read_yaml
from monitor.contracts.instants import DAY, HOUR, MINUTE, SECOND, parse_duration
from monitor.errors import ConfigError, DurationError, Problem

_UNITS: Final = {"day": DAY, "hour": HOUR, "minute": MINUTE, "second": SECOND}
_UNIT: Final = re.compile(r"Person, within any (.+)")
_PART: Final = re.compile(r"(\d+) (day|hour|minute|second)s?(?: |$)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Publisher:
    """Who publishes answers. It states that nobody pays more than `epsilon` in any `period` (microseconds)."""

    name: str
    epsilon: Fraction
    period: int

    @classmethod
    def of(cls, config: Config) -> Publisher:
        """Return the publisher that a configuration describes."""
        return cls(config.service.name, config.privacy.epsilon, config.privacy.period)

    def charge_within(self, period: int) -> Fraction:
        """Return the most that one person may pay to this publisher within any `period` (microseconds).

        As many periods of its own as cover `period` contain all visits of it.
        """
        return self.epsilon * -(-period // self.period)


def add_charges(own: Publisher, others: Iterable[Publisher]) -> Fraction:
    """Return the most that one person may pay to all publishers within any period of `own`."""
    return own.epsilon + sum((each.charge_within(own.period) for each in others), Fraction(0))


def read_publishers(paths: Sequence[Path]) -> tuple[Publisher, ...]:
    """Read what others state: from their configurations, or from the registry entries that `register` writes.

    Raises:
        ConfigError: with the problems of all files.
    """
    found: list[Publisher] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            found.append(_read_publisher(path))
        except ConfigError as error:
            problems += (replace(problem, key=f"{path}: {problem.key}") for problem in error.problems)
    if problems:
        raise ConfigError("other publishers", tuple(problems))
    return tuple(found)


def _read_publisher(path: Path) -> Publisher:
    tree = read_yaml(path)
    return _read_entry(path, tree["deployment"]) if "deployment" in tree else Publisher.of(load_config(path, {}))


def _read_entry(path: Path, entry: object) -> Publisher:
    """Read an entry of the registry of deployments (`register` writes it). ε is the decimal number in the file."""
    name = _find(entry, "basic", "name")
    unit = _find(entry, "privacy_loss", "privacy_unit")
    epsilon = _find(entry, "privacy_loss", "privacy_parameters", "epsilon")
    period = read_period(unit)
    problems = []
    if not isinstance(name, str):
        problems.append(Problem("deployment.basic.name", "", "the name of the deployment, a text"))
    if period is None:
        problems.append(
            Problem(
                "deployment.privacy_loss.privacy_unit",
                repr(unit)[:80],
                "a person within a period, such as 'Person, within any 14 days', as `register` writes it",
                "A loss for another unit, such as an event, cannot be added to that of a person.",
            )
        )
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 < epsilon < float("inf"):
        key = "deployment.privacy_loss.privacy_parameters.epsilon"
        problems.append(Problem(key, repr(epsilon)[:80], "a number above 0"))
    if problems or period is None:
        raise ConfigError(str(path), tuple(problems))
    return Publisher(str(name), Fraction(str(epsilon)), period)


def _find(tree: object, *keys: str) -> Any:
    """Return the value at a path of keys; None if there is none."""
    for key in keys:
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree


def read_period(unit: object) -> int | None:
    """Return the period in a unit of privacy that `register` wrote (microseconds); None if it has another form."""
    match = _UNIT.fullmatch(unit) if isinstance(unit, str) else None
    if match is None:
        return None
    period, rest = 0, match[1]
    while part := _PART.match(rest):
        period, rest = period + int(part[1]) * _UNITS[part[2]], rest[part.end() :]
    try:
        return period + (parse_duration(rest) if rest else 0) or None  # below a second it is written as `500ms`
    except DurationError:
        return None
