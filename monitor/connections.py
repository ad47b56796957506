"""Kafka's clients, all made in one place with what this product needs of them.

kafka-python ships no types, so its clients are `Any` here; each user wraps what it needs in a typed class of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import KafkaError

from monitor.errors import UnreachableError

BOOTSTRAP_TIMEOUT_MS: Final = 5_000
REQUEST_TIMEOUT_MS: Final = 10_000
MAX_RECORD_BYTES: Final = 64 * 1024 * 1024  # what this side may send; the topics' own limits are below

# How soon partitions that were added are seen and shared out; the barrier does not rely on it.
METADATA_MAX_AGE_MS: Final = 10_000


class _Member(KafkaConsumer):  # type: ignore[misc]  # kafka-python ships no types
    """A consumer that finishes each rebalance it has begun.

    kafka-python 3.0.12 begins one also where the topics' metadata changed (partitions were added, or are known only
    now), and forgets it if a poll's time is up in the middle: such a member sends no heartbeat and is assigned nothing
    until its end. Asked to rejoin, it goes on with the one under way.
    """

    def poll(self, *arguments: Any, **settings: Any) -> Any:
        if self._coordinator.rejoining:
            self._coordinator.request_rejoin()
        return super().poll(*arguments, **settings)


@dataclass(frozen=True)
class KafkaConnections:
    """Where Kafka is and how to talk to it. `security` holds kafka-python's settings; its secrets are never shown."""

    bootstrap_servers: tuple[str, ...]
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)
    client_id: str = "location-monitor"
    session_timeout_ms: int = 10_000

    def admin(self) -> Any:
        """An admin client. Raises UnreachableError if no broker answers."""
        with self.reached():
            return KafkaAdminClient(**self._common(), retry_backoff_ms=20)

    def consumer(self, **settings: Any) -> Any:
        """A consumer that commits nothing by itself and never resets a position by itself."""
        with self.reached():
            return KafkaConsumer(**self._consuming(settings))

    def member(self, group: str, **settings: Any) -> Any:
        """A consumer in a group, with the cooperative assignor: others keep reading while partitions move."""
        membership: dict[str, Any] = {
            "group_id": group,
            "partition_assignment_strategy": (CooperativeStickyAssignor,),
            "session_timeout_ms": self.session_timeout_ms,
            "heartbeat_interval_ms": max(100, self.session_timeout_ms // 4),
        }
        with self.reached():
            return _Member(**self._consuming(membership | settings))

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
        with self.reached():
            return KafkaProducer(**self._common(), **(defaults | settings))

    @contextmanager
    def reached(self) -> Iterator[None]:
        """Turn kafka-python's errors into one that says which server, where and why."""
        try:
            yield
        except (KafkaError, OSError) as error:
            where = ", ".join(self.bootstrap_servers)
            raise UnreachableError(f"Kafka at {where} cannot be used: {error or type(error).__name__}") from error

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
            "reconnect_backoff_max_ms": 1_000,
            **self.security,
        }
