"""Produce visits in order of report. The record's timestamp is the time of report on the simulated clock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from monitor.brokers.connections import KafkaConnections
from monitor.contracts.visits import Fault, Reason, open_record
from monitor.errors import ReplayError
from monitor.tools.replay.lines import Line
from monitor.tools.replay.refusals import Refusals

BATCH_VISITS: Final = 500
BAD_LINE_BYTES: Final = 900_000  # longer lines are cut, so that they fit in a record
FLUSH_SECONDS: Final = 60.0


class Feed:
    """A producer of lines, in order. Up to 500 consecutive visits reported at the same instant share a record.

    `refusals` has the lines produced so far that the service refuses.
    """

    def __init__(self, connections: KafkaConnections, topic: str, lines: Iterable[Line]) -> None:
        self._topic = topic
        self._lines = iter(lines)
        self._next = next(self._lines, None)
        self._connections = connections
        self._producer: Any = connections.producer(linger_ms=5, batch_size=256 * 1024)
        self._sent: list[Any] = []
        self.refusals = Refusals()

    def until(self, instant: int) -> int:
        """Produce all lines reported before an instant, wait until Kafka has them, and return their number.

        Raises:
            ReplayError: Kafka refused some of the records.
            UnreachableError: Kafka cannot be used.
        """
        count = 0
        with self._connections.translate_errors():
            while self._next is not None and self._next.reported_at < instant:
                batch = self._next_batch()
                count += len(batch)
                self._send(batch)
            if self._sent:
                self._producer.flush(timeout=FLUSH_SECONDS)
        failed = [future.exception for future in self._sent if future.exception is not None]
        self._sent.clear()
        if failed:
            raise ReplayError(f"Kafka refused {len(failed)} records for {self._topic}: {failed[0]}")
        return count

    def _next_batch(self) -> list[Line]:
        batch: list[Line] = []
        while self._next is not None and len(batch) < BATCH_VISITS:
            if batch and not (self._next.is_visit and self._next.reported_at == batch[0].reported_at):
                break
            batch.append(self._next)
            self._next = next(self._lines, None)
            if not batch[0].is_visit:
                break
        return batch

    def _send(self, batch: list[Line]) -> None:
        first = batch[0]
        if not first.is_visit:
            value = first.payload[:BAD_LINE_BYTES]
        elif len(batch) == 1:
            value = first.payload
        else:
            value = b'{"visits":[' + b",".join(line.payload for line in batch) + b"]}"
        self._note_refusals(batch, value)
        timestamp = first.reported_at // 1_000
        self._sent.append(self._producer.send(self._topic, value=value, timestamp_ms=timestamp))

    def _note_refusals(self, batch: list[Line], value: bytes) -> None:
        for line in batch:
            if line.fault is not None:
                self.refusals.add(line.number, line.fault if line.is_visit else _refuse_record(value, line.fault))

    def close(self) -> None:
        """Close the producer."""
        self._producer.close(timeout=5)


def _refuse_record(value: bytes, fault: Fault) -> Fault:
    """Return why the service refuses an invalid line. Bytes that are not UTF-8, and cut lines, are not JSON."""
    read = open_record(value)
    return read if isinstance(read, Fault) and read.reason is Reason.NOT_JSON else fault
