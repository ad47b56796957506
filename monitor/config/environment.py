"""Values from the environment: `LOCATION_MONITOR__REDIS__URL` sets `redis.url` (docs/interface.md, section 3)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from monitor.errors import Problem

PREFIX: Final = "LOCATION_MONITOR__"
_SHORT_PREFIX: Final = PREFIX.removesuffix("_")
SECRETS: Final = (("visits", "person_key"), ("kafka", "password"), ("redis", "password"))

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Overrides:
    """The names of the variables that set values, by the path of the value, and the problems of invalid variables."""

    names: Mapping[Path, str]
    problems: tuple[Problem, ...]

    def find_variable(self, key: str) -> str | None:
        """Return the variable that set a dotted key, directly or within a list or object; None if there is none."""
        path = tuple(key.split("."))
        return next((self.names[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.names), None)


def override(tree: dict[str, Any], environ: Mapping[str, str]) -> Overrides:
    """Put the environment's values into a tree of settings, in place. Longer paths override shorter ones."""
    names: dict[Path, str] = {}
    problems = list(_find_misspelt(environ))
    paths = {name: tuple(name.removeprefix(PREFIX).lower().split("__")) for name in environ if name.startswith(PREFIX)}
    for name, path in sorted(paths.items(), key=lambda item: (len(item[1]), item[1])):
        if not all(path):
            problems.append(Problem(name, "", f"a key after the prefix, such as {PREFIX}REDIS__URL", "Rename it."))
        elif path in names:
            problems.append(
                Problem(name, f"the same key as {names[path]}", "one variable per key", "Unset one of them.")
            )
        else:
            problem = _put(tree, name, path, _parse_value(path, environ[name]))
            problems += [problem] if problem else []
            names[path] = name
    return Overrides(names, tuple(problems))


def _find_misspelt(environ: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a problem for each variable that lacks the second underscore of the prefix.

    Kubernetes sets variables such as LOCATION_MONITOR_KAFKA_PORT for a service `location-monitor-kafka`. They have no
    double underscore, and no fault.
    """
    for name in sorted(environ):
        rest = name.removeprefix(_SHORT_PREFIX)
        if rest != name and not rest.startswith("_") and "__" in rest:
            yield Problem(name, "", "two underscores after LOCATION_MONITOR", f"Rename it {PREFIX}{rest}.")


def _parse_value(path: Path, text: str) -> Any:
    """Return the list or object that the text encodes in JSON, or else the text, which the key's validator parses."""
    if path in SECRETS or not text.lstrip().startswith(("[", "{")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _put(tree: dict[str, Any], name: str, path: Path, value: object) -> Problem | None:
    node: Any = tree
    for depth, part in enumerate(path):
        last = depth == len(path) - 1
        if isinstance(node, list):
            if not (part.isascii() and part.isdigit() and int(part) < len(node)):
                return Problem(name, "", f"an index below {len(node)} after {'.'.join(path[:depth])}", "Rename it.")
            index: Any = int(part)
        elif isinstance(node, dict):
            index = part
            if not last and node.get(part) is None:
                node[part] = {}
        else:
            return Problem(name, "", f"no key below {'.'.join(path[:depth])}, which is a single value", "Rename it.")
        if last:
            node[index] = value
        else:
            node = node[index]
    return None
