"""Sends events to the subscribers of the stream. Each event is stored once; every subscriber has a bounded queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Final, Literal

from monitor.tools.page.bodies import cut

QUEUED_EVENTS: Final = 64
"""The most events that wait for one subscriber. One that is further behind is disconnected, and may resume."""

Kind = Literal["records", "states"]
"""What a subscriber receives: the records, or the states of all places that follow from them."""


class Subscription:
    """The queue of one subscriber. `None` in the queue ends its stream. `first`: the parts of its first events."""

    def __init__(self, kind: Kind, first: Iterable[bytes]) -> None:
        self.kind, self._first = kind, first
        self._is_open = True
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue(QUEUED_EVENTS)

    async def read_chunks(self) -> AsyncGenerator[bytes]:
        """Yield the events in chunks until the end of the stream, which may cut an event."""
        first, self._first = self._first, ()
        for chunk in cut(first):
            if not self._is_open:
                return
            yield chunk
        while (event := await self.queue.get()) is not None:
            for chunk in cut([event]):
                if not self._is_open:
                    return
                yield chunk

    def end(self) -> None:
        """Drop the events that wait, and end the stream."""
        self._is_open = False
        while not self.queue.empty():
            self.queue.get_nowait()
        self.queue.put_nowait(None)


class Hub:
    """The open subscriptions, `most` of them at a time. Use it in one event loop only.

    `report_cut` is called for each subscriber that is cut off.
    """

    def __init__(self, most: int, report_cut: Callable[[], None] = lambda: None) -> None:
        self._most, self._report_cut = most, report_cut
        self._open: set[Subscription] = set()
        self._closed = False
        self.cut = 0

    def __len__(self) -> int:
        """Return the number of open subscriptions."""
        return len(self._open)

    def has(self, kind: Kind) -> bool:
        """Return whether there is a subscription of a kind."""
        return any(subscription.kind == kind for subscription in self._open)

    @property
    def is_full(self) -> bool:
        """Whether no further subscription is accepted."""
        return self._closed or len(self._open) >= self._most

    def subscribe(self, kind: Kind, first: Iterable[bytes]) -> Subscription:
        """Open a subscription that begins with these events."""
        subscription = Subscription(kind, first)
        self._open.add(subscription)
        return subscription

    def leave(self, subscription: Subscription) -> None:
        """Forget a subscription."""
        self._open.discard(subscription)

    def publish(self, event: bytes, kind: Kind | None = None) -> None:
        """Send an event to all subscribers of a kind; None: to all. One whose queue is full is cut off."""
        for subscription in [one for one in self._open if kind in {None, one.kind}]:
            try:
                subscription.queue.put_nowait(event)
            except asyncio.QueueFull:
                self.cut += 1
                self._report_cut()
                self._open.discard(subscription)
                subscription.end()

    def close(self) -> None:
        """End all streams, and accept no more."""
        self._closed = True
        for subscription in list(self._open):
            subscription.end()
        self._open.clear()
