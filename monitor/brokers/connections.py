"""Kafka's clients, all made in one place with what this product needs of them.

kafka-python ships no types, so its clients are `Any` here; each user wraps what it needs in a typed class of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.errors import AuthorizationError, KafkaError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError
from kafka.net.compat import KafkaNetClient

from monitor.brokers.tls import tls_reason
from monitor.errors import UnreachableError

BOOTSTRAP_TIMEOUT_MS: Final = 5_000
REQUEST_TIMEOUT_MS: Final = 10_000
MAX_RECORD_BYTES: Final = 64 * 1024 * 1024  # what this side may send; the topics' own limits are below

# How soon partitions that were added are seen and shared out; the barrier does not rely on it.
METADATA_MAX_AGE_MS: Final = 10_000

_CUT: Final = "socket disconnected"
_LOGIN: Final = "see kafka.username, its password and kafka.sasl_mechanism"


class _Coordinator(ConsumerCoordinator):  # type: ignore[misc]  # kafka-python ships no types
    """A member's side of the group's protocol that finishes each rebalance it has begun, however short its polls are.

    kafka-python 3.0.12 leaves two unfinished, and such a member sends no heartbeat and is assigned nothing: one that
    new metadata began (partitions were added, or are known only now) is forgotten if the poll's time is up in its
    middle; and one that ends between two polls is thrown away and begun anew, again and again.
    """

    _synced: tuple[Any, bytes] | None = None

    def need_rejoin(self) -> bool:
        """Whether there is a rebalance to begin or to go on with."""
        return bool(self.rejoining or super().need_rejoin())

    async def _on_join_prepare_async(self, *arguments: Any, **settings: Any) -> None:
        self._synced = None
        await super()._on_join_prepare_async(*arguments, **settings)

    async def _do_join_and_sync_async(self) -> bytes:
        """What the rebalance under way has assigned: as kept from an attempt whose end no poll saw, or asked for."""
        if self._synced is not None and self.rebalance_in_progress() and self._synced[0] is self._generation:
            return self._synced[1]
        assigned: bytes = await super()._do_join_and_sync_async()
        self._synced = self._generation, assigned
        return assigned


class _Member(KafkaConsumer):  # type: ignore[misc]  # kafka-python ships no types
    """A consumer in a group, with a coordinator that loses no rebalance; kafka-python takes none but its own."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._coordinator.__class__ = _Coordinator


