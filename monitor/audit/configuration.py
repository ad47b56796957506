"""The terms of a run: the parts of the configuration that the recount needs (docs/interface.md, section 3).

Values of these parts are read from the file alone, so variables that the service would take them from are refused.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfoNotFoundError

import yaml

from monitor.audit.kinds.all_kinds import KINDS
from monitor.audit.kinds.base.monitor import Monitor
from monitor.audit.parse_values import AuditError, parse_duration, parse_epsilon, parse_instant
from monitor.audit.shared_terms import Grid, SharedTerms

_VARIABLE: Final = "LOCATION_MONITOR__"
_JUDGED: Final = ("service", "clock", "locations", "visits", "privacy", "signing", "monitors")
"""The sections that the recount reads."""
_SECRET: Final = ("visits.person_key", "signing.key_file")
"""The keys of these sections that it does not read begin so."""


@dataclass(frozen=True, kw_only=True)
class AuditTerms(SharedTerms):
    """The terms of a run, with those of all its monitors, in the order of the configuration."""

    monitors: tuple[Monitor[Any], ...]

    @property
    def lifetime(self) -> int:
        """How many slots after its last one no answer counts a visit any more."""
        return max(monitor.find_lifetime(self.grid) for monitor in self.monitors)


class _Texts(yaml.SafeLoader):
    """A YAML loader that keeps all scalars as strings, so that no value becomes a float or a base-60 number."""

    yaml_implicit_resolvers = {"<": yaml.SafeLoader.yaml_implicit_resolvers["<"]}  # noqa: RUF012  # as PyYAML declares it


def read_terms(path: Path) -> AuditTerms:
    """Read a configuration and the registry that it names.

    Raises:
        AuditError: a file or a key is missing, or is not in the form of docs/interface.md.
    """
    with _explain_errors(path):
        config = _read_yaml(path)
        return _parse_terms(config, _read_locations(path.parent / config["locations"]["file"]))


def refuse_variables(environ: Mapping[str, str]) -> None:
    """Raise AuditError for an environment variable from which the service would take a value that the audit judges by.

    Earlier configurations may have had another value, so no variable can state it for all of them.
    """
    for name in sorted(environ):
        key = name.removeprefix(_VARIABLE).lower().replace("__", ".")
        if name.startswith(_VARIABLE) and key.partition(".")[0] in _JUDGED and not key.startswith(_SECRET):
            raise AuditError(
                f"{key}: the variable {name} is set, and `audit` judges by the values in the files of --config alone: "
                "write the value into the file, and unset the variable"
            )


def find_registry_file(path: Path) -> Path:
    """Return the path of the registry that a configuration names.

    Raises:
        AuditError: the configuration cannot be read, or names none.
    """
    with _explain_errors(path):
        return path.parent / str(_read_yaml(path)["locations"]["file"])


def require_one_grid(configs: Sequence[AuditTerms]) -> None:
    """Check that all configurations have the same slots. Raise AuditError if not."""
    if len({terms.grid for terms in configs}) > 1:
        raise AuditError("the configurations differ in clock.slot or clock.origin: audit each separately")


def _read_yaml(path: Path) -> Any:
    return _Texts(path.read_text(encoding="utf-8")).get_single_data()


@contextmanager
def _explain_errors(path: Path) -> Iterator[None]:
    """Turn the errors of a wrong configuration into AuditError."""
    try:
        yield
    except ZoneInfoNotFoundError as error:  # a KeyError too
        raise AuditError(f"{path}: timezone: {error.args[0]}; run `location-monitor check`") from error
    except KeyError as error:
        raise AuditError(f"{path}: the configuration has no key {error}; run `location-monitor check`") from None
    except (OSError, ValueError, TypeError, AttributeError, ZeroDivisionError, yaml.YAMLError, csv.Error) as error:
        raise AuditError(f"{path}: cannot be read as a configuration: {error}") from error


def _read_locations(path: Path) -> tuple[str, ...]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.reader(file, strict=True) if row]
    if rows and rows[0].count("location_id") != 1:
        raise ValueError(f"{path.name}: the header has not exactly one column location_id")
    column = rows[0].index("location_id") if rows else 0
    return tuple(row[column] for row in rows[1:])


def _parse_terms(config: Any, locations: tuple[str, ...]) -> AuditTerms:
    clock, visits, privacy = config["clock"], config["visits"], config["privacy"]
    grid = Grid(parse_instant(clock["origin"]), parse_duration(clock["slot"]))
    accept_ahead, default_stay = parse_duration(visits["accept_ahead"]), parse_duration(visits["default_stay"])
    terms = AuditTerms(
        service=config["service"]["name"],
        shards=int(config["service"].get("shards", 16)),
        grid=grid,
        accept_ahead=accept_ahead // grid.slot,
        max_lead=accept_ahead // grid.slot - -default_stay // grid.slot,
        default_stay=default_stay,
        may_pay=parse_epsilon(privacy["epsilon"]),
        period=parse_duration(privacy["period"]),
        locations=locations,
        public_key=(config.get("signing") or {}).get("public_key") or "",
        monitors=(),
    )
    return replace(terms, monitors=tuple(_parse_monitor(monitor, terms) for monitor in config["monitors"]))


def _parse_monitor(monitor: Any, terms: SharedTerms) -> Monitor[Any]:
    kind = KINDS.get(monitor["kind"])
    if kind is None:
        raise ValueError(f"monitors: {monitor['name']}: kind: expected {', '.join(KINDS)}")
    return kind.parse(monitor, terms)
