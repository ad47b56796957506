"""`location-monitor page`: the public page."""

from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path

import click

from monitor.command_line import add_config_option, add_since_option
from monitor.observe.logs import set_up_logging
from monitor.page import require_page
from monitor.stop_signals import stop_on_signals


@click.command()
@add_config_option
@add_since_option
def page(config_file: Path, since: str | None) -> None:
    """Serve the public page until SIGTERM or SIGINT.

    The page shows what is published about each place, as a list and on a map, and updates itself. It reads the output
    topic and the registry only, and needs no secret of the service. It needs the extra `page`.
    """
    require_page()
    from monitor.page.serve import page_command  # noqa: PLC0415  # the extra may be absent

    set_up_logging(30)
    stop = threading.Event()
    signals = partial(stop_on_signals, stop, partial(click.echo, err=True))
    page_command(config_file, os.environ, stop, signals, click.echo, since=since)
