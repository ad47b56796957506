"""`location-monitor servers`: a Kafka and a Valkey to try things out."""

from __future__ import annotations

import threading
from functools import partial

import click

from monitor.observe.logs import set_up_logging
from monitor.operate.servers.start_servers import servers_command
from monitor.stop_signals import stop_on_signals


@click.command()
def servers() -> None:
    """Run a Kafka and a Valkey until Ctrl-C.

    The command prints their addresses as variables for a shell. It needs the extra `embedded`. The data is removed at
    the end, and the servers have no password, so that every user of this machine can read it. They are for trying
    things out only.
    """
    set_up_logging(30)
    report = partial(click.echo, err=True)
    stop = threading.Event()
    servers_command(stop, partial(stop_on_signals, stop, report), click.echo, report)
