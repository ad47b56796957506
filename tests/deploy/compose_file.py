"""What Compose and the image of Kafka make of the compose file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

VARIABLE: Final = re.compile(r"\$(?:\$|\{(\w+)(:\?[^}]+)?\})")
"""A variable of the file with its name and what Compose reports without it, or an escaped dollar sign."""


def fill_in(node: Any, variables: Mapping[str, str]) -> Any:
    """Replace variables as Compose does: `${NAME}`, `${NAME:?message}`, and `$$` for a dollar sign."""
    if isinstance(node, dict):
        return {key: fill_in(value, variables) for key, value in node.items()}
    if isinstance(node, list):
        return [fill_in(value, variables) for value in node]
    if isinstance(node, str):
        return VARIABLE.sub(lambda found: variables[found[1]] if found[1] else "$", node)
    return node


def translate(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that the image of Kafka makes of environment variables."""
    named = {name.removeprefix("KAFKA_"): value for name, value in environment.items() if name.startswith("KAFKA_")}
    return {name.lower().replace("_", "."): value for name, value in named.items()}
