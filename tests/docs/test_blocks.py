"""The checks of code blocks find planted mistakes."""

from __future__ import annotations

import click
import pytest

from tests.docs.blocks import Block, read_blocks, split_commands, split_statements
from tests.docs.conftest import ROOT, Document
from tests.docs.test_code_blocks import check_command

PAGE = """# A page

<!-- not run: needs root -->
```sh
rm -rf /
```

1. A step:

   ```yaml
   a: 1
   ```
"""
BLOCK = Block("README.md", 1, "sh", "", "")


def test_blocks_have_marks_and_places() -> None:
    """A block has its language, its line, its mark, and its code without the indentation of a list."""
    first, second = read_blocks(Document(ROOT / "PAGE.md", PAGE))
    assert (first.language, first.line, first.code, first.reason) == ("sh", 4, "rm -rf /\n", "needs root")
    assert (second.language, second.line, second.code, second.runs) == ("yaml", 10, "a: 1\n", True)


def test_statements_are_whole() -> None:
    """A continuation and a here document belong to their statement; comments and empty lines are left out."""
    code = "# a comment\na b \\\n  c\n\ncat > file <<'END'\n# not a comment\nEND\nd\n"
    assert list(split_statements(code)) == ["a b c", "cat > file <<'END'\n# not a comment\nEND", "d"]


def test_commands_are_those_of_the_shell() -> None:
    """Pipes and lists have several commands. Assignments, redirections and comments are left out."""
    assert split_commands("A=1 a 'b c' > file | d && e --f  # g") == [["a", "b c"], ["d"], ["e", "--f"]]


@pytest.mark.parametrize(
    "line",
    [
        "location-monitor dance",
        "location-monitor check",
        "location-monitor check --config a.yaml --colour",
        "location-monitor servers now",
        "location-monitor replay --config a.yaml --alerts",
        "make cake",
        "python -m simulators fly",
        "rm -rf config",
        "python setup.py",
    ],
)
def test_wrong_command_is_found(line: str) -> None:
    """A command, option, value or target that does not exist is found, and so is a program that no test checks."""
    with pytest.raises((KeyError, AssertionError, click.UsageError, pytest.fail.Exception)):
        check_command(line.split(), BLOCK)


@pytest.mark.parametrize(
    "line",
    [
        "location-monitor check --config a.yaml",
        ".venv/bin/location-monitor schema config",
        "make one T=tests/docs",
        "python -m simulators city --out a.csv --registry b.csv",
        "head -c 32 /dev/urandom",
    ],
)
def test_right_command_is_accepted(line: str) -> None:
    """A command with its required options is accepted, also by the path of its program."""
    check_command(line.split(), BLOCK)
