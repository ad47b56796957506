"""`location-monitor plan`: settings that meet given targets."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click
from rich.console import Console

from monitor.commands.options import EXISTING, report_errors
from monitor.config import load_config
from monitor.tools.plan.command import PlanOutput, plan_command

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _plan_options(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """Add the options of `plan`. The planner parses the values and reports what is wrong with them."""
    options = (
        click.option(
            "--false-alarm-every", help="The least mean time between false alarms at an empty location, such as 1y."
        ),
        click.option("--alarm-at", help="The number of people that must raise an alarm at an update (see --with)."),
        click.option("--with", help="The probability for --alarm-at, as 0.95 or 95%."),
        click.option("--pays-at-most", help="The largest ε that one person may pay within the period of --in."),
        click.option("--in", help="The period; 14d by default."),
        click.option("--kind", type=click.Choice(["over_time", "at_times"]), help="The kind; over_time by default."),
        click.option("--epsilon", help="Fix the monitor's ε."),
        click.option("--threshold", help="Fix the threshold T."),
        click.option("--slot", help="Fix the time between updates."),
        click.option("--window", help="over_time: fix the window."),
        click.option("--answers", help="over_time: fix the number of noisy answers per window (k)."),
        click.option("--accept-ahead", help="over_time: accept_ahead plus default_stay in whole slots; 0s by default."),
        click.option("--locations", help="over_time: the number of locations that share ε; 1 by default."),
        click.option("--at", multiple=True, help='at_times: a designated time, daily ("18:00") or an instant.'),
        click.option("--timezone", help="at_times: the time zone of daily times; UTC by default."),
        click.option("--horizon", help="at_times: how long after a designated time reports count; 1d by default."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@click.option(
    "--config", "config_file", type=EXISTING, help="Show the values of this file's monitors, and neighbouring values."
)
@_plan_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--picture", type=click.Path(dir_okay=False, path_type=Path), help="Write the picture to this file (.svg)."
)
@report_errors
def plan(config_file: Path | None, as_json: bool, picture: Path | None, **options: Any) -> None:  # noqa: FBT001  # by name
    """Find monitor settings that meet given targets.

    The settings are T, ε, window, update rate and answers per window. If none meet the targets, the command explains
    why.
    """
    config = None if config_file is None else load_config(config_file, os.environ)
    plan_command(
        {name: value for name, value in options.items() if value not in (None, ())},
        config,
        PlanOutput(Console(), as_json, picture),
    )
