"""Compare the ε of a configuration with the deployments in OpenDP's registry, for the same unit of privacy.

The registry is the repository opendp/deployments-registry-data. Its entries are read from a checkout.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from monitor.config.publishers import read_period
from monitor.config.yaml_file import read_yaml
from monitor.contracts.instants import DAY
from monitor.errors import FailedError
from monitor.privacy.epsilon import format_epsilon
from monitor.tools.check.report import CheckReport
from monitor.tools.check.wording import spell_duration

_DAYS: Final = {"day": 1, "week": 7, "month": 28, "quarter": 90, "year": 365}
"""The fewest days of a unit of the calendar."""
_PEOPLE: Final = {"user", "person", "individual", "device", "household"}
_CAVEAT: Final = (
    "Asymmetric differential privacy protects that a person was at a place, not that a person was absent. Differential "
    "privacy protects both, so the same ε promises more there. An ε for each event or tuple does not limit what a "
    "person pays, so it has no sum. The sum of an ε for each day, week or month is the most that one person can pay in "
    "all of them that the period touches, if each has a release. An ε without a period counts once."
)


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployment in the registry: its name, its ε, and the unit of privacy in its own words."""

    name: str
    epsilon: Fraction
    unit: str

    def charge_within(self, period: int) -> Fraction | None:
        """Return the most that one person may pay within any `period` (microseconds).

        Return None if the unit is not a person: the ε of events has no limit for a person.
        """
        own, repeated = read_period(self.unit), _find_repetition(self.unit)
        if own is not None:
            return self.epsilon * -(-period // own)
        if repeated is not None:  # a period may begin within a day, week or month
            return self.epsilon * (-(-period // repeated) + 1)
        return self.epsilon if set(_split(self.unit)) <= _PEOPLE else None


def _split(unit: str) -> list[str]:
    """Return the words of a unit as the registry writes it: `User-device-level` is a user and a device."""
    return unit.lower().removesuffix("-level").split("-")


def _find_repetition(unit: str) -> int | None:
    """Return the period of a unit such as `User-day` (microseconds); None if it has none, or is not a person."""
    *people, last = _split(unit)
    return _DAYS[last] * DAY if people and set(people) <= _PEOPLE and last in _DAYS else None


def read_deployments(folder: Path) -> tuple[Deployment, ...]:
    """Read the entries in `deployments/` of a checkout that state an ε and a unit.

    Raises:
        ConfigError: an entry is not YAML.
        FailedError: there is no entry.
    """
    found = [entry for path in sorted((folder / "deployments").glob("*.yaml")) for entry in _read_entry(path)]
    if not found:
        raise FailedError(
            f"--compare: {folder / 'deployments'} has no entry with an ε: name a checkout of "
            "opendp/deployments-registry-data."
        )
    return tuple(found)


def _read_entry(path: Path) -> Iterator[Deployment]:
    """Yield the entry if it states an ε. Its name is in `basic`, `product` or beside them, by its age."""
    deployment = read_yaml(path).get("deployment")
    if not isinstance(deployment, Mapping):
        return
    loss = deployment.get("privacy_loss")
    basic = deployment.get("basic") or deployment.get("product") or deployment
    name = basic.get("name", path.stem) if isinstance(basic, Mapping) else path.stem
    parameters = loss.get("privacy_parameters") if isinstance(loss, Mapping) else None
    epsilon = parameters.get("epsilon") if isinstance(parameters, Mapping) else None
    if isinstance(loss, Mapping) and _is_positive(epsilon):
        yield Deployment(str(name), Fraction(str(epsilon)), str(loss.get("privacy_unit")))


def _is_positive(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and 0 < number < math.inf


def write_comparison(report: CheckReport, deployments: Sequence[Deployment]) -> str:
    """Return a table in Markdown of all deployments, those with the lowest sum first."""
    period = spell_duration(report.period)
    rows = [(deployment, deployment.charge_within(report.period)) for deployment in deployments]
    rows.append((Deployment(f"**{report.service}**", report.stated, f"Person, within any {period}"), report.stated))
    lines = (
        f"| {deployment.name} | {format_epsilon(deployment.epsilon)} | {deployment.unit} | "
        f"{'no limit' if charge is None else format_epsilon(charge)} |"
        for deployment, charge in sorted(rows, key=lambda row: (row[1] is None, row[1] or 0, row[0].name))
    )
    return "\n".join(
        (
            f"# ε of {report.service}, beside the deployments in OpenDP's registry",
            "",
            f"| deployment | ε | for each | one person in {period} |",
            "|---|---|---|---|",
            *lines,
            "",
            _CAVEAT,
            "",
        )
    )
