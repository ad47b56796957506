"""Produce visits in order of report. The record's timestamp is the time of report on the simulated clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from monitor.errors import ReplayError
from monitor.kafka.bulk_producer import BulkProducer
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.record_batches import Record
from monitor.operate.replay.read_visits import Line, Refusals
from monitor.records.visit_contract import Fault, Reason, open_record

BATCH_VISITS: Final = 500
PORTION_RECORDS: Final = 10_000  # records in memory at the same time
BAD_LINE_BYTES: Final = 900_000  # longer lines are cut, so that they fit in a record


class Feed:
    """A producer of lines, in order. Up to 500 consecutive visits reported at the same instant share a record.

    `refusals` has the lines produced so far that the service refuses.
    """

    def __init__(self, connections: KafkaConnections, topic: str, lines: Iterable[Line]) -> None:
        self._topic = topic
        self._lines = iter(lines)
        self._next = next(self._lines, None)
        self._connections = connections
        self._producer = BulkProducer(connections, topic)
        self.refusals = Refusals()

    def produce_until(self, instant: int) -> int:
        """Produce all lines reported before an instant, wait until Kafka has them, and return their number.

        Raises:
            ReplayError: Kafka refused some of the records.
            UnreachableError: Kafka cannot be used.
        """
        count = 0
        with self._connections.translate_errors("Write"):
            for records in self._make_records_before(instant):
                count += self._produce(records)
        return count

    def _make_records_before(self, instant: int) -> Iterator[list[tuple[int, Record]]]:
        """Yield the records of all lines reported before an instant, each with its number of lines, in portions."""
        records: list[tuple[int, Record]] = []
        while self._next is not None and self._next.reported_at < instant:
            batch = self._take_batch()
            records.append((len(batch), self._make_record(batch)))
            if len(records) == PORTION_RECORDS:
                yield records
                records = []
        if records:
            yield records

    def _produce(self, records: Sequence[tuple[int, Record]]) -> int:
        """Produce records, to each partition in turn, wait until Kafka has them, and return their number of lines."""
        deliveries = self._producer.produce([record for _, record in records])
        failed = [(len(delivery.positions), delivery.error) for delivery in deliveries if delivery.error is not None]
        if failed:
            refused = sum(number for number, _ in failed)
            raise ReplayError(f"Kafka refused {refused} records for {self._topic}: {failed[0][1]}")
        return sum(lines for lines, _ in records)

    def _take_batch(self) -> list[Line]:
        batch: list[Line] = []
        while self._next is not None and len(batch) < BATCH_VISITS:
            if batch and not (self._next.is_visit and self._next.reported_at == batch[0].reported_at):
                break
            batch.append(self._next)
            self._next = next(self._lines, None)
            if not batch[0].is_visit:
                break
        return batch

    def _make_record(self, batch: list[Line]) -> Record:
        first = batch[0]
        if not first.is_visit:
            value = first.payload[:BAD_LINE_BYTES]
        elif len(batch) == 1:
            value = first.payload
        else:
            value = b'{"visits":[' + b",".join(line.payload for line in batch) + b"]}"
        self._note_refusals(batch, value)
        return None, value, (), first.reported_at // 1_000

    def _note_refusals(self, batch: list[Line], value: bytes) -> None:
        for line in batch:
            if line.fault is not None:
                self.refusals.add(line.number, line.fault if line.is_visit else _refuse_record(value, line.fault))

    def close(self) -> None:
        """Close the producer."""
        self._producer.close(5)


def _refuse_record(value: bytes, fault: Fault) -> Fault:
    """Return why the service refuses an invalid line. Bytes that are not UTF-8, and cut lines, are not JSON."""
    read = open_record(value)
    return read if isinstance(read, Fault) and read.reason is Reason.NOT_JSON else fault
