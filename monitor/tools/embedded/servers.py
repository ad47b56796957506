"""Both servers at once, as `demo` and `--embedded` want them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from monitor.tools.embedded.jars import Report
from monitor.tools.embedded.kafka import EmbeddedKafka
from monitor.tools.embedded.valkey import EmbeddedValkey


@dataclass(frozen=True, slots=True)
class Servers:
    """A running Kafka and a running Valkey."""

    kafka: EmbeddedKafka
    valkey: EmbeddedValkey


@contextmanager
def start_servers(report: Report) -> Iterator[Servers]:
    """Start both, one after the other (Valkey takes a twentieth of a second), and stop both at the end.

    `report` is told what happens, a line at a time.

    Raises:
        EmbeddedError: one of them cannot be had or started; nothing is left of either.
    """
    with EmbeddedValkey() as valkey, EmbeddedKafka(report=report) as kafka:
        report(f"Kafka runs at {kafka.bootstrap_servers}, Valkey at {valkey.url}, both in temporary folders.")
        yield Servers(kafka, valkey)
