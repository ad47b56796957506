"""Network clients that record why connections fail, and that do not keep a processor busy.

Upstream: dpkp/kafka-python#1907 ("Sender may busy loop when connection is in CONNECTING state") is closed, but the
delay is zero again in 3.0.12, and in seconds where the sender expects milliseconds.
"""

# ruff: noqa: SLF001  # how a connection is opened is private

from __future__ import annotations

from typing import Any, Final

from kafka.cluster import ClusterMetadata
from kafka.errors import KafkaConnectionError
from kafka.net.compat import KafkaNetClient

TLS_ALERT: Final = "the server answered with an alert of TLS"
_ALERT: Final = b"\x15\x03"  # the type of the record and the major version (RFC 8446, section 5.1)
_CONNECTING_MS: Final = 100.0


class NetworkClient(KafkaNetClient):  # type: ignore[misc]  # kafka-python ships no types
    """A network client that records why connections failed. kafka-python only logs the reason.

    kafka-python reads the files of certificates for each connection. Its loops end if that fails, because they expect
    its own errors. Here, it is a failed connection, which is tried again.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.reasons: list[BaseException] = []
        self._connect = self._manager.get_connection
        self._manager.get_connection = self._connect_and_record
        self._open_transport = self._manager._build_transport
        self._manager._build_transport = self._open_or_fail

    async def _open_or_fail(self, *arguments: Any, **named: Any) -> Any:
        try:
            transport = await self._open_transport(*arguments, **named)
        except OSError as error:
            raise KafkaConnectionError(str(error)) from error
        _notice_tls(transport)
        return transport

    def _connect_and_record(self, *arguments: Any, **named: Any) -> Any:
        connection = self._connect(*arguments, **named)
        connection.init_future.add_errback(self.reasons.append)
        return connection

    def stop_recording(self) -> None:
        """Stop recording. After its creation, the client raises its own errors."""
        self._manager.get_connection = self._connect


def _notice_tls(transport: Any) -> None:
    """Let a connection without TLS fail with its own error if the port uses TLS.

    Such a server answers with an alert and closes. kafka-python takes the alert for the length of an answer, or drops
    it if it arrives together with the end, and then reports only that the connection was closed.
    """
    receive, is_first = transport._sock_recv, True

    def receive_and_look() -> tuple[bytes, BaseException | None]:
        nonlocal is_first
        content, error = receive()
        if is_first and content.startswith(_ALERT):
            error = KafkaConnectionError(TLS_ALERT)
        is_first = False
        return content, error

    transport._sock_recv = receive_and_look


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
