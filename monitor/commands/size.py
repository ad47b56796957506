"""`location-monitor size`: the number of processes and servers for a load."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from monitor.commands.options import add_config_option, report_errors
from monitor.config import load_valid_config
from monitor.tools.size.command import size_command
from monitor.tools.size.load import Options as SizeOptions
from monitor.tools.size.options import add_size_options


@click.command()
@add_config_option
@add_size_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@report_errors
def size(config_file: Path, as_json: bool, **options: Any) -> None:  # noqa: FBT001  # click passes options by name
    """Compute the number of processes, partitions, shards and servers.

    The output shows the arithmetic. Windows, slots and retention come from the configuration.
    """
    size_command(load_valid_config(config_file, os.environ), SizeOptions(**options), click.echo, as_json=as_json)
