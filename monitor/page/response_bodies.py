"""Bodies of responses, built at most once for each state. All of them together have a limited size.

A body is stored once, compressed, and all responses with this body read the same bytes. A client that does not accept
gzip gets them decompressed, one chunk at a time. They are sent only as fast as the client reads.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import zlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

CHUNK: Final = 16_384
"""The most bytes that are given to a connection at a time. The next ones follow once the client has read."""
MOST_BYTES: Final = 64_000_000
"""The most bytes that `ResponseBodies` keeps, and so the most that wait for clients in its bodies."""
LEVEL: Final = 5
GZIP: Final = 31  # zlib's window bits for a gzip header, with the largest window
_LEAST_GZIP: Final = 1_024
_COMPRESSED_CHUNK: Final = 4_096


class DroppedError(Exception):
    """The bytes of a body were dropped to make space for others, so its responses end."""


class SharedBytes:
    """Bytes that many responses read, until `drop` frees them."""

    def __init__(self, content: bytes) -> None:
        self._content: bytes | None = content
        self.size = len(content)

    def read(self) -> Iterator[bytes]:
        """Yield the bytes in chunks.

        Raises:
            DroppedError: they were dropped.
        """
        for start in range(0, self.size, CHUNK):
            if self._content is None:
                raise DroppedError
            yield self._content[start : start + CHUNK]

    def drop(self) -> None:
        """Free the memory, also if responses still read the bytes."""
        self._content = None


@dataclass(frozen=True, slots=True)
class Body:
    """A body: its shared bytes, then `end`, which only this response has. `zipped`: whether these are compressed.

    `length` is the number of bytes without compression, and `tag` the strong ETag without quotes.
    """

    shared: SharedBytes
    zipped: bool
    length: int
    tag: str
    end: bytes = b""

    @property
    def stored(self) -> int:
        """The number of bytes as stored."""
        return self.shared.size + len(self.end)

    def read(self, *, zipped: bool) -> Iterator[bytes]:
        """Yield the body in chunks, as stored if `zipped` is that of the body, and otherwise decompressed.

        Raises:
            DroppedError: the bytes were dropped.
        """
        stored = chain(self.shared.read(), cut([self.end]))
        return stored if zipped == self.zipped else _decompress(stored)


def make_body(content: bytes) -> Body:
    """Return a body with its ETag, which is the same for the same content. A short one is not compressed."""
    zipped = len(content) >= _LEAST_GZIP
    stored = gzip.compress(content, LEVEL, mtime=0) if zipped else content
    return Body(SharedBytes(stored), zipped, len(content), hashlib.sha256(content).hexdigest()[:32])


def cut(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes of all parts in chunks of at most CHUNK bytes. Short parts are joined."""
    short: list[bytes] = []
    size = 0
    for part in parts:
        if size and size + len(part) > CHUNK:
            yield b"".join(short)
            short, size = [], 0
        if len(part) < CHUNK:
            short.append(part)
            size += len(part)
        else:
            yield from (part[start : start + CHUNK] for start in range(0, len(part), CHUNK))
    if size:
        yield b"".join(short)


def _decompress(compressed: Iterable[bytes]) -> Iterator[bytes]:
    decompressor = zlib.decompressobj(GZIP)
    for chunk in compressed:
        for start in range(0, len(chunk), _COMPRESSED_CHUNK):  # zlib copies what it has not read yet
            data = chunk[start : start + _COMPRESSED_CHUNK]
            while data:
                yield decompressor.decompress(data, CHUNK)
                data = decompressor.unconsumed_tail
    yield decompressor.flush()


