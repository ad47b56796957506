"""Values from the environment: `LOCATION_MONITOR__REDIS__URL` stands for `redis.url` (docs/interface.md, section 3)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from monitor.errors import Problem

PREFIX: Final = "LOCATION_MONITOR__"
SECRETS: Final = (("visits", "person_key"), ("kafka", "password"), ("redis", "password"))

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Overrides:
    """Which values came from the environment, and what was wrong with others."""

    names: Mapping[Path, str]
    problems: tuple[Problem, ...]

    def name_for(self, key: str) -> str | None:
        """The variable that a dotted key's value came from, itself or as a part of a list or object."""
        path = tuple(key.split("."))
        return next((self.names[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.names), None)


def override(tree: dict[str, Any], environ: Mapping[str, str]) -> Overrides:
    """Put the environment's values into a tree of settings, in place; shorter paths first, so that parts win."""
    names: dict[Path, str] = {}
    problems: list[Problem] = []
    found = {name: tuple(name.removeprefix(PREFIX).lower().split("__")) for name in environ if name.startswith(PREFIX)}
    for name, path in sorted(found.items(), key=lambda item: (len(item[1]), item[1])):
        if not all(path):
            problems.append(Problem(name, "", f"a key after the prefix, such as {PREFIX}REDIS__URL", "Rename it."))
        elif path in names:
            problems.append(Problem(name, f"the same key as {names[path]}", "one variable for a key", "Unset one."))
        else:
            problem = _put(tree, name, path, _value(path, environ[name]))
            problems += [problem] if problem else []
            names[path] = name
    return Overrides(names, tuple(problems))


def _value(path: Path, text: str) -> Any:
    """A list or object where the text is one in JSON; else the text, which the setting's own reader turns into more."""
    if path in SECRETS or not text.lstrip().startswith(("[", "{")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _put(tree: dict[str, Any], name: str, path: Path, value: object) -> Problem | None:
    place: Any = tree
    for depth, part in enumerate(path):
        last = depth == len(path) - 1
        if isinstance(place, list):
            if not (part.isascii() and part.isdigit() and int(part) < len(place)):
                return Problem(name, "", f"an index below {len(place)} after {'.'.join(path[:depth])}", "Rename it.")
            index: Any = int(part)
        elif isinstance(place, dict):
            index = part
            if not last and place.get(part) is None:
                place[part] = {}
        else:
            return Problem(name, "", f"no key below {'.'.join(path[:depth])}, which holds one value", "Rename it.")
        if last:
            place[index] = value
        else:
            place = place[index]
    return None
