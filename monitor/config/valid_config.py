"""Validate a configuration together with its registry, once, and derive what the service needs from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from monitor.config.charges_of_monitors import compute_charges, find_overspending
from monitor.config.conditions_between_keys import Values, find_unknown_locations
from monitor.config.derive_parameters import derive_parameters
from monitor.config.load import ParsedConfig, read_config
from monitor.config.registry import Locations, load_registry
from monitor.config.whole_config import Config
from monitor.errors import ConfigError, Problem
from monitor.kinds.parameters import Parameters
from monitor.kinds.record_sizes import LARGEST_SNAPSHOT
from monitor.privacy.payment_of_one_person import Charge


@dataclass(frozen=True, slots=True)
class ValidConfig:
    """A configuration that `check` accepts. With its secrets, `topics --create` and `run` accept it on new servers.

    `charges`: the most that each monitor may charge one person in a period.
    """

    config: Config
    locations: Locations
    parameters: Parameters
    charges: tuple[Charge, ...]

    @property
    def worst(self) -> Fraction:
        """The most that one person may pay in any period, under this configuration alone."""
        return sum((charge.amount for charge in self.charges), Fraction(0))


def validate_config(config: Config, registry: Locations) -> ValidConfig:
    """Check a configuration and its registry, and derive the parameters.

    Raises:
        ConfigError: with all problems: a watched location is not in the registry, an answer may be too large for a
            record, or one person may pay more than privacy.epsilon.
    """
    charges = compute_charges(config)
    overspending = find_overspending(config, charges)
    problems = list(find_unknown_locations(dict(enumerate(config.monitors)), registry.ids))
    parameters = None if problems else derive_parameters(config, registry.ids)
    if parameters is not None:
        problems += _find_oversized_records(config, parameters)
    problems += [overspending] if overspending else []
    if parameters is None or problems:
        raise ConfigError("the configuration", tuple(problems))
    return ValidConfig(config, registry, parameters, charges)


def load_valid_config(path: Path, environ: Mapping[str, str]) -> ValidConfig:
    """Read a configuration and its registry, and check them.

    Raises:
        ConfigError: with all problems of both files, and overspending if there is any.
    """
    return examine(read_config(path, environ))


def examine(read: ParsedConfig, further: Sequence[Problem] = ()) -> ValidConfig:
    """Check a parsed configuration. The `further` problems, found by the caller, are listed too.

    Raises:
        ConfigError: as `load_valid_config`.
    """
    registry, registry_problems = _load_registry(read)
    problems, valid = [*read.problems, *registry_problems, *further], None
    if read.problems or registry is None:
        problems += _check_valid_parts(read, registry)
    else:
        try:
            valid = validate_config(read.to_config(), registry)
        except ConfigError as error:
            problems += error.problems
    if problems or valid is None:
        raise ConfigError(str(read.path), tuple(map(read.name_monitor, problems)))
    return valid


def collect_problems(work: Callable[[], object]) -> tuple[Problem, ...]:
    """Call `work` and return the problems of the ConfigError that it raises; () if it succeeds."""
    try:
        work()
    except ConfigError as error:
        return error.problems
    return ()


def _load_registry(read: ParsedConfig) -> tuple[Locations | None, list[Problem]]:
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


def _check_valid_parts(read: ParsedConfig, locations: Locations | None) -> Iterator[Problem]:
    """Yield the problems between sections, monitors and registry, for the parts that are valid on their own."""
    parts = {name: read.sections[name] for name in ("clock", "visits", "privacy") if name in read.sections}
    values = Values(Config.model_construct(**parts), read.monitors, frozenset(problem.key for problem in read.problems))
    if locations is not None:
        named = {index: each for index, each in read.monitors.items() if values.has(f"monitors.{index}.locations")}
        yield from find_unknown_locations(named, locations.ids)
    if not values.has("clock", "visits", "privacy"):
        return
    valid = tuple(monitor for index, monitor in read.monitors.items() if values.has(f"monitors.{index}"))
    config = Config.model_construct(**parts, monitors=valid)
    if (overspending := find_overspending(config, compute_charges(config))) is not None:
        yield overspending


def _find_oversized_records(config: Config, parameters: Parameters) -> Iterator[Problem]:
    """Yield a problem for each value that makes records too large. The parameters are those of the configuration."""
    by_name = {monitor.name: monitor for monitor in parameters.monitors}
    for index, monitor in enumerate(config.monitors):
        yield from by_name[monitor.name].find_oversized(f"monitors.{index}", parameters.registry)
    sizes = (monitor.measure_by_shard(parameters.registry) for monitor in parameters.monitors)
    size = max((int(by_shard.max(initial=0)) for by_shard in sizes), default=0)
    if size > LARGEST_SNAPSHOT:
        yield Problem(
            "service.shards",
            str(parameters.registry.shards),
            f"snapshots of at most {LARGEST_SNAPSHOT} bytes: one with all locations of a shard may take {size} bytes",
            f"Set it to {2 * parameters.estimate_shards(LARGEST_SNAPSHOT)} or more.",
        )