class ResponseBodies:
    """The bodies of the latest states, by key, with at most `most_bytes` bytes. Use it in one event loop only.

    A body that is no longer the latest of its key is kept for the responses that still read it, until its space is
    needed: those read least recently are dropped first. One body is built at a time, so that a client that asks for
    many cannot take the processor from the others.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[tuple[Hashable, Hashable], Body] = OrderedDict()
        self._bytes = 0
        self._building = asyncio.Lock()

    async def get(self, key: Hashable, state: Hashable, prepare: Callable[[], Callable[[], bytes]]) -> Body:
        """Return the body of a key. It is built again only if `state`, which decides its content, has changed.

        `prepare` is called in the event loop, only if the body must be built. It returns the function that builds the
        body. That one is called in a thread, so it must not use values that may change.
        """
        found = self.find(key, state)
        if found is None:
            async with self._building:
                found = self.find(key, state)
                if found is None:
                    write = prepare()
                    found = self.keep(key, state, await asyncio.to_thread(lambda: make_body(write())))
        return found

    def find(self, key: Hashable, state: Hashable) -> Body | None:
        """Return the body of a key if it was built for this state, and is still kept."""
        found = self._kept.get((key, state))
        if found is not None:
            self._kept.move_to_end((key, state))
        return found

    def keep(self, key: Hashable, state: Hashable, body: Body) -> Body:
        """Keep a body, and drop others to make space for it."""
        self._kept[key, state] = body
        self._bytes += body.stored
        while self._bytes > self._most_bytes and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= oldest.stored
            oldest.shared.drop()
        return body


@dataclass(frozen=True, slots=True)
class _Beginning:
    """The beginning of a body for a state. `compressor` continues after it; each body uses a copy."""

    state: Hashable
    body: Body
    compressor: Any


class StampedBodies:
    """The bodies of one key that end with the present status. The rest is large, so it is built once for each state.

    Use it in one event loop only.
    """

    def __init__(self, bodies: ResponseBodies, key: str) -> None:
        self._bodies, self._key = bodies, key
        self._beginning: _Beginning | None = None
        self._lock = asyncio.Lock()

    async def get(
        self, state: Hashable, prepare: Callable[[], Callable[[], bytes]], report: Callable[[], bytes]
    ) -> Body:
        """Return the present body.

        `state` and `prepare` are as in `ResponseBodies.get`, for JSON without the closing brace. `report` returns the
        status as JSON.
        """
        async with self._lock:
            beginning = self._beginning
            if beginning is None or beginning.state != state or self._bodies.find(self._key, state) is None:
                beginning = self._beginning = await asyncio.to_thread(_begin, state, prepare())
                self._bodies.keep(self._key, state, beginning.body)
        end = b"," + report()[1:]
        compressor = beginning.compressor.copy()
        compressed = compressor.compress(end) + compressor.flush()
        tag = hashlib.sha256(end).hexdigest()[:32]  # the status has the position, which identifies the rest
        return replace(beginning.body, length=beginning.body.length + len(end), tag=tag, end=compressed)


def _begin(state: Hashable, write: Callable[[], bytes]) -> _Beginning:
    content, compressor = write(), zlib.compressobj(LEVEL, wbits=GZIP)
    compressed = compressor.compress(content) + compressor.flush(zlib.Z_SYNC_FLUSH)
    return _Beginning(state, Body(SharedBytes(compressed), zipped=True, length=len(content), tag=""), compressor)


class BodyResponse(Response):
    """A response whose body is sent in chunks: the next one follows once the client has read most of the last one."""

    def __init__(self, body: Body, media_type: str, headers: Mapping[str, str], *, zipped: bool) -> None:
        self._shared, self._zipped = body, zipped
        length = body.stored if zipped else body.length
        super().__init__(media_type=media_type, headers={**headers, "Content-Length": str(length)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response. `transport` in the state of the scope is the connection (`LimitedProtocol`)."""
        transport = scope["state"]["transport"]
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            for chunk in () if scope["method"] == "HEAD" else self._shared.read(zipped=self._zipped):
                if transport.is_closing():
                    break
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except DroppedError:
            transport.abort()  # a response that ended here would look complete to some clients
        if transport.is_closing():
            while (await receive())["type"] != "http.disconnect":
                pass
        else:
            await send({"type": "http.response.body", "body": b""})


def respond(request: Request, body: Body, media_type: str, caching: str, **further: str) -> Response:
    """Return a body, compressed if the client accepts that; 304 if the client has it already."""
    accepted = list_accepted(request.headers.get("accept-encoding", ""))
    zipped = body.zipped and not {"gzip", "x-gzip"}.isdisjoint(accepted)
    tag = f'"{body.tag}-gzip"' if zipped else f'"{body.tag}"'
    headers = {"Cache-Control": caching, "ETag": tag, "Vary": "Accept-Encoding", **further}
    wanted = {part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")}
    if tag in wanted:
        return Response(status_code=304, headers=headers)
    if zipped:
        headers["Content-Encoding"] = "gzip"
    return BodyResponse(body, media_type, headers, zipped=zipped)


def list_accepted(header: str) -> list[str]:
    """Return the values of a header such as Accept-Language, in lower case, the preferred ones first.

    Those with a weight of 0 are left out. An invalid weight counts as 0.
    """
    weighed = []
    for position, part in enumerate(header[:1_000].lower().split(",")):
        value, _, parameter = part.partition(";")
        name, _, weight = parameter.strip().partition("=")
        with suppress(ValueError):
            if (number := float(weight) if name == "q" else float(not parameter)) > 0:
                weighed.append((-number, position, value.strip()))
    return [value for _weight, _position, value in sorted(weighed)]
