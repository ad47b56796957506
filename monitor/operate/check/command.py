"""`location-monitor check`: a configuration, validated and explained; with --live, also what `run` would decide now."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console

from monitor.command_options import add_config_option, add_delays_option
from monitor.config.load import ParsedConfig, read_config
from monitor.config.secret_values import read_person_key
from monitor.config.valid_config import ValidConfig, collect_problems, examine
from monitor.errors import EXIT_DONE, EXIT_FAILED, EXIT_REFUSED, Problem
from monitor.observe.logs import set_up_logging
from monitor.operate.check.compute_report import compute_report
from monitor.operate.check.live import check_live
from monitor.operate.check.live_report import LiveReport, render_live
from monitor.operate.check.print_report import render
from monitor.operate.check.report import CheckReport
from monitor.operate.read_report_delays import read_report_delays
from monitor.service.load_settings import find_secret_problems
from monitor.service.wiring import prepare_settings
from monitor.time.clock import SystemClock


@click.command()
@add_config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--live", is_flag=True, help="Also show what `run` would decide now; reads the servers, changes nothing.")
@add_delays_option
@click.option("--formulas", is_flag=True, help="Also print how the figures are computed, as text.")
@click.option("--strict", is_flag=True, help="Exit with code 1 if a verdict is not fine.")
def check(  # click passes options by name
    config_file: Path,
    as_json: bool,  # noqa: FBT001
    live: bool,  # noqa: FBT001
    delays_file: Path | None,
    formulas: bool,  # noqa: FBT001
    strict: bool,  # noqa: FBT001
) -> None:
    """Validate a configuration, judge it, and explain it.

    The report begins with verdicts: what is useless, what is risky and what is fine. The first ones are about what the
    answers can reveal, and about alarms that are noise. Then it says in plain words what the configuration means. With
    --live, it also says which input would be read again, which answers would be missing at first, and what one person
    may pay, with earlier answers included. The exit code is then that of `run`.
    """
    read = read_config(config_file, os.environ)
    if not live:
        report = _compute_report(examine(read, tuple(_find_person_key_problems(read))), delays_file)
        _print(report, None, as_json=as_json, formulas=formulas)
        sys.exit(EXIT_FAILED if strict and report.warnings else EXIT_DONE)
    set_up_logging(40)
    visits = read.sections.get("visits")
    has_key = visits is not None and (visits.person_key is not None or _has_key_file(read))
    valid = examine(read, tuple(find_secret_problems(read, needs_key=has_key)))
    key = read_person_key(valid.config.visits) if has_key else bytes(16)
    found = check_live(prepare_settings(valid, key), SystemClock(), has_key=has_key)
    report = _compute_report(valid, delays_file)
    _print(report, found, as_json=as_json, formulas=formulas)
    code = EXIT_REFUSED if found.refusals else EXIT_FAILED if found.obstacles else EXIT_DONE
    sys.exit(EXIT_FAILED if code == EXIT_DONE and strict and report.warnings else code)


def _compute_report(valid: ValidConfig, delays_file: Path | None) -> CheckReport:
    return compute_report(valid, None if delays_file is None else read_report_delays(delays_file))


def _print(report: CheckReport, live: LiveReport | None, *, as_json: bool, formulas: bool) -> None:
    if as_json:
        tree = report.to_tree() | ({} if live is None else {"live": live.to_tree()})
        click.echo(json.dumps(tree, ensure_ascii=False, indent=2))
        return
    console = Console()
    render(report, console, formulas=formulas)
    if live is not None:
        render_live(live, console)


def _has_key_file(read: ParsedConfig) -> bool:
    """Return whether the file with the person key can be read here."""
    visits = read.sections.get("visits")
    return visits is not None and visits.person_key_file is not None and os.access(visits.person_key_file, os.R_OK)


def _find_person_key_problems(read: ParsedConfig) -> Iterator[Problem]:
    """Yield the problems of the person key file if it can be read here: `check` also runs on hosts without it."""
    if _has_key_file(read):
        visits = read.sections["visits"]
        yield from collect_problems(lambda: read_person_key(visits))
