"""`location-monitor run`: the service."""

from __future__ import annotations

import threading
from pathlib import Path

import click

from monitor.command_options import add_config_option
from monitor.observe.logs import LogFormat, set_up_logging
from monitor.service.keep_running import run as run_service
from monitor.service.load_settings import load_settings
from monitor.stop_signals import stop_on_signals
from monitor.time.clock import SystemClock


@click.command()
@add_config_option
@click.option("--verbose", is_flag=True, help="Log at level DEBUG.")
@click.option(
    "--log-format",
    type=click.Choice(["auto", "text", "json"]),
    default="auto",
    show_default=True,
    help="The format of log lines. With auto: colours on a terminal, text elsewhere.",
)
def run(
    config_file: Path,
    verbose: bool,  # noqa: FBT001  # click passes options by name
    log_format: LogFormat,
) -> None:
    """Run the service until SIGTERM or SIGINT. Several instances, on one host or many, share the work."""
    set_up_logging(10 if verbose else 20, log_format)
    stop = threading.Event()
    settings = load_settings(config_file)
    with stop_on_signals(stop, lambda text: click.echo(text, err=True)):
        run_service(settings, SystemClock(), stop)
