"""`location-monitor check`: validate and explain a configuration, with --live also against the present servers."""

from __future__ import annotations

import json

from rich.console import Console

from monitor.config import ValidConfig, read_person_key
from monitor.contracts.clock import Clock
from monitor.errors import EXIT_DONE, EXIT_FAILED, EXIT_REFUSED
from monitor.service.service import prepare_settings
from monitor.tools.check.compute_report import compute_report
from monitor.tools.check.live import check_live
from monitor.tools.check.live_report import LiveReport
from monitor.tools.check.print_report import render, render_live
from monitor.tools.check.report import CheckReport


def check_command(valid: ValidConfig, console: Console, *, as_json: bool) -> bool:
    """Print what a valid configuration means. Return whether all verdicts are fine."""
    report = compute_report(valid)
    _print(report, None, console, as_json=as_json)
    return not report.warnings


def check_live_command(
    valid: ValidConfig, clock: Clock, console: Console, *, has_key: bool, as_json: bool
) -> tuple[int, bool]:
    """Print what a valid configuration means, and what `run` would decide now.

    Return the exit code of `run`, and whether all verdicts are fine.

    Args:
        valid: the configuration.
        clock: the clock of this machine.
        console: where to print.
        has_key: whether the person key is readable here.
        as_json: whether to print JSON.
    """
    key = read_person_key(valid.config.visits) if has_key else bytes(16)
    live = check_live(prepare_settings(valid, key), clock, has_key=has_key)
    report = compute_report(valid)
    _print(report, live, console, as_json=as_json)
    code = EXIT_REFUSED if live.refusals else EXIT_FAILED if live.obstacles else EXIT_DONE
    return code, not report.warnings


def _print(report: CheckReport, live: LiveReport | None, console: Console, *, as_json: bool) -> None:
    if as_json:
        tree = json.loads(report.to_json()) | ({} if live is None else {"live": live.to_tree()})
        text = json.dumps(tree, ensure_ascii=False, indent=2)
        console.print(text, markup=False, highlight=False, soft_wrap=True)
        return
    render(report, console)
    if live is not None:
        render_live(live, console)
