"""`location-monitor run`: the service."""

from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path

import click

from monitor.commands.options import add_config_option, report_errors
from monitor.commands.settings import load_settings
from monitor.config import load_config
from monitor.operate.logs import LogFormat, set_up_logging
from monitor.processes.command import run_processes, run_supervised
from monitor.public.clock import SystemClock
from monitor.run import run as run_service
from monitor.run import stop_on_signals


@click.command()
@add_config_option
@click.option("--processes", type=click.IntRange(1), default=1, show_default=True, help="The number of processes.")
@click.option("--verbose", is_flag=True, help="Log at level DEBUG.")
@click.option(
    "--log-format",
    type=click.Choice(["auto", "text", "json"]),
    default="auto",
    show_default=True,
    help="The format of log lines. With auto: colours on a terminal, text elsewhere.",
)
@click.option("--supervised", type=(int, int), hidden=True, help="The process's number and its link (internal).")
@report_errors
def run(
    config_file: Path,
    processes: int,
    verbose: bool,  # noqa: FBT001  # click passes options by name
    log_format: LogFormat,
    supervised: tuple[int, int] | None,
) -> None:
    """Run the service until SIGTERM or SIGINT.

    With --processes, each process is a full instance. They share the work like instances on several hosts.
    """
    set_up_logging(10 if verbose else 20, "" if supervised is None else f"process {supervised[0]}", log_format)
    stop = threading.Event()
    signals = partial(stop_on_signals, stop, lambda text: click.echo(text, err=True))
    if supervised is not None:
        run_supervised(partial(load_settings, config_file), supervised[1], stop, signals)
    elif processes > 1:
        # The registry is read by the processes only, because it may be large.
        port = load_config(config_file, os.environ).metrics.port
        with signals():
            options = ["--log-format", log_format, *(["--verbose"] if verbose else [])]
            run_processes(config_file, processes, options, port, stop)
    else:
        settings = load_settings(config_file)
        with signals():
            run_service(settings, SystemClock(), stop)
