"""Start Kafka and Valkey together, for `demo`, `--embedded` and `location-monitor servers`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from monitor.operate.servers.jars import Report
from monitor.operate.servers.kafka import EmbeddedKafka
from monitor.operate.servers.valkey import EmbeddedValkey


@dataclass(frozen=True, slots=True)
class Servers:
    """A running Kafka and a running Valkey."""

    kafka: EmbeddedKafka
    valkey: EmbeddedValkey


@contextmanager
def start_servers(report: Report) -> Iterator[Servers]:
    """Start Valkey (which takes 50 ms), then Kafka, and stop both at the end.

    `report` is called with each progress message.

    Raises:
        EmbeddedError: a server was not found or did not start. Both folders are removed.
    """
    with EmbeddedValkey() as valkey, EmbeddedKafka(report=report) as kafka:
        report(f"Kafka runs at {kafka.bootstrap_servers}, Valkey at {valkey.url}, both in temporary folders.")
        yield Servers(kafka, valkey)


def servers_command(
    stop: threading.Event, signals: Callable[[], AbstractContextManager[None]], out: Report, report: Report
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
