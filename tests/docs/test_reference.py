"""The generated pages of the reference are up to date and complete."""

from __future__ import annotations

import re
from typing import Any

import click
import pytest

from monitor.cli import main
from monitor.errors import EXIT_REFUSED
from tests.docs.reference.errors import list_errors
from tests.docs.reference.markdown import paragraphs, table
from tests.docs.reference.pages import FOLDER, render_all


@pytest.mark.parametrize("name", sorted(render_all()))
def test_page_is_generated(name: str) -> None:
    """A page is the one generated from the code. `python -m tests.docs.reference --write` writes it."""
    assert (FOLDER / name).read_text(encoding="utf-8") == render_all()[name]


def test_every_option_is_listed(named: dict[str, Any]) -> None:
    """The page of commands has each command, and each option that its help shows."""
    page = named["docs/reference/commands.md"]
    for name, command in main.commands.items():
        options = " ".join(row[0] for row in page.rows(name))
        shown = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
        for option in shown:
            assert max(option.opts, key=len) in options, f"{name} {option.name}"


def test_every_error_has_a_place(named: dict[str, Any]) -> None:
    """Each error of `monitor/errors.py` has a heading, and so an anchor."""
    anchors = named["docs/reference/errors.md"].anchors
    assert {name.lower() for name in list_errors()} <= anchors
    assert {f"exit-code-{code}" for code in range(4)} <= anchors


def test_every_refusal_links_a_page(named: dict[str, Any]) -> None:
    """Each error that a restart does not fix has a link to a page that says what to do."""
    text = named["docs/reference/errors.md"].text
    for name, error in list_errors().items():
        if error.exit_code == EXIT_REFUSED:
            assert re.search(rf"### {name}\n(?:(?!###).)*\[More\]\(", text, re.DOTALL), name


def test_cells_cannot_break_a_table() -> None:
    """A `|` or a line break in a cell does not end it."""
    assert table(("a",), [("x|y\nz",)]) == "| a |\n|---|\n| x\\|y z |\n"


def test_lists_in_docstrings_stay_lists() -> None:
    """Wrapped lines are joined, and items of a list are not."""
    assert paragraphs("A\n  b.\n\n* c\n  d\n* e") == "A b.\n\n* c d\n* e"
