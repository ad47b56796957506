"""HTTP/1.1 with limits, so that no client keeps a connection, or memory, for long.

uvicorn limits the size of a request's head, but not the time that a client takes to send it or to read the response,
and not the connections of one client.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, cast

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from monitor.page.headers import REFUSAL_HEADERS
from monitor.page.response_bodies import CHUNK

log = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 10.0
"""How long a client may take to send the head of a request."""
STALLED_SECONDS: Final = 20.0
"""How long a client may take to read a full send buffer, which has at most two chunks, down to a quarter of a chunk."""
MOST_HEAD_BYTES: Final = 16_384
"""The most bytes of the head of a request. A longer one is refused with 400."""
_BODY_HEADERS: Final = {b"content-length", b"transfer-encoding"}
_IPV6_NETWORK: Final = 64  # bits: the smallest network that a provider gives to a customer


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


class Connections:
    """The open connections: at most `most`, and at most `most_each` from one address (None: no limit).

    An IPv6 address counts as its network of 64 bits, because every customer has all addresses of one. `report_refused`
    is called for each connection that is refused, with the limit: `all` or `address`.
    """

    def __init__(self, most: int, most_each: int | None, report_refused: Callable[[str], None]) -> None:
        self._most, self._most_each, self._report_refused = most, most_each, report_refused
        self._open: Counter[str] = Counter()
        self._warned = False

    def admit(self, address: str) -> bool:
        """Count a connection from an address. Return False, and count nothing, if it exceeds a limit."""
        client = _find_client(address)
        if self._open.total() >= self._most:
            self._report_refused("all")
            return False
        if self._most_each is not None and self._open[client] >= self._most_each:
            self._report_refused("address")
            self._warn()
            return False
        self._open[client] += 1
        return True

    def release(self, address: str) -> None:
        """Forget a connection that was admitted."""
        client = _find_client(address)
        self._open[client] -= 1
        if not self._open[client]:
            del self._open[client]

    def _warn(self) -> None:
        """Log once that an address reached its limit, without the address."""
        if not self._warned:
            log.warning(
                "page.connections_per_address is %s, and one address has reached it: further connections from it are "
                "refused. If it is the address of a proxy, set page.connections_per_address to 0, and limit the "
                "connections in the proxy",
                self._most_each,
            )
        self._warned = True


def _find_client(address: str) -> str:
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv4Address) or parsed.ipv4_mapped is not None:
        return address
    return str(ipaddress.ip_network((int(parsed), _IPV6_NETWORK), strict=False))


class LimitedProtocol(H11Protocol):
    """A connection that is refused above the limits of `connections`, and aborted if its client is too slow.

    The application finds the connection's transport in the state of each request.
    """

    request_seconds = REQUEST_SECONDS
    stalled_seconds = STALLED_SECONDS

    def __init__(self, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._limits, self._address = connections, ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Start to wait for a request."""
        super().connection_made(transport)
        self._request = _Deadline(self.request_seconds, transport.abort)
        self._writing = _Deadline(self.stalled_seconds, transport.abort)
        address = self.client[0] if self.client else ""
        if not address or not self._limits.admit(address):  # without an address, the client has left already
            transport.abort()
            return
        self._address = address
        transport.set_write_buffer_limits(high=CHUNK)
        self.app_state = {**self.app_state, "transport": transport}
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

    def handle_events(self) -> None:
        """Handle what was read. After a request with a body, which no route reads, the connection closes.

        A proxy and this server could disagree about where such a request ends (RFC 9112, section 6.1).
        """
        super().handle_events()
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None and {name for name, _value in self.headers} & _BODY_HEADERS:
            cycle.keep_alive = False

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that is not valid HTTP, with the headers that every response has."""
        headers = {**REFUSAL_HEADERS, "Content-Type": "text/plain; charset=utf-8", "Connection": "close"}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.transport.write(f"HTTP/1.1 400 Bad Request\r\nContent-Length: {len(msg)}\r\n{head}\r\n{msg}".encode())
        self.transport.close()

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
        if self._address:
            self._limits.release(self._address)
            self._address = ""
        super().connection_lost(exc)
