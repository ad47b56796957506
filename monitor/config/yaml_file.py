"""Read a YAML configuration file.

Times stay strings, and duplicate keys are refused. Messages never quote the content of the file, because it may contain
a misplaced secret.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml

from monitor.errors import ConfigError, Problem

_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"
_SHOWN: Final = 80
_TAB: Final = re.compile(r" *\t")
_QUOTED: Final = re.compile(r" ?('.*'|\".*\")", re.DOTALL)


class _DuplicateKeyError(yaml.MarkedYAMLError):
    """A key that its mapping has already. A key is public: only values are secret."""

    def __init__(self, key: yaml.Node) -> None:
        super().__init__(problem_mark=key.start_mark)
        name = f" {key.value[:_SHOWN]!r}" if isinstance(key, yaml.ScalarNode) else ""
        self.description = f"duplicate key{name}"


class _Loader(yaml.SafeLoader):
    """A safe loader that keeps times as strings and refuses duplicate keys."""

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        """Check the keys as written, before merged mappings (`<<`) add their keys."""
        node = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            name = (key.tag, str(key.value))
            if name in seen:
                raise _DuplicateKeyError(key)
            seen.add(name)
        return node


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file. Its values are not validated yet.

    Raises:
        ConfigError: the file cannot be read, is not UTF-8 or YAML, has a duplicate key, or is not a mapping.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise _make_error(
            path, error.strerror or "unreadable", "a readable file", "Correct the path in --config."
        ) from None
    except UnicodeDecodeError as error:
        raise _make_error(path, f"not UTF-8 from byte {error.start} on", "UTF-8", "Save it as UTF-8.") from None
    try:
        tree = yaml.load(text, _Loader)  # noqa: S506 - a restricted SafeLoader
    except yaml.YAMLError as error:
        raise _make_error(path, *_describe_error(error, text)) from None
    except (RecursionError, ValueError):
        raise _make_error(
            path, "nested too deeply, or with a number of too many digits", "YAML", "Compare it with config/demo.yaml."
        ) from None
    if not isinstance(tree, dict):
        value = "empty" if tree is None else "not a mapping"
        raise _make_error(path, value, "a mapping with service, clock, locations, …", "Start from config/demo.yaml.")
    return tree


def _make_error(path: Path, value: str, expected: str, remedy: str) -> ConfigError:
    return ConfigError(str(path), (Problem("the file", value, expected, remedy),))


def _describe_error(error: yaml.YAMLError, text: str) -> tuple[str, str, str]:
    """Return the place and the problem, what was expected, and what to do."""
    mark = getattr(error, "problem_mark", None)
    place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    if isinstance(error, _DuplicateKeyError):
        remedy = "Put the content of both into one, or remove one of them."
        return f"invalid{place} ({error.description})", "each key once in its mapping", remedy
    if mark and _TAB.match("".join(text.splitlines()[mark.line : mark.line + 1])):
        return f"invalid{place} (a tab in the indentation)", "YAML, which is indented with spaces", "Replace the tab."
    problem = _QUOTED.sub("", getattr(error, "problem", None) or "not YAML")
    return f"invalid{place} ({problem})", "YAML", "Correct that line."
