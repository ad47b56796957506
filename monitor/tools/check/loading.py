"""A configuration with the registry that it names, or all that is wrong with both, the period's sum included."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from monitor.config import Config, Location, ParsedConfig, load_registry, read_config
from monitor.config.charges import find_overspending, overspending_problem
from monitor.config.registry import unknown_locations
from monitor.errors import ConfigError, OverspentError, Problem
from monitor.tools.check.report import CheckReport, check


@dataclass(frozen=True, slots=True)
class CheckedConfig:
    """What `check` accepts: so do `topics --create` and `run`, given the secrets, on servers that are new."""

    config: Config
    locations: tuple[Location, ...]
    report: CheckReport


def load_checked(path: Path, environ: Mapping[str, str]) -> CheckedConfig:
    """Read a configuration and its registry, and check them.

    Raises:
        ConfigError: with every problem of both, and the period's sum if that is one.
        OverspentError: the period's sum is all that is wrong.
    """
    return examine(read_config(path, environ))


def examine(read: ParsedConfig, further: Sequence[Problem] = ()) -> CheckedConfig:
    """As `load_checked`, of what was read already. `further` problems were found elsewhere: they are listed too."""
    registry: list[tuple[Location, ...]] = []
    problems = [*read.problems, *_of_registry(read, registry), *further]
    if read.problems or not registry:
        problems += _between(read, registry[0] if registry else None)
        raise ConfigError(str(read.path), tuple(problems))
    config = read.to_config()
    try:
        report = check(config, registry[0])
    except ConfigError as error:
        problems += error.problems
    except OverspentError as error:
        if not problems:
            raise
        problems.append(overspending_problem(config, error))
    if problems:
        raise ConfigError(str(read.path), tuple(problems))
    return CheckedConfig(config, registry[0], report)


def collect_problems(work: Callable[[], object]) -> tuple[Problem, ...]:
    """The problems that something raises; none if it succeeds."""
    try:
        work()
    except ConfigError as error:
        return error.problems
    return ()


def _of_registry(read: ParsedConfig, loaded: list[tuple[Location, ...]]) -> Iterator[Problem]:
    """Load the registry into `loaded`, or tell what is wrong with it, under the file's name."""
    if "locations" not in read.sections:
        return
    file = read.sections["locations"].file
    for problem in collect_problems(lambda: loaded.append(load_registry(file))):
        yield problem if problem.key == "locations.file" else replace(problem, key=f"{file.name}: {problem.key}")


def _between(read: ParsedConfig, locations: Sequence[Location] | None) -> Iterator[Problem]:
    """What is wrong between those parts of a configuration that are right by themselves."""
    if locations is not None:
        yield from unknown_locations(read.monitors, locations)
    spoilt = [problem.key for problem in read.problems]
    parts = {name: read.sections[name] for name in ("clock", "visits", "privacy") if name in read.sections}
    if len(parts) < 3 or any(key.partition(".")[0] in parts for key in spoilt):  # noqa: PLR2004  # all of them
        return
    whole = [monitor for index, monitor in read.monitors.items() if not _is_among(f"monitors.{index}", spoilt)]
    config = Config.model_construct(**parts, monitors=tuple(whole))
    if (error := find_overspending(config)) is not None:
        yield overspending_problem(config, error)


def _is_among(key: str, spoilt: Sequence[str]) -> bool:
    return any(problem == key or problem.startswith(f"{key}.") for problem in spoilt)
