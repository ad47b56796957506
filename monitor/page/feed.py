"""Keeps the records, sends events to the subscribers, and reports when Kafka answered last."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Literal

import msgspec

from monitor.client.subscriber_view import SubscriberView
from monitor.kinds.locations import Registry
from monitor.page.board import Batch, Board, Position
from monitor.page.entries import Entry
from monitor.page.response_bodies import cut
from monitor.time.clock import Clock
from monitor.time.instants import MILLISECOND, format_instant

QUEUED_EVENTS: Final = 64
"""The most events that wait for one subscriber. One that is further behind is disconnected, and may resume."""

Kind = Literal["records", "states"]
"""What a subscriber receives: the records, or the states of all places that follow from them."""
BEAT_SECONDS: Final = 10.0
"""How often subscribers receive the present time, which also shows that the connection works."""
_POSITION: Final = re.compile(r"([\w-]{1,64})/(\d{1,9}:\d{1,18}(?:,\d{1,9}:\d{1,18})*)", re.ASCII)
_LONGEST: Final = 4_096
_MOST_RESUMED: Final = 20_000  # a subscriber further behind reads the present state instead
RETRY: Final = b"retry: 3000\n\n"
"""Tells a browser after how many milliseconds to connect again."""
_RESET: Final = b"event: reset\ndata: {}\n\n"
_encode: Final = msgspec.json.Encoder().encode


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
                self._report_cut()
                self._open.discard(subscription)
                subscription.end()

    def close(self) -> None:
        """End all streams, and accept no more."""
        self._closed = True
        for subscription in list(self._open):
            subscription.end()
        self._open.clear()


def format_position(topic_id: str, position: Position) -> str:
    """Write a position as in the id of an event: `ID/0:17,1:4`, the topic's id and the next offset by partition."""
    return f"{topic_id}/{','.join(f'{partition}:{offset}' for partition, offset in sorted(position.items()))}"


def parse_position(text: str) -> tuple[str, dict[int, int]] | None:
    """Read the id of the topic and the offsets of a position; None if it is not one."""
    if len(text) > _LONGEST or (found := _POSITION.fullmatch(text)) is None:
        return None
    pairs = (pair.split(":") for pair in found[2].split(","))
    return found[1], {int(partition): int(offset) for partition, offset in pairs}


def list_event_parts(batch: Batch) -> Iterator[bytes]:
    """Yield the parts of the event with the records of a batch. Its id is the position after them.

    The lines of the records are those of the board, so that subscribers that resume share them.
    """
    yield b"id: %s\nevent: records\ndata: [" % format_position(batch.topic_id, batch.after).encode()
    for number, entry in enumerate(batch.entries):
        yield b"," if number else b""
        yield entry.line
    yield b"]\n\n"


@dataclass
class Feed:
    """The board, the view of a subscriber, the hub, and when Kafka answered last. Use it in one event loop only.

    `settings` are part of each status: a client that began with other ones begins again.
    """

    board: Board
    view: SubscriberView
    hub: Hub
    clock: Clock
    monotonic: Callable[[], float] = time.monotonic
    settings: Mapping[str, object] = field(default_factory=dict)
    _reached: float | None = field(default=None)

    def deliver(self, topic_id: str, entries: Sequence[Entry], position: Mapping[int, int]) -> None:
        """Add the records of a poll of a topic, and send what is new to all subscribers."""
        self._reached = self.monotonic()
        self.board.begin(topic_id)
        batches = self.board.add(entries, position)
        for batch in batches:
            for entry in batch.entries:
                self.view.add([("ce_type", entry.type.encode())], entry.raw)
            self.hub.publish(b"".join(list_event_parts(batch)), "records")
        if batches:
            self.beat()

    def use(self, registry: Registry) -> None:
        """Use another registry from now on, and tell all subscribers."""
        self.view.use(registry)
        self.settings = {**self.settings, "registry": registry.digest}
        self.beat()

    def beat(self) -> None:
        """Send the present time to all subscribers."""
        self.hub.publish(self.write_beat_event())

    @property
    def silent_seconds(self) -> float:
        """Seconds since Kafka answered last; infinite if it never did."""
        return float("inf") if self._reached is None else self.monotonic() - self._reached

    def write_beat_event(self) -> bytes:
        """Return the event with the present time, the latest as_of and the seconds since Kafka answered."""
        return b"event: beat\ndata: %s\n\n" % _encode(self.report_status())

    def report_status(self) -> dict[str, object]:
        """Return the present time, the latest as_of, the seconds since Kafka answered, and the position."""
        as_of = self.board.as_of
        now = self.clock.now()
        return {
            "now": format_instant(now - now % MILLISECOND),
            "as_of": None if as_of is None else format_instant(as_of),
            "silent_seconds": None if self._reached is None else round(self.silent_seconds),
            "position": format_position(self.board.topic_id, self.board.position),
            **self.settings,
        }

    def resume(self, position: str | None) -> Iterator[bytes]:
        """Return the first events of records in parts: those after a position, or `reset` if it cannot be found."""
        parsed = None if position is None else parse_position(position)
        batches = [] if position is None else None if parsed is None else self.board.list_since(*parsed)
        reset = batches is None or sum(len(batch.entries) for batch in batches) > _MOST_RESUMED
        first = [_RESET] if reset else chain.from_iterable(map(list_event_parts, batches or ()))
        return chain([RETRY], first, [self.write_beat_event()])
