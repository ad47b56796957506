"""Reading a configuration file: YAML without surprises.

Times stay texts, and a key that comes twice is refused instead of the last one winning. No message repeats what the
file holds, as that may be a secret in the wrong place.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml

from monitor.errors import ConfigError, Problem

_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"
_QUOTED: Final = re.compile(r" ?('.*'|\".*\")", re.DOTALL)


class _Loader(yaml.SafeLoader):
    """A safe loader that keeps times as texts and refuses a key that comes twice."""

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        """Check keys as they are written, before merged mappings (`<<`) add theirs."""
        node = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            name = (key.tag, str(key.value))
            if name in seen:
                raise yaml.composer.ComposerError(None, None, "a key comes twice", key.start_mark)
            seen.add(name)
        return node


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping that a YAML file holds, its values not yet checked.

    Raises:
        ConfigError: if it cannot be read, is not UTF-8, is not YAML, has a key twice, or is no mapping.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise _refused(
            path, error.strerror or "unreadable", "a file that can be read", "Name it with --config."
        ) from None
    except UnicodeDecodeError as error:
        raise _refused(path, f"not UTF-8 from byte {error.start} on", "UTF-8", "Save it as UTF-8.") from None
    try:
        tree = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader with less, not more
    except yaml.YAMLError as error:
        raise _refused(path, _where(error), "YAML, each key once", "Correct that line.") from None
    except (RecursionError, ValueError):  # nested without end, or a number of thousands of digits
        raise _refused(path, "beyond what YAML can be read as", "YAML", "Compare it with config/demo.yaml.") from None
    if not isinstance(tree, dict):
        found = "empty" if tree is None else "no mapping"
        raise _refused(path, found, "a mapping with service, clock, locations, …", "Start from config/demo.yaml.")
    return tree


def _refused(path: Path, value: str, expected: str, remedy: str) -> ConfigError:
    return ConfigError(str(path), (Problem("the file", value, expected, remedy),))


def _where(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = _QUOTED.sub("", getattr(error, "problem", None) or "not YAML")
    return f"wrong at line {mark.line + 1}, column {mark.column + 1} ({problem})" if mark else f"wrong ({problem})"
