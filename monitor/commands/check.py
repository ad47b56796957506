"""`location-monitor check`: a configuration, validated and explained; with --live, also what `run` would decide now."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console

from monitor.commands.options import add_config_option, report_errors
from monitor.commands.settings import find_secret_problems
from monitor.config import ParsedConfig, read_config, read_person_key
from monitor.config.validate import collect_problems, examine
from monitor.contracts.clock import SystemClock
from monitor.errors import EXIT_DONE, EXIT_FAILED, Problem
from monitor.observe.logs import set_up_logging
from monitor.tools.check.command import check_command, check_live_command


@click.command()
@add_config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--live", is_flag=True, help="Also show what `run` would decide now; reads the servers, changes nothing.")
@click.option("--strict", is_flag=True, help="Exit with code 1 if a verdict is not fine.")
@report_errors
def check(config_file: Path, as_json: bool, live: bool, strict: bool) -> None:  # noqa: FBT001  # click passes options by name
    """Validate a configuration, judge it, and explain it.

    The report begins with verdicts: what is useless, what is risky and what is fine. Then it says in plain words what
    the configuration means. With --live, it also says which input would be read again, which answers would be missing
    at first, and what one person may pay, with earlier answers included. The exit code is then that of `run`.
    """
    read = read_config(config_file, os.environ)
    if not live:
        fine = check_command(examine(read, tuple(_find_person_key_problems(read))), Console(), as_json=as_json)
        sys.exit(EXIT_FAILED if strict and not fine else EXIT_DONE)
    set_up_logging(40)
    visits = read.sections.get("visits")
    has_key = visits is not None and (visits.person_key is not None or _has_key_file(read))
    valid = examine(read, tuple(find_secret_problems(read, needs_key=has_key)))
    code, fine = check_live_command(valid, SystemClock(), Console(), has_key=has_key, as_json=as_json)
    sys.exit(EXIT_FAILED if code == EXIT_DONE and strict and not fine else code)


def _has_key_file(read: ParsedConfig) -> bool:
    """Return whether the file with the person key can be read here."""
    visits = read.sections.get("visits")
    return visits is not None and visits.person_key_file is not None and os.access(visits.person_key_file, os.R_OK)


def _find_person_key_problems(read: ParsedConfig) -> Iterator[Problem]:
    """Yield the problems of the person key file if it can be read here: `check` also runs on hosts without it."""
    if _has_key_file(read):
        visits = read.sections["visits"]
        yield from collect_problems(lambda: read_person_key(visits))
