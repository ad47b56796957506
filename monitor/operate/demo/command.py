"""`location-monitor demo`: a simulated town."""

from __future__ import annotations

import click
from rich.console import Console

from monitor.observe.logs import set_up_logging
from monitor.operate.demo.run_demo import demo_command


@click.command()
@click.option("--seed", type=int, default=20, show_default=True, help="The seed of the simulated town.")
@click.option("--page", "with_page", is_flag=True, help="Also serve the public page, until Ctrl-C.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port of the page. [default: 8080, or any free port]")
def demo(seed: int, with_page: bool, port: int | None) -> None:  # noqa: FBT001  # click passes options by name
    """Run a demo of a simulated town.

    The demo starts a real Kafka and Valkey, and takes about a minute. With --page it also serves the public page;
    Kafka and the page then run until Ctrl-C.
    """
    set_up_logging(30)
    demo_command(seed, Console(), with_page=with_page, port=port)
