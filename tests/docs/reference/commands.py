"""The page of all commands and options, from click."""

from __future__ import annotations

import inspect
from typing import Final

import click

from monitor.cli import main
from tests.docs.reference.markdown import code, paragraphs, table

_HEAD: Final = """# Commands

Every command with its options, as `location-monitor COMMAND --help` prints them. This page is generated from
`monitor/cli.py`. [The interface](../interface.md#2-commands) says what each command reads and writes, and
[errors](errors.md) what its exit codes mean.
"""


def render() -> str:
    """Return the page."""
    return _HEAD + "".join(_describe(name, command) for name, command in sorted(main.commands.items()))


def _describe(name: str, command: click.Command) -> str:
    context = click.Context(
        command, info_name=name, parent=main.make_context("location-monitor", [], resilient_parsing=True)
    )
    usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    rows = [(code(record[0]), record[1]) for record in records if record is not None]
    text = paragraphs(inspect.cleandoc(command.help or ""))
    return f"\n## {name}\n\n{code(usage)}\n\n{text}\n\n{table(('option', 'meaning'), rows)}"
