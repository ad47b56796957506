"""What Compose and the image of Kafka make of the compose file."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).parents[2] / "deploy/compose.yaml"
BASH: Final = shutil.which("bash") or "/bin/bash"
VARIABLE: Final = re.compile(r"\$(?:\$|\{(\w+)(:\?[^}]+)?\})")
"""A variable of the file with its name and what Compose reports without it, or an escaped dollar sign."""


def create_passwords(folder: Path) -> dict[str, str]:
    """Run the command in the first lines of the compose file, and return the variables of the file `deploy/.env`."""
    (folder / "deploy").mkdir()
    head = re.sub(r"^# ? ?", "", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    command = re.search(r"\(umask .+?> deploy/\.env\)$", head, re.DOTALL | re.MULTILINE)
    assert command is not None
    subprocess.run([BASH, "-c", command[0]], cwd=folder, check=True, timeout=60)
    text = (folder / "deploy/.env").read_text(encoding="utf-8")
    return dict(line.split("=") for line in text.splitlines())


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
