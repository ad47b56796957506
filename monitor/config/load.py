"""Reads a configuration from a file and the environment, and reports all problems at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, cast

from pydantic import BaseModel, TypeAdapter, ValidationError

from monitor.config.conditions_between_keys import Values, find_broken_conditions
from monitor.config.describe_problems import format_value, list_problems, report_misplaced_secret, report_unknown_key
from monitor.config.environment import SECRETS, Overrides, override
from monitor.config.kafka_and_redis import find_url_password
from monitor.config.whole_config import Config
from monitor.config.yaml_file import read_yaml
from monitor.errors import ConfigError, Problem
from monitor.kinds.all_kinds import KINDS
from monitor.kinds.base.monitor import ConfiguredMonitor

Model = TypeVar("Model", bound=BaseModel)

_SECTIONS: Final[dict[str, type[BaseModel]]] = {
    name: cast("type[BaseModel]", field.annotation) for name, field in Config.model_fields.items() if name != "monitors"
}


def load_config(path: Path, environ: Mapping[str, str]) -> Config:
    """Read and check a configuration file. `LOCATION_MONITOR__…` variables override its values.

    The files named in the configuration (secrets, certificates, the registry) are not opened.

    Raises:
        ConfigError: with all problems.
    """
    return read_config(path, environ).to_config()


@dataclass(frozen=True, slots=True)
class ParsedConfig:
    """The valid sections (by name) and the monitors (by index) of a configuration file, and all problems found in it.

    `problems` includes conflicts between sections and monitors. A monitor lacks its invalid values.
    """

    path: Path
    sections: Mapping[str, Any]
    monitors: Mapping[int, ConfiguredMonitor]
    problems: tuple[Problem, ...]

    def name_monitor(self, problem: Problem) -> Problem:
        """Return the problem with the name of the monitor that it is about: its key has only the position."""
        section, _, rest = problem.key.partition(".")
        index = rest.partition(".")[0]
        monitor = self.monitors.get(int(index)) if section == "monitors" and index.isdecimal() else None
        return replace(problem, monitor=getattr(monitor, "name", ""))  # an invalid name is absent

    def to_config(self) -> Config:
        """Return the configuration. Raise ConfigError with all problems, if there are any."""
        if self.problems:
            raise ConfigError(str(self.path), tuple(map(self.name_monitor, self.problems)))
        # Each part and the conditions between them have been checked, so the model need not check them again.
        return Config.model_construct(**self.sections, monitors=tuple(self.monitors.values()))


def read_config(path: Path, environ: Mapping[str, str]) -> ParsedConfig:
    """Read a configuration as `load_config` does, but return its problems, so that the caller can add more.

    Raises:
        ConfigError: the file cannot be read, or is not a YAML mapping without duplicate keys.
    """
    tree = read_yaml(path)
    problems = list(_remove_secrets(tree))
    overrides = override(tree, environ)
    parser = _Parser(tree, {"folder": path.parent})
    problems += [*overrides.problems, *parser.problems]
    with_sources = tuple(_add_variable(problem, overrides) for problem in problems)
    return ParsedConfig(path, parser.sections, parser.monitors, with_sources)


def _remove_secrets(tree: dict[str, Any]) -> Iterator[Problem]:
    """Remove the secrets from the tree, so that no later message can show them, and yield a problem for each."""
    for section, name in SECRETS:
        values = tree.get(section)
        if isinstance(values, dict) and values.pop(name, None) is not None:
            yield report_misplaced_secret(f"{section}.{name}")
    redis = tree.get("redis")
    if isinstance(redis, dict) and isinstance(redis.get("url"), str) and find_url_password(redis["url"]) is not None:
        yield report_misplaced_secret("redis.url")


def _add_variable(problem: Problem, overrides: Overrides) -> Problem:
    name = overrides.find_variable(problem.key)
    return replace(problem, remedy=f"{problem.remedy} The value comes from {name}.".strip()) if name else problem


@dataclass
class _Parser:
    """The valid sections and monitors of a tree, and all problems within and between them."""

    tree: dict[str, Any]
    context: dict[str, Any]
    sections: dict[str, Any] = field(default_factory=dict)
    monitors: dict[int, ConfiguredMonitor] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    _partial: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = tuple(Config.model_fields)
        self.problems += [report_unknown_key(str(key), known) for key in self.tree if key not in known]
        for name in known:
            if name == "monitors":
                self._read_monitors()
            else:
                self._read_section(name)
        parts: dict[str, Any] = {
            name: self._partial.get(name) or model.model_construct() for name, model in _SECTIONS.items()
        }
        invalid = frozenset(problem.key for problem in self.problems)
        self.problems += find_broken_conditions(Values(Config.model_construct(**parts), self.monitors, invalid))

    def _read_section(self, name: str) -> None:
        if name not in self.tree and Config.model_fields[name].is_required():
            self.problems.append(Problem(name, "missing", str(Config.model_fields[name].description), "Add it."))
            return
        section = self._validate(_SECTIONS[name], self.tree.get(name, {}), name)
        if section is not None:
            self.sections[name] = self._partial[name] = section
        elif isinstance(values := self.tree.get(name), dict):
            self._partial[name] = self._validate_keys(_SECTIONS[name], values)

    def _read_monitors(self) -> None:
        listed = self.tree.get("monitors")
        if not isinstance(listed, list) or not listed:
            value = "missing" if "monitors" not in self.tree else format_value("monitors", listed)
            self.problems.append(Problem("monitors", value, "a list of monitors, at least one", "Add one."))
            return
        for index, entry in enumerate(listed):
            monitor = self._read_monitor(f"monitors.{index}", entry)
            if monitor is not None:
                self.monitors[index] = monitor

    def _read_monitor(self, key: str, entry: object) -> ConfiguredMonitor | None:
        if not isinstance(entry, dict):
            self.problems.append(Problem(key, format_value(key, entry), "a mapping with name, kind, epsilon, …"))
            return None
        kind = entry.get("kind")
        known = KINDS.get(kind) if isinstance(kind, str) else None
        if known is None:
            value = format_value(f"{key}.kind", kind) if "kind" in entry else "missing"
            *first, last = KINDS
            self.problems.append(Problem(f"{key}.kind", value, f"{', '.join(first)} or {last}", "Set one of them."))
            return None
        return self._validate(known.keys, entry, key) or self._validate_keys(known.keys, entry)

    def _validate(self, model: type[Model], value: object, key: str) -> Model | None:
        try:
            return model.model_validate(value, context=self.context)
        except ValidationError as error:
            self.problems += list_problems(error, key, model)
            return None

    def _validate_keys(self, model: type[Model], values: Mapping[str, object]) -> Model:
        """Return a section or monitor with its valid values only, so that their conditions can be checked."""
        valid = {}
        for name, declared in model.model_fields.items():
            if name in values:
                form: Any = Annotated[declared.annotation, declared]
                adapter: TypeAdapter[Any] = TypeAdapter(form)
                with suppress(ValidationError):
                    valid[name] = adapter.validate_python(values[name], context=self.context)
        return model.model_construct(**valid)
