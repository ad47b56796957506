"""`location-monitor check`: a configuration, validated and explained."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console

from monitor.commands.options import config_option, report_errors
from monitor.config import ParsedConfig, read_config, read_person_key
from monitor.config.validate import collect_problems, examine
from monitor.errors import Problem
from monitor.tools.check.compute_report import compute_report
from monitor.tools.check.print_report import render


@click.command()
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@report_errors
def check(config_file: Path, as_json: bool) -> None:  # noqa: FBT001  # click passes options by name
    """Validate a configuration, and explain it.

    The report says in plain words what the configuration means.
    """
    read = read_config(config_file, os.environ)
    report = compute_report(examine(read, tuple(_person_key_problems(read))))
    if as_json:
        click.echo(report.to_json())
    else:
        render(report, Console())


def _person_key_problems(read: ParsedConfig) -> Iterator[Problem]:
    """Yield the problems of the person key file. `check` also runs where this file does not exist or is unreadable."""
    visits = read.sections.get("visits")
    if visits is not None and visits.person_key_file is not None and os.access(visits.person_key_file, os.R_OK):
        yield from collect_problems(lambda: read_person_key(visits))