class _Net(KafkaNetClient):  # type: ignore[misc]  # kafka-python ships no types
    """A client's network side that keeps why its connections came to nothing: kafka-python only logs that."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.reasons: list[BaseException] = []
        self._connect = self._manager.get_connection
        self._manager.get_connection = self._noting

    def _noting(self, *arguments: Any, **named: Any) -> Any:
        connection = self._connect(*arguments, **named)
        connection.init_future.add_errback(self.reasons.append)
        return connection

    def settle(self) -> None:
        """The client is made: from now on it raises what goes wrong by itself."""
        self._manager.get_connection = self._connect


@dataclass(frozen=True)
class KafkaConnections:
    """Where Kafka is and how to talk to it. `security` holds kafka-python's settings; its secrets are never shown."""

    bootstrap_servers: tuple[str, ...]
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)
    client_id: str = "location-monitor"
    session_timeout_ms: int = 10_000

    def admin(self) -> Any:
        """An admin client. Raises UnreachableError if no broker answers."""
        return self._made(KafkaAdminClient, self._common() | {"retry_backoff_ms": 20})

    def consumer(self, **settings: Any) -> Any:
        """A consumer that commits nothing by itself and never resets a position by itself."""
        return self._made(KafkaConsumer, self._consuming(settings))

    def member(self, group: str, **settings: Any) -> Any:
        """A consumer in a group, with the cooperative assignor: others keep reading while partitions move."""
        membership: dict[str, Any] = {
            "group_id": group,
            "partition_assignment_strategy": (CooperativeStickyAssignor,),
            "session_timeout_ms": self.session_timeout_ms,
            "heartbeat_interval_ms": max(100, self.session_timeout_ms // 4),
        }
        return self._made(_Member, self._consuming(membership | settings))

    def producer(self, **settings: Any) -> Any:
        """An idempotent producer that waits for all replicas."""
        defaults: dict[str, Any] = {
            "acks": "all",
            "enable_idempotence": True,
            "allow_auto_create_topics": False,
            "metrics_enabled": False,
            "max_request_size": MAX_RECORD_BYTES,
            "max_block_ms": REQUEST_TIMEOUT_MS,
            "delivery_timeout_ms": 3 * REQUEST_TIMEOUT_MS,
        }
        return self._made(KafkaProducer, self._common() | defaults | settings)

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Turn kafka-python's errors into one that says which server, where and why."""
        try:
            yield
        except (KafkaError, OSError) as error:
            raise self.unreachable_error(error) from error

    def unreachable_error(self, *reasons: BaseException) -> UnreachableError:
        """The clearest of some reasons in plain words, with the setting to look at."""
        told = next(filter(None, map(_plainly, reasons)), None)
        if told is None and any(_CUT in str(reason) for reason in reasons):
            told = self._cut()
        where = ", ".join(self.bootstrap_servers)
        return UnreachableError(
            f"Kafka at {where} cannot be used: {told or str(reasons[0]) or type(reasons[0]).__name__}"
        )

    def _cut(self) -> str:
        """A broker that refuses a login says so and hangs up; kafka-python often sees only the latter."""
        protocol = (
            f"see that kafka.security_protocol ({self.security.get('security_protocol', 'PLAINTEXT')}) is the port's"
        )
        if "sasl_mechanism" not in self.security:
            return f"it hangs up: {protocol}"
        return f"it hangs up during the login: {_LOGIN}; {protocol}"

    def _made(self, kind: Callable[..., Any], settings: Mapping[str, Any]) -> Any:
        """Make a client. One that can't be made leaves a thread and sockets behind, unless its network is closed."""
        nets: list[_Net] = []

        def net(**given: Any) -> _Net:
            nets.append(_Net(**given))
            return nets[-1]

        try:
            client = kind(**settings, kafka_client=net)
        except BaseException as error:
            for started in nets:
                started.close()
            if not isinstance(error, KafkaError | OSError):
                raise
            raise self.unreachable_error(*(reason for started in nets for reason in started.reasons), error) from error
        for started in nets:
            started.settle()
        return client

    def _consuming(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {
            **self._common(),
            "enable_auto_commit": False,
            "auto_offset_reset": "none",
            "allow_auto_create_topics": False,
            "metrics_enabled": False,
            "metadata_max_age_ms": METADATA_MAX_AGE_MS,
            "fetch_max_wait_ms": 250,
            "retry_backoff_ms": 20,
            **settings,
        }

    def _common(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": list(self.bootstrap_servers),
            "client_id": self.client_id,
            "bootstrap_timeout_ms": BOOTSTRAP_TIMEOUT_MS,
            "request_timeout_ms": REQUEST_TIMEOUT_MS,
            "reconnect_backoff_max_ms": 500,  # of a broker that was away no more than this is added to its absence
            **self.security,
        }


def _plainly(error: BaseException) -> str | None:
    """What an error tells of trust and rights; None where it tells of something else."""
    if isinstance(error, SaslAuthenticationFailedError):
        return f"it refused the login: {_LOGIN}"
    if isinstance(error, UnsupportedSaslMechanismError):
        return "it does not take this kafka.sasl_mechanism"
    if isinstance(error, AuthorizationError) or "AuthorizationFailedError" in str(error):  # it may be another's cause
        return f"its user lacks a right ({error}): grant those that docs/operations.md lists"
    return tls_reason(str(error), "kafka")
