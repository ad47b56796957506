"""kafka-python's clients, with workarounds for the bugs of version 3.0.12 that affect the service.

kafka-python ships no types, so its clients are `Any` here.
"""

from __future__ import annotations

import threading
from typing import Any, Final

from kafka import KafkaConsumer, KafkaProducer
from kafka.cluster import ClusterMetadata
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient

REQUEST_TIMEOUT_MS: Final = 10_000
_CONNECTING_MS: Final = 100.0


class Coordinator(ConsumerCoordinator):  # type: ignore[misc]  # kafka-python ships no types
    """A consumer coordinator that finishes each rebalance it has started, however short the polls are.

    kafka-python 3.0.12 leaves two kinds of rebalance unfinished. The member then sends no heartbeat and is assigned
    nothing. First, if a poll times out during a rebalance that new metadata started (added partitions, or the first
    metadata), the rebalance is forgotten. Second, a rebalance that ends between two polls is discarded and started
    again, forever.
    """

    _synced: tuple[Any, bytes] | None = None

    def need_rejoin(self) -> bool:
        """Return whether there is a rebalance to start or to continue."""
        return bool(self.rejoining or super().need_rejoin())

    async def _on_join_prepare_async(self, *arguments: Any, **settings: Any) -> None:
        self._synced = None
        await super()._on_join_prepare_async(*arguments, **settings)

    async def _do_join_and_sync_async(self) -> bytes:
        """Return the assignment of the current rebalance, which an earlier attempt may have received already."""
        if self._synced is not None and self.rebalance_in_progress() and self._synced[0] is self._generation:
            return self._synced[1]
        assigned: bytes = await super()._do_join_and_sync_async()
        self._synced = self._generation, assigned
        return assigned


class Member(KafkaConsumer):  # type: ignore[misc]  # kafka-python ships no types
    """A consumer in a group, with our coordinator, which kafka-python has no option to pass in."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._coordinator.__class__ = Coordinator


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


class NetworkClient(KafkaNetClient):  # type: ignore[misc]  # kafka-python ships no types
    """A network client that records why connections failed. kafka-python only logs the reason."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.reasons: list[BaseException] = []
        self._connect = self._manager.get_connection
        self._manager.get_connection = self._connect_and_record

    def _connect_and_record(self, *arguments: Any, **named: Any) -> Any:
        connection = self._connect(*arguments, **named)
        connection.init_future.add_errback(self.reasons.append)
        return connection

    def stop_recording(self) -> None:
        """Stop recording. After its creation, the client raises its own errors."""
        self._manager.get_connection = self._connect


class ProducersNetworkClient(NetworkClient):
    """The network client of a producer, whose sender uses no processor while a broker or a leader is missing.

    kafka-python's sender uses a whole processor then. First, while a connection is being made or its backoff lasts, the
    sender asks for the delay in milliseconds and gets seconds, or zero. Second, while a partition has no leader (its
    topic was deleted, for example), it requests new metadata in each round, and each request wakes the sender itself.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.cluster.__class__ = _Cluster

    def connection_delay(self, node_id: Any) -> float:
        """Return how long to wait for a connection, in milliseconds. A new connection ends the wait earlier."""
        return float(super().connection_delay(node_id)) * 1_000 or _CONNECTING_MS


class _Cluster(ClusterMetadata):  # type: ignore[misc]  # kafka-python ships no types
    """The metadata of a cluster. If an update is already requested, another request does not wake the sender."""

    def request_update(self) -> Any:
        """Request an update and return its future."""
        with self._lock:
            if self._need_update and self._future and not self._future.is_done and self._refresh_loop_future:
                return self._future
        return super().request_update()
