"""Validate a configuration together with its registry, once, and derive what the service needs from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from monitor.config.charges import compute_charges, find_overspending, report_overspending
from monitor.config.derive_parameters import derive_parameters
from monitor.config.load import ParsedConfig, read_config
from monitor.config.model import Config
from monitor.config.record_limits import find_oversized_records
from monitor.config.registry import Location, find_unknown_locations, load_registry
from monitor.contracts.parameters import Parameters
from monitor.errors import ConfigError, OverspentError, Problem
from monitor.privacy.payments import Charge


@dataclass(frozen=True, slots=True)
class ValidConfig:
    """A configuration that `check` accepts. With its secrets, `topics --create` and `run` accept it on new servers.

    `charges`: the most that each monitor may charge one person in a period.
    """

    config: Config
    locations: Sequence[Location]
    parameters: Parameters
    charges: tuple[Charge, ...]

    @property
    def worst(self) -> Fraction:
        """The most that one person may pay in any period, under this configuration alone."""
        return sum((charge.amount for charge in self.charges), Fraction(0))


def validate_config(config: Config, registry: Sequence[Location]) -> ValidConfig:
    """Check a configuration and its registry, and derive the parameters.

    Raises:
        ConfigError: a watched location is not in the registry, or an answer may be too large for a record. The
            problems also include overspending.
        OverspentError: one person may pay more than privacy.epsilon; the message contains the sum.
    """
    problems = tuple(find_unknown_locations(dict(enumerate(config.monitors)), registry))
    parameters = None if problems else derive_parameters(config, registry)
    if parameters is not None:
        problems = tuple(find_oversized_records(config, parameters))
    charged = compute_charges(config)
    overspent = find_overspending(config, charged)
    if parameters is None or problems:
        spending = [report_overspending(config, overspent)] if overspent else []
        raise ConfigError("the configuration", (*problems, *spending))
    if overspent:
        raise overspent
    return ValidConfig(config, registry, parameters, charged)


def load_valid_config(path: Path, environ: Mapping[str, str]) -> ValidConfig:
    """Read a configuration and its registry, and check them.

    Raises:
        ConfigError: with all problems of both files, and overspending if there is any.
        OverspentError: overspending is the only problem: one person may pay more than privacy.epsilon.
    """
    return examine(read_config(path, environ))


def examine(read: ParsedConfig, further: Sequence[Problem] = ()) -> ValidConfig:
    """Check a parsed configuration. The `further` problems, found by the caller, are listed too.

    Raises:
        ConfigError, OverspentError: as `load_valid_config`.
    """
    registry, registry_problems = _load_registry(read)
    problems = [*read.problems, *registry_problems, *further]
    if read.problems or registry is None:
        problems += _check_valid_parts(read, registry)
        raise ConfigError(str(read.path), tuple(map(read.name_monitor, problems)))
    config = read.to_config()
    try:
        valid = validate_config(config, registry)
    except ConfigError as error:
        problems += error.problems
    except OverspentError as error:
        if not problems:
            raise
        problems.append(report_overspending(config, error))
    if problems:
        raise ConfigError(str(read.path), tuple(map(read.name_monitor, problems)))
    return valid


def collect_problems(work: Callable[[], object]) -> tuple[Problem, ...]:
    """Call `work` and return the problems of the ConfigError that it raises; () if it succeeds."""
    try:
        work()
    except ConfigError as error:
        return error.problems
    return ()


def _load_registry(read: ParsedConfig) -> tuple[Sequence[Location] | None, list[Problem]]:
    """Load the registry. If it is invalid, return None and its problems, with keys that begin with the file's name."""
    if "locations" not in read.sections:
        return None, []
    file = read.sections["locations"].file
    try:
        return load_registry(file), []
    except ConfigError as error:
        return None, [
            problem if problem.key == "locations.file" else replace(problem, key=f"{file.name}: {problem.key}")
            for problem in error.problems
        ]


def _check_valid_parts(read: ParsedConfig, locations: Sequence[Location] | None) -> Iterator[Problem]:
    """Yield the problems between sections, monitors and registry, for the parts that are valid on their own."""
    invalid = [problem.key for problem in read.problems]
    if locations is not None:
        named = {
            index: monitor
            for index, monitor in read.monitors.items()
            if not _is_among(f"monitors.{index}.locations", invalid)
        }
        yield from find_unknown_locations(named, locations)
    parts = {name: read.sections[name] for name in ("clock", "visits", "privacy") if name in read.sections}
    if len(parts) < 3 or any(key.partition(".")[0] in parts for key in invalid):  # noqa: PLR2004  # all of them
        return
    valid = [monitor for index, monitor in read.monitors.items() if not _is_among(f"monitors.{index}", invalid)]
    config = Config.model_construct(**parts, monitors=tuple(valid))
    if (error := find_overspending(config, compute_charges(config))) is not None:
        yield report_overspending(config, error)


def _is_among(key: str, invalid: Sequence[str]) -> bool:
    return any(problem == key or problem.startswith(f"{key}.") for problem in invalid)
