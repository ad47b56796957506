"""The bodies of `/v1/records`. They are large, so they are built in a thread, once for each change of the board."""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from monitor.contracts.instants import format_instant
from monitor.tools.page.bodies import GZIP, LEVEL, Bodies, Body, SharedBytes
from monitor.tools.page.entries import Entry
from monitor.tools.page.feed import Feed, format_position

_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The records of one state as the beginning of a body, and the status of that state.

    `compressor` continues after the beginning; each body uses a copy of it.
    """

    beginning: Body
    compressor: Any
    status: Mapping[str, object]

    def render_body(self, status: Mapping[str, object]) -> Body:
        """Return the body with the present time. The position and as_of stay those of the records."""
        end = b"," + _encode({**status, **self.status})[1:]
        compressor = self.compressor.copy()
        compressed = compressor.compress(end) + compressor.flush()
        tag = hashlib.sha256(end).hexdigest()[:32]  # the position identifies the records
        return replace(self.beginning, length=self.beginning.length + len(end), tag=tag, end=compressed)


@dataclass
class Records:
    """The records from which the present or a past state follows. Use it in one event loop only."""

    feed: Feed
    bodies: Bodies
    _prepared: _Prepared | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def prepare_present(self) -> Body:
        """Return the records of the present state, the position at which the stream continues, and the time."""
        async with self._lock:
            version = self.feed.board.version
            if self._prepared is None or self.bodies.find("present", version) is None:
                board = self.feed.board
                as_of = None if board.as_of is None else format_instant(board.as_of)
                status = {"as_of": as_of, "position": format_position(board.topic_id, board.position)}
                self._prepared = await asyncio.to_thread(_prepare, board.find_state(), status)
                self.bodies.keep("present", version, self._prepared.beginning)
            prepared = self._prepared
        return prepared.render_body(self.feed.report_status())

    async def prepare_past(self, at: int) -> Body:
        """Return the records of the state at an instant."""
        board = self.feed.board

        def prepare() -> Callable[[], bytes]:
            entries = board.find_state(at)
            return lambda: _write(entries) + b"}"

        return await self.bodies.get(at, board.version, prepare)


def _prepare(entries: Sequence[Entry], status: Mapping[str, object]) -> _Prepared:
    content, compressor = _write(entries), zlib.compressobj(LEVEL, wbits=GZIP)
    compressed = compressor.compress(content) + compressor.flush(zlib.Z_SYNC_FLUSH)
    return _Prepared(Body(SharedBytes(compressed), zipped=True, length=len(content), tag=""), compressor, status)


def _write(entries: Sequence[Entry]) -> bytes:
    return b'{"records":[%s]' % b",".join(entry.line for entry in entries)
