"""The writer of the dead-letter topic. Refused visits and records are durable there before progress passes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from monitor.contracts.dead_letters import Origin, make_dead_letter
from monitor.errors import UnreachableError
from monitor.ingest.columns import Refusal
from monitor.kafka.connections import KafkaConnections

FLUSH_SECONDS: Final = 30.0
CLOSE_SECONDS: Final = 2.0
BATCH_BYTES: Final = 256 * 1024

# The part of max.message.bytes that is reserved for a record's headers and framing.
OVERHEAD_BYTES: Final = 4_096


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A refused visit or record, with its position in the input."""

    refusal: Refusal
    partition: int
    offset: int


class DeadLetterTopic:
    """A writer of dead letters, for one thread.

    After Kafka refuses a record, the producer's sequence is broken, so a new producer replaces it.
    """

    def __init__(self, connections: KafkaConnections, topic: str, input_topic: str, max_message_bytes: int) -> None:
        self._connections = connections
        self._topic = topic
        self._input = input_topic
        self._limit = max(0, max_message_bytes - OVERHEAD_BYTES)
        self._producer: Any = None

    def put(self, letters: Sequence[DeadLetter]) -> None:
        """Write dead letters and wait until all in-sync replicas have them.

        Raises:
            UnreachableError: Kafka does not accept them now; some may have been written.
        """
        try:
            with self._connections.translate_errors():
                self._put(letters)
        except UnreachableError:
            self.close()
            raise

    def _put(self, letters: Sequence[DeadLetter]) -> None:
        if self._producer is None:
            # With a batch size above the topic's limit, kafka-python would split a refused batch into equal ones,
            # forever.
            batch_size = max(1, min(BATCH_BYTES, self._limit))
            self._producer = self._connections.create_producer(linger_ms=5, batch_size=batch_size)
        sent = []
        for letter in letters:
            refusal = letter.refusal
            origin = Origin(self._input, letter.partition, letter.offset)
            count = refusal.count if refusal.several else None
            record = make_dead_letter(refusal.fault, refusal.payload, origin, refusal.index, self._limit, count)
            sent.append(self._producer.send(self._topic, value=record.value, headers=record.headers))
        self._producer.flush(timeout=FLUSH_SECONDS)
        for future in sent:
            future.get(timeout=0.001)

    def close(self) -> None:
        """Close the producer."""
        if self._producer is not None:
            self._producer.close(timeout=CLOSE_SECONDS)
            self._producer = None
