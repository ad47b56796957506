"""`location-monitor watch`: what a subscriber sees."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from monitor.client import watch_command
from monitor.commands.options import config_option, report_errors
from monitor.commands.settings import load_settings
from monitor.operate.logs import set_up_logging


@click.command()
@config_option
@click.option("--once", is_flag=True, help="Print the current state, and exit.")
@report_errors
def watch(config_file: Path, once: bool) -> None:  # noqa: FBT001  # click passes options by name
    """Show the current state of each location.

    The command subscribes to the alerts, and follows them until it is stopped.
    """
    set_up_logging(30)
    watch_command(load_settings(config_file, bytes(16)), Console(), once=once)
