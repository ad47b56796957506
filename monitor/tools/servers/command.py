"""`location-monitor servers`: run Kafka and Valkey until a signal, and print their addresses."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from monitor.tools.servers.servers import start_servers

Print = Callable[[str], None]


def servers_command(
    stop: threading.Event, signals: Callable[[], AbstractContextManager[None]], out: Print, report: Print
) -> None:
    """Start the servers, print the variables with their addresses, and wait for `stop`.

    Args:
        stop: ends the servers. Their data is removed.
        signals: while the context is open, SIGINT and SIGTERM set `stop`.
        out: prints a line of the result, `export NAME=value` for a shell.
        report: prints a progress message.

    Raises:
        EmbeddedError: a server was not found or did not start.
    """
    with start_servers(report) as servers, signals():
        out(f"export LOCATION_MONITOR__KAFKA__BOOTSTRAP_SERVERS={servers.kafka.bootstrap_servers}")
        out(f"export LOCATION_MONITOR__REDIS__URL={servers.valkey.url}")
        report("Set these variables in other terminals. The servers run until Ctrl-C, and their data is then removed.")
        stop.wait()
