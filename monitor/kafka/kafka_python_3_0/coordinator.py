"""A consumer in a group that finishes each rebalance. No issue upstream was found."""

from __future__ import annotations

from typing import Any

from kafka import KafkaConsumer
from kafka.coordinator.consumer import ConsumerCoordinator


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
