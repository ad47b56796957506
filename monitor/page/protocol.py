"""HTTP/1.1 with time limits, so that no slow client keeps a connection for long.

uvicorn limits the size of a request's head, but not the time that a client takes to send it or to read the response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

REQUEST_SECONDS: Final = 10.0
"""How long a client may take to send the head of a request."""
STALLED_SECONDS: Final = 20.0
"""How long a client may leave a full send buffer unread. The buffer has 64 KiB."""
MOST_HEAD_BYTES: Final = 16_384
"""The most bytes of the head of a request. A longer one is refused with 400."""


class _Deadline:
    """A timer that can be restarted. It calls `expire` once its seconds have passed."""

    def __init__(self, seconds: float, expire: Callable[[], None]) -> None:
        self._seconds, self._expire = seconds, expire
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start the timer, unless it runs already."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._expire)

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class LimitedProtocol(H11Protocol):
    """A connection that is aborted if its client is too slow."""

    request_seconds = REQUEST_SECONDS
    stalled_seconds = STALLED_SECONDS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Start to wait for a request."""
        super().connection_made(transport)
        self._request = _Deadline(self.request_seconds, transport.abort)
        self._writing = _Deadline(self.stalled_seconds, transport.abort)
        self._request.start()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request. Between two requests, the first byte starts the wait for the whole head."""
        before = cast("RequestResponseCycle | None", self.cycle)  # None before the first request
        is_idle = before is None or before.response_complete
        if is_idle and len(data) > MOST_HEAD_BYTES:
            # h11 limits only the heads that arrive in several parts.
            self.send_400_response("Request head too large.")
            return
        super().data_received(data)
        begun = self.cycle is not before
        if begun:
            self._request.stop()
        elif is_idle:
            self._request.start()

    def pause_writing(self) -> None:
        """Start to wait until the client has read the send buffer."""
        super().pause_writing()
        self._writing.start()

    def resume_writing(self) -> None:
        """Stop waiting: the client reads."""
        super().resume_writing()
        self._writing.stop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        self._request.stop()
        self._writing.stop()
        super().connection_lost(exc)
