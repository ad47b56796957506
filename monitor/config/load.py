"""Reads a configuration from a file and the environment, and reports all problems at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from pydantic import BaseModel

from monitor.config.conditions_between_keys import Values, find_broken_conditions
from monitor.config.describe_problems import format_value, report_unknown_key
from monitor.config.read_sections import SectionReader
from monitor.config.whole_config import Config
from monitor.errors import ConfigError, Problem
from monitor.kinds.all_kinds import KINDS
from monitor.kinds.base.keys_and_parameters import ConfiguredMonitor

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
    reader = SectionReader(path, environ)
    parser = _Parser(reader)
    return ParsedConfig(path, parser.sections, parser.monitors, reader.list_problems())


@dataclass
class _Parser:
    """The valid sections and monitors of a configuration. The reader gets all problems within and between them."""

    reader: SectionReader
    sections: dict[str, Any] = field(default_factory=dict)
    monitors: dict[int, ConfiguredMonitor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        fields, found = Config.model_fields, self.reader.problems
        found += [report_unknown_key(str(key), tuple(fields)) for key in self.reader.tree if key not in fields]
        partial: dict[str, Any] = {}
        for name, declared in fields.items():
            if name == "monitors":
                self._read_monitors()
                continue
            section, partial[name] = self.reader.read(name, declared)
            if section is not None:
                self.sections[name] = section
        parts: dict[str, Any] = {name: partial[name] or model.model_construct() for name, model in _SECTIONS.items()}
        invalid = frozenset(problem.key for problem in found)
        found += find_broken_conditions(Values(Config.model_construct(**parts), self.monitors, invalid))

    def _read_monitors(self) -> None:
        listed = self.reader.tree.get("monitors")
        if not isinstance(listed, list) or not listed:
            value = "missing" if "monitors" not in self.reader.tree else format_value("monitors", listed)
            self.reader.problems.append(Problem("monitors", value, "a list of monitors, at least one", "Add one."))
            return
        for index, entry in enumerate(listed):
            monitor = self._read_monitor(f"monitors.{index}", entry)
            if monitor is not None:
                self.monitors[index] = monitor

    def _read_monitor(self, key: str, entry: object) -> ConfiguredMonitor | None:
        if not isinstance(entry, dict):
            self.reader.problems.append(Problem(key, format_value(key, entry), "a mapping with name, kind, epsilon, …"))
            return None
        kind = entry.get("kind")
        known = KINDS.get(kind) if isinstance(kind, str) else None
        if known is None:
            value = format_value(f"{key}.kind", kind) if "kind" in entry else "missing"
            *first, last = KINDS
            self.reader.problems.append(
                Problem(f"{key}.kind", value, f"{', '.join(first)} or {last}", "Set one of them.")
            )
            return None
        return self.reader.validate(known.keys, entry, key) or self.reader.validate_keys(known.keys, entry)
