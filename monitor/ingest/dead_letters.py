"""The dead-letter topic's writer: each refused visit or record is there, durably, before progress passes it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from kafka.errors import KafkaError

from monitor.brokers.connections import KafkaConnections
from monitor.contracts.dead_letters import Origin, make_dead_letter
from monitor.errors import UnreachableError
from monitor.ingest.ports import DeadLetter

FLUSH_SECONDS: Final = 30.0
BATCH_BYTES: Final = 256 * 1024

# What a record's headers and framing may take of the topic's max.message.bytes.
OVERHEAD_BYTES: Final = 4_096


class DeadLetterTopic:
    """Writes dead letters, by one thread; `limit` bounds a value in bytes.

    A producer that a broker refused a record is of no further use (its sequence is broken), so a new one is made.
    """

    def __init__(self, connections: KafkaConnections, topic: str, input_topic: str, max_message_bytes: int) -> None:
        self._connections = connections
        self._topic = topic
        self._input = input_topic
        self._limit = max(0, max_message_bytes - OVERHEAD_BYTES)
        self._producer: Any = None

    def put(self, letters: Sequence[DeadLetter]) -> None:
        """Write them all and wait until all replicas have them.

        Raises:
            UnreachableError: if that can't be done now; some may have been written.
        """
        try:
            with self._connections.translate_errors():
                self._put(letters)
        except UnreachableError:
            self.close()
            raise

    def _put(self, letters: Sequence[DeadLetter]) -> None:
        if self._producer is None:
            # kafka-python would split a batch that the topic refuses again and again, into ones of this size.
            batch_size = max(1, min(BATCH_BYTES, self._limit))
            self._producer = self._connections.producer(linger_ms=5, batch_size=batch_size)
        sent = []
        for letter in letters:
            refusal = letter.refusal
            origin = Origin(self._input, letter.partition, letter.offset)
            count = refusal.count if refusal.several else None
            made = make_dead_letter(refusal.fault, refusal.payload, origin, refusal.index, self._limit, count)
            sent.append(self._producer.send(self._topic, value=made.value, headers=made.headers))
        self._producer.flush(timeout=FLUSH_SECONDS)
        for future in sent:
            future.get(timeout=0.001)

    def close(self) -> None:
        """Let go of the producer."""
        if self._producer is not None:
            with suppress(KafkaError):
                self._producer.close(timeout=2)
            self._producer = None
