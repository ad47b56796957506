"""A producer whose threads and sockets always end.

3.0.12 has dpkp/kafka-python#3108 ("fix stalled shutdown when brokers unreachable"). Its `close` still waits for the
records first, and the error of this wait leaves the thread and the sockets open.
"""

from __future__ import annotations

import threading
from typing import Final

from kafka import KafkaProducer
from kafka.errors import KafkaError

REQUEST_TIMEOUT_MS: Final = 10_000


class Producer(KafkaProducer):  # type: ignore[misc]  # kafka-python ships no types
    """A producer whose threads and sockets always end with `close`.

    If records cannot be sent in time, kafka-python's `close` raises an error and ends neither. The producer continues
    to send, and a commit that waits for the broker waits forever.
    """

    def close(self, timeout: float | None = None, null_logger: bool = False) -> None:  # noqa: FBT001, FBT002  # kafka-python's signature
        """Wait up to `timeout` seconds for pending records (default: without a limit), then drop them and close."""
        if getattr(self, "_closed", True):  # closed already, or never opened
            super().close(timeout, null_logger)
            return
        try:
            super().close(timeout, null_logger)
        except KafkaError:  # the records could not be sent in time
            self._closed = True
            self._sender.force_close()
        if self._transaction_manager is None or null_logger:  # null_logger: the interpreter exits, and starts no thread
            return
        self._transaction_manager.transition_to_fatal_error(KafkaError("the producer was closed"))
        if self._sender.is_alive():
            threading.Thread(target=self._fail_requests, name="closing-producer", daemon=True).start()
        else:
            self._fail_requests()

    def _fail_requests(self) -> None:
        """Fail the requests that still wait for a broker after the sender has ended, so that their callers continue."""
        self._sender.join(2 * REQUEST_TIMEOUT_MS / 1_000)
        for _priority, _order, request in list(self._transaction_manager._pending_requests):  # noqa: SLF001  # kafka-python has no other way
            request.fail(KafkaError("the producer was closed"))
