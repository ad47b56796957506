"""`location-monitor register`: what a publisher discloses about a configuration."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from monitor.commands.options import add_config_option, report_errors
from monitor.config import load_valid_config
from monitor.contracts.clock import SystemClock
from monitor.contracts.instants import to_datetime
from monitor.tools.register import add_publisher_options, read_publisher, register_command


@click.command()
@add_config_option
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="The folder to write to.")
@click.option("--json", "as_json", is_flag=True, help="Write the registry entry as JSON.")
@click.option("--overwrite", is_flag=True, help="Replace files that exist.")
@add_publisher_options
@report_errors
def register(config_file: Path, out: Path, as_json: bool, overwrite: bool, **publisher: Any) -> None:  # noqa: FBT001  # by name
    """Write what a publisher discloses about a configuration.

    The files are an entry for a registry of differential privacy deployments, a notice to the public, and a draft of a
    data protection impact assessment. They contain the figures of `check`.
    """
    valid = load_valid_config(config_file, os.environ)
    who = read_publisher(publisher, to_datetime(SystemClock().now()).date())
    register_command(valid, who, out, click.echo, as_json=as_json, overwrite=overwrite)
