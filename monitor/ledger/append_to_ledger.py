"""Append to the ledger, which is the output topic, with one fenced writer per partition."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final, TypeVar

from kafka.errors import InvalidProducerEpochError, KafkaError, ProducerFencedError

from monitor.errors import FencedError, UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.kafka_python_3_0.batch_queue import enqueue_batch, find_first_offset
from monitor.kafka.record_batches import encode_batches
from monitor.kafka.topics import LEDGER_BATCH_BYTES
from monitor.observe.failpoints import failpoint
from monitor.records.output_records import OutputRecord

_T = TypeVar("_T")
_FENCES: Final = (ProducerFencedError, InvalidProducerEpochError)

# After a broker has failed, its partitions must be taken over within the slot. Larger transactions get more time.
ACKNOWLEDGED_SECONDS: Final = 6.0
SHORTEST_SECONDS: Final = 3.0  # a shorter time would give up brokers that are only slow
RECORDS_PER_SECOND: Final = 20_000
BEGIN_SECONDS: Final = 11.0  # kafka-python waits 10 s for a transactional id
TRANSACTION_TIMEOUT_MS: Final = 30_000
CLOSE_SECONDS: Final = 1.0

UNACKNOWLEDGED_BATCHES: Final = 512  # 64 MiB: a tick of a million places must not be in memory as a whole

# With kafka-python's default (100 ms), each transaction would wait 70 ms for its coordinator.
RETRY_BACKOFF_MS: Final = 3


TRANSACTIONAL_ID_PREFIX: Final = "location-monitor."
"""The beginning of every transactional id. It is constant, so a right to it can be granted before the topic exists."""


def run_in_thread(work: Callable[[], _T], name: str) -> Future[_T]:
    """Run work in a separate thread, because kafka-python waits for a commit without a timeout."""
    future: Future[_T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  # raised by `Future.result`
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


def _is_fence(error: KafkaError) -> bool:
    """Return whether the producer was fenced. After the first error, only kafka-python's error text names the cause."""
    return isinstance(error, _FENCES) or any(fence.__name__ in str(error) for fence in _FENCES)


class Writer:
    """The one writer of a ledger partition. A new writer fences every earlier one.

    The transactional id is derived from the ledger's topic and not from the service. A second service on the same topic
    therefore fences the first one, and the two never draw at the same time.

    Raises:
        UnreachableError: (any method) the outcome is not known; take over again.
        FencedError: (any method) another owner has taken over.
    """

    def __init__(
        self,
        connections: KafkaConnections,
        topic: str,
        topic_id: str,
        partition: int,
    ) -> None:
        self._connections = connections
        self._topic = topic
        self._partition = partition
        self._failed = False
        self._producer = connections.create_producer(
            transactional_id=f"{TRANSACTIONAL_ID_PREFIX}{topic_id}-{partition}",
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            retry_backoff_ms=RETRY_BACKOFF_MS,
            linger_ms=0,
            batch_size=LEDGER_BATCH_BYTES,
        )
        try:
            self._run(self._producer.init_transactions, BEGIN_SECONDS)
        except BaseException:
            self.close()
            raise

    def append(self, records: Sequence[OutputRecord], within: float = ACKNOWLEDGED_SECONDS) -> int:
        """Append records in one transaction, and return the offset of the last one; -1 if there are no records.

        The append is given up after `within` seconds, at least three and at most six, plus a time for its size.
        """
        seconds = max(SHORTEST_SECONDS, min(within, ACKNOWLEDGED_SECONDS)) + len(records) / RECORDS_PER_SECOND
        return self._run(lambda: self._append_in_transaction(records, seconds), seconds) if records else -1

    def _append_in_transaction(self, records: Iterable[OutputRecord], seconds: float) -> int:
        self._producer.begin_transaction()
        failpoint("ledger.begun")
        sent = self._enqueue(records, seconds)
        self._producer.flush(timeout=seconds)
        failpoint("ledger.sent")
        self._producer.commit_transaction()
        failpoint("ledger.committed")
        # After the commit, all records are in the log. `find_first_offset` raises the error of a refused batch.
        return max(find_first_offset(future) + count - 1 for future, count in sent)

    def _enqueue(self, records: Iterable[OutputRecord], seconds: float) -> list[tuple[Any, int]]:
        """Enqueue records in batches, and return each batch's future and size; wait if too much is unacknowledged."""
        self._producer.partitions_for(self._topic)  # waits for the topic's metadata, as `send` does
        sent: list[tuple[Any, int]] = []
        for batch in encode_batches(records, LEDGER_BATCH_BYTES):
            sent.append((enqueue_batch(self._producer, self._topic, self._partition, batch), batch.records))
            failpoint("ledger.queued")
            if len(sent) > UNACKNOWLEDGED_BATCHES:
                sent[-UNACKNOWLEDGED_BATCHES][0].wait(seconds)
        return sent

    def _run(self, work: Callable[[], _T], seconds: float) -> _T:
        try:
            return run_in_thread(work, f"ledger-{self._partition}").result(seconds)
        except FutureTimeoutError as error:
            self._failed = True
            raise UnreachableError(
                f"Kafka did not answer for {self._topic}-{self._partition} within {seconds:.0f} s"
            ) from error
        except KafkaError as error:
            self._failed = True
            if _is_fence(error):
                raise FencedError(f"another owner has taken over {self._topic}-{self._partition}") from error
            why = self._connections.make_unreachable_error(error, operation="Write")
            raise UnreachableError(f"{self._topic}-{self._partition} cannot be appended to: {why}") from error

    def close(self) -> None:
        """Close the producer, at once after an error. The broker or the next writer aborts an open transaction."""
        self._producer.close(timeout=0 if self._failed else CLOSE_SECONDS)
