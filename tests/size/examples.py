"""The worked examples of docs/scaling.md. `python -m tests.size.examples --write` writes the present output into it."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Final

from click.testing import CliRunner

from monitor.cli import main

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "scaling.md"
_EXAMPLE: Final = re.compile(r"(```sh\n)(location-monitor size [^`]*)(```\n+```text\n)([^`]*)(```)")


def read_examples(page: str) -> list[tuple[str, str]]:
    """Return the commands of the page, each with the text below it."""
    return [(found[2], found[4]) for found in _EXAMPLE.finditer(page)]


def run_example(command: str) -> str:
    """Return the output of a command of the page."""
    words = shlex.split(command.replace("\\\n", " "))[1:]
    done = CliRunner().invoke(main, [str(ROOT / word) if word.startswith("config/") else word for word in words])
    assert done.exit_code == 0, done.output
    return done.output


def renew_examples(page: str) -> str:
    """Return the page with the present output below each command."""
    return _EXAMPLE.sub(lambda found: f"{found[1]}{found[2]}{found[3]}{run_example(found[2])}{found[5]}", page)


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    PAGE.write_text(renew_examples(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
