"""Start Kafka and Valkey together, for `demo`, `--embedded` and `location-monitor servers`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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
