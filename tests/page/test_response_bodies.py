"""The bodies of responses: built once, shared, limited in size together, and sent as fast as the client reads."""

from __future__ import annotations

import asyncio
import gzip
import random
from collections.abc import Callable
from typing import Any

import pytest

from monitor.page.response_bodies import (
    CHUNK,
    Body,
    BodyResponse,
    DroppedError,
    ResponseBodies,
    StampedBodies,
    cut,
    make_body,
)

SEED = 20260106
CONTENT = random.Random(SEED).randbytes(10 * CHUNK)


class Connection:
    """A connection that collects what it is sent, and calls `interrupt` after the chunk of this number."""

    def __init__(self, number: int = -1, interrupt: Callable[[], None] | None = None) -> None:
        self.sent: list[dict[str, Any]] = []
        self.aborted = False
        self._number, self._interrupt = number, interrupt or self.abort

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    async def send(self, message: Any) -> None:
        self.sent.append(message)
        if len(self.sent) == self._number + 1:
            self._interrupt()

    async def receive(self) -> dict[str, str]:
        return {"type": "http.disconnect" if self.aborted else "http.request"}

    def request(self, body: Body, *, zipped: bool, method: str = "GET") -> list[bytes]:
        """Send a body, and return its chunks."""
        scope = {"type": "http", "method": method, "state": {"transport": self}}
        response = BodyResponse(body, "text/plain", {}, zipped=zipped)
        asyncio.run(response(scope, self.receive, self.send))
        return [message["body"] for message in self.sent if "body" in message]


@pytest.mark.parametrize("size", [0, 1, 1_023, 1_024, CHUNK, 3 * CHUNK + 1, len(CONTENT)])
@pytest.mark.parametrize("unit", [CONTENT, b"safe " * 40_000], ids=["random", "repetitive"])
def test_body_is_sent_whole(size: int, unit: bytes) -> None:
    """A client that accepts gzip, and one that does not, gets the content, in chunks of a limited size."""
    content = unit[:size]
    body = make_body(content)
    plain = Connection().request(body, zipped=False)
    assert b"".join(plain) == content
    assert max(map(len, plain)) <= CHUNK
    if body.zipped:
        assert gzip.decompress(b"".join(Connection().request(body, zipped=True))) == content
    assert Connection().request(body, zipped=False, method="HEAD") == [b""]


def test_parts_are_cut_and_joined() -> None:
    """Parts of any size become chunks of at most CHUNK bytes with the same content."""
    generator = random.Random(SEED)
    for _ in range(50):
        parts = [CONTENT[: generator.choice((0, 1, 400, CHUNK - 1, CHUNK, CHUNK + 1, 40_000))] for _ in range(20)]
        chunks = list(cut(parts))
        assert b"".join(chunks) == b"".join(parts)
        assert all(0 < len(chunk) <= CHUNK for chunk in chunks)


def test_response_bodies_are_limited_together() -> None:
    """All bodies together have a limited size. Those read least recently are dropped, also while they are sent."""
    bodies = ResponseBodies(most_bytes=3 * len(CONTENT) + 1_000)

    async def build(key: int) -> Body:
        return await bodies.get(key, "now", lambda: lambda: CONTENT)

    async def run() -> None:
        first = await build(0)
        reading = first.read(zipped=False)
        next(reading)
        await build(1)
        await build(2)
        assert await build(0) is first  # read most recently
        await build(3)
        assert [bodies.find(key, "now") is not None for key in range(4)] == [True, False, True, True]
        for key in (4, 5, 6):
            await build(key)
        with pytest.raises(DroppedError):
            list(reading)

    asyncio.run(run())


def test_dropped_body_is_not_complete() -> None:
    """If a body is dropped while it is sent, the connection is aborted, so that no client takes it for complete."""
    body = make_body(CONTENT)
    connection = Connection(3, body.shared.drop)
    chunks = connection.request(body, zipped=True)
    assert len(chunks) == 3
    assert connection.aborted
    assert all(message.get("more_body", True) for message in connection.sent)


def test_left_connection_costs_nothing() -> None:
    """Once the client has left, no further chunk is made."""
    assert len(Connection(2).request(make_body(CONTENT), zipped=False)) == 2


def test_stamped_bodies_share_their_beginning() -> None:
    """Requests share what was built for a state, but each has the status of its own moment, plain and compressed."""
    bodies, built = StampedBodies(ResponseBodies(), "states"), []

    async def request(state: int, now: int) -> Any:
        def prepare() -> Any:
            built.append(state)
            return lambda: b'{"state":%d' % state

        body = await bodies.get(state, prepare, lambda: b'{"now":%d}' % now)
        plain = b"".join(body.read(zipped=False))
        assert gzip.decompress(b"".join(body.read(zipped=True))) == plain
        return plain

    async def run() -> None:
        assert [await request(1, 1), await request(1, 2)] == [b'{"state":1,"now":1}', b'{"state":1,"now":2}']
        assert [await request(2, 3), await request(1, 4)] == [b'{"state":2,"now":3}', b'{"state":1,"now":4}']
        assert built == [1, 2, 1]

    asyncio.run(run())
