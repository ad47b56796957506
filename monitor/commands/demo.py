"""`location-monitor demo`: a simulated town."""

from __future__ import annotations

import click
from rich.console import Console

from monitor.commands.options import report_errors
from monitor.operate.logs import set_up_logging
from monitor.tools.demo import demo_command


@click.command()
@click.option("--seed", type=int, default=20, show_default=True, help="The seed of the simulated town.")
@report_errors
def demo(seed: int) -> None:
    """Run a demo of a simulated town.

    The demo starts a real Kafka and Valkey, and takes about a minute.
    """
    set_up_logging(30)
    demo_command(seed, Console())
