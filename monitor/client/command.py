"""`location-monitor watch`: what a subscriber sees."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import click
from rich.console import Console

from monitor.client.exporter import MOST_PLACES, ExportOptions, export_command
from monitor.client.watch import watch_command
from monitor.command_options import add_config_option, add_since_option
from monitor.config.valid_config import load_valid_config
from monitor.errors import UsageError
from monitor.observe.logs import set_up_logging
from monitor.stop_signals import stop_on_signals

_DEFAULTS = ExportOptions(0)


@click.command()
@add_config_option
@click.option("--once", is_flag=True, help="Print the current state, and exit.")
@click.option(
    "--metrics", type=click.IntRange(0, 65535), help="Serve the answers as metrics on this port; 0: any free port."
)
@click.option(
    "--metrics-host", default=_DEFAULTS.host, show_default=True, help="The address on which the metrics are served."
)
@click.option(
    "--metrics-places",
    type=click.IntRange(0, MOST_PLACES),
    default=_DEFAULTS.places,
    show_default=True,
    help="How many places have a series of their own.",
)
@add_since_option
def watch(
    config_file: Path,
    once: bool,  # noqa: FBT001  # click passes options by name
    metrics: int | None,
    metrics_host: str,
    metrics_places: int,
    since: str | None,
) -> None:
    """Show the current state of each location.

    The command subscribes to the alerts, and follows them until it is stopped. With --metrics it shows nothing, and
    serves the published answers to Prometheus. It reads the output topic and the registry only.
    """
    set_up_logging(30)
    if metrics is not None:
        if once:
            raise UsageError("--metrics serves until it is stopped: leave out --once")
        stop = threading.Event()
        with stop_on_signals(stop, lambda _text: None):
            export_command(config_file, ExportOptions(metrics, metrics_host, metrics_places, since), stop, click.echo)
        return
    watch_command(load_valid_config(config_file, os.environ), Console(), once=once, since=since)
