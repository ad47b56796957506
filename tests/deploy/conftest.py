"""Fixtures of the deployment tests: the project's root, and the instructions of the container file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

ROOT = Path(__file__).parents[2]


class Instruction(NamedTuple):
    """One instruction of a container file: its stage (from 0), its keyword, and its arguments on one line."""

    stage: int
    word: str
    rest: str


def _parse(text: str) -> list[Instruction]:
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", lines)
    instructions, stage = [], -1
    for line in filter(None, (line.strip() for line in joined.splitlines())):
        word, _, rest = line.partition(" ")
        stage += word == "FROM"
        instructions.append(Instruction(stage, word, rest.strip()))
    return instructions


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's root, from which the container is built."""
    return ROOT


@pytest.fixture(scope="session")
def compose() -> dict[str, Any]:
    """The compose file. Its variables are not replaced."""
    tree: dict[str, Any] = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text(encoding="utf-8"))
    return tree


@pytest.fixture(scope="session")
def containerfile() -> list[Instruction]:
    """The instructions of deploy/Containerfile."""
    return _parse((ROOT / "deploy/Containerfile").read_text(encoding="utf-8"))
