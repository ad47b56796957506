"""The state of all places in two forms: as answers, and as the records from which they follow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from monitor.client.current_answers import Answer, KnownPlaces
from monitor.client.subscriber_view import SubscriberView
from monitor.page.answers import describe_answer
from monitor.page.board import Board
from monitor.page.current_places import Place, Present, Snapshot, read_place
from monitor.time.instants import format_instant

_encode: Final = msgspec.json.Encoder().encode


@dataclass
class States:
    """The states of all places now, and the events with which subscribers receive them. Use it in one event loop only.

    Each event has the whole state, so that a subscriber needs no earlier event.
    """

    present: Present
    snapshot: Snapshot = field(default_factory=Snapshot)
    content: bytes = b""
    _sent: int = 0
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def update(self) -> None:
        """Read the places, and write `content` if they may differ: the states as JSON without the closing brace."""
        async with self._lock:
            snapshot = await self.present.read()
            if snapshot.number != self.snapshot.number:
                self.content = await asyncio.to_thread(write_states, snapshot.places)
            self.snapshot = snapshot

    async def publish(self) -> None:
        """Send the states to their subscribers, unless they have received them."""
        hub = self.present.feed.hub
        if not hub.has("states"):
            return
        await self.update()
        if self.snapshot.number != self._sent:
            self._sent = self.snapshot.number
            hub.publish(b"".join(self.list_event_parts()), "states")

    def list_event_parts(self) -> list[bytes]:
        """Return the parts of the event with the states. Subscribers that connect share `content`."""
        end = _encode({**self.present.feed.report_status(), **self.describe()})[1:]
        return [b"event: states\ndata: ", self.content, b",", end, b"\n\n"]

    def describe(self) -> dict[str, str | None]:
        """Return what a client must know about the states: their as_of, registry and position."""
        as_of = self.snapshot.as_of
        return {
            "as_of": None if as_of is None else format_instant(as_of),
            "registry": self.snapshot.registry,
            "position": self.snapshot.position,
        }


def write_states(places: Iterable[Place]) -> bytes:
    """Return JSON without the closing brace: each different answer once, with the rows of the registry it is about.

    `rows` are the first and the last row of each run: [0, 4, 7, 7] are the rows 0 to 4, and 7.
    """
    found: dict[tuple[Answer, str], list[int]] = {}
    for row, place in enumerate(places):
        for answer in place.answers:
            runs = found.setdefault((answer, place.find_reason(answer)), [])
            if runs and runs[-1] == row - 1:
                runs[-1] = row
            else:
                runs += (row, row)
    answers = [describe_answer(answer, reason) | {"rows": runs} for (answer, reason), runs in found.items()]
    return b'{"answers":%s' % _encode(answers)


def prepare_past_states(at: int, present: Present) -> Callable[[], bytes]:
    """Select the records up to an instant. Return the function that folds them, and writes the states at the instant.

    It returns JSON without the closing brace, and does not read the board, so another thread may call it.
    """
    entries, view = present.feed.board.find_state(at), present.feed.view
    locations, slot = present.locations, present.parameters.grid.length
    past = SubscriberView(view.registry, view.keep, earlier=view.earlier)

    def write() -> bytes:
        for entry in entries:
            past.add([("ce_type", entry.type.encode())], entry.raw)
        known = KnownPlaces(past, slot, lambda: at)
        places = (read_place(location, known, at, reachable=True) for location in locations)
        about = _encode({"as_of": format_instant(at), "registry": past.registry.digest})
        return write_states(places) + b"," + about[1:-1]

    return write


def prepare_records(board: Board, at: int | None = None) -> Callable[[], bytes]:
    """Select the records of the state now or at an instant. Return the function that writes them.

    It returns JSON without the closing brace, and does not read the board, so another thread may call it.
    """
    entries = board.find_state(at)
    return lambda: b'{"records":[%s]' % b",".join(entry.line for entry in entries)
