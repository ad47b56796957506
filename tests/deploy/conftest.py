"""What the deployment's tests share: where the project's root is, and the container file read as instructions."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

ROOT = Path(__file__).parents[2]


class Instruction(NamedTuple):
    """One instruction of a container file: its stage (from 0), its word, and the rest of it on one line."""

    stage: int
    word: str
    rest: str


def _instructions(text: str) -> list[Instruction]:
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", lines)
    found, stage = [], -1
    for line in filter(None, (line.strip() for line in joined.splitlines())):
        word, _, rest = line.partition(" ")
        stage += word == "FROM"
        found.append(Instruction(stage, word, rest.strip()))
    return found


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's root: what the container is built from."""
    return ROOT


@pytest.fixture(scope="session")
def containerfile() -> list[Instruction]:
    """The instructions of deploy/Containerfile."""
    return _instructions((ROOT / "deploy/Containerfile").read_text(encoding="utf-8"))


def missing(what: str, remedy: str) -> NoReturn:
    """Skip loudly (the last lines of the run say so), or fail under CI."""
    message = f"server missing: {what}. To run these tests: {remedy}"
    if os.environ.get("CI"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


@pytest.fixture
def skip_without() -> object:
    """`skip_without(what, remedy)`: a missing server or tool skips loudly, and fails under CI."""
    return missing
