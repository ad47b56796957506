"""Clients that attack the page: they ask for much, do not read, or come in great numbers. On a real Kafka."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from monitor.page import app, server
from monitor.page.protocol import LimitedProtocol
from monitor.page.server import Page
from monitor.time.instants import format_instant
from tests.conftest import Eventually
from tests.page.conftest import OpenPage
from tests.page.test_http import get
from tests.page.test_metrics import request, scrape
from tests.page.world import FIRST, Town, get_feed, get_loop

UNREAD = 60
BIG = 10_000_000
"""Bytes of the body that the attackers ask for."""
FILLER = b"event: filler\ndata: %s\n\n" % (b"x" * (BIG // 2))
MOST_KIB = 100_000
"""KiB that unread responses may cost: 25 % of what a copy for each client would take."""
SUBSCRIBERS = 1_000
TICKS = 8
MOST_GROWTH = 40_000
"""KiB: 1,000 connections of both sides in this process, with their buffers."""
FLAT = 4_000
"""KiB that the memory may grow while events are sent: Python's free lists, and the kept records."""


def read_memory() -> int:
    """Return the resident memory of this process in KiB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0])


def connect(page: Page, receive_buffer: int = 0) -> socket.socket:
    """Return a connection, with a receive buffer of this size (0: the system's)."""
    address, client = urlsplit(page.url), socket.socket()
    if receive_buffer:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    client.settimeout(5)
    client.connect((address.hostname, address.port))
    return client


def write_map(folder: Path) -> Path:
    """Write a map of BIG bytes, and return its path."""
    file = folder / "map.geojson"
    file.write_text(json.dumps({"type": "FeatureCollection", "features": [], "note": "x" * BIG}))
    return file


@contextmanager
def ask_without_reading(page: Page, path: str) -> Iterator[None]:
    """Open many connections that request a path, and read only the beginning of the response."""
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(page, 4_096)) for _ in range(UNREAD)]
        for client in clients:
            client.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode())
        for client in clients:
            assert client.recv(15) == b"HTTP/1.1 200 OK"
        yield


def publish_filler(page: Page) -> None:
    """Send an event of half of BIG bytes to all subscribers."""
    get_loop(page).call_soon_threadsafe(get_feed(page).hub.publish, FILLER)


@pytest.mark.parametrize("path", ["/v1/background.geojson", "/v1/stream"])
def test_unread_responses_share_memory(town: Town, open_page: OpenPage, tmp_path: Path, path: str) -> None:
    """Clients that ask for a large answer or a stream and do not read it share its bytes, however many they are."""
    town.publish(FIRST)
    page = open_page(town, background=write_map(tmp_path), subscribers=UNREAD)
    before = read_memory()
    with ask_without_reading(page, path):
        publish_filler(page)
        for _ in range(20):  # the events are given to the connections before these requests
            assert get(page, "/v1/locations").status == 200
        growth = read_memory() - before
    print(f"{UNREAD} unread responses of {path}: {growth:,} KiB")
    assert growth < MOST_KIB


def test_resumed_streams_share_records(town: Town, open_page: OpenPage) -> None:
    """Subscribers that resume get the lines of the kept records, not copies of them."""
    town.publish(FIRST)
    page = open_page(town)
    feed = get_feed(page)
    position = f"{feed.board.topic_id}/0:0"
    lines = {id(entry.line) for entry in feed.board.find_state()}
    sent = {id(part) for part in feed.resume(position)}
    assert len(lines & sent) > 10


def test_history_stops_nobody(
    town: Town, open_page: OpenPage, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a history is written, all other requests are answered, and no second one. All who wait for one share it."""
    begun, go_on = [], threading.Event()

    def prepare_slowly(*_arguments: object) -> Callable[[], bytes]:
        def write() -> bytes:
            begun.append(1)
            assert go_on.wait(20)
            return b"{}"

        return write

    monkeypatch.setattr(app, "prepare_history", prepare_slowly)
    town.publish(FIRST)
    page = open_page(town)
    places = ("market", "market", "clinic", "market")
    with ThreadPoolExecutor(len(places)) as pool:
        asked = [pool.submit(get, page, f"/v1/locations/{place}/history") for place in places]
        try:
            eventually(lambda: begun)
            assert all(get(page, path).status == 200 for path in ("/", "/v1/locations", "/v1/records"))
            assert begun == [1]
        finally:
            go_on.set()
        assert [each.result().status for each in asked] == [200] * 4
    assert len(begun) == 2


def test_flood_leaves_health_alone(town: Town, open_page: OpenPage) -> None:
    """Above its limit, an address gets no further connection. The health, on its own address, still answers."""
    town.publish(FIRST)
    page = open_page(town, connections_per_address=20, metrics_port=0)
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(page)) for _ in range(60)]
        assert clients[59].recv(1) == b""
        assert [request(page, path)[0] for path in ("/healthz", "/readyz")] == [200, 200]
        with pytest.raises(OSError):  # noqa: PT011  # reset, or closed without a response
            get(page, "/")
        assert scrape(page)["connections_refused_total", ("address",)] >= 40
    assert get(page, "/").status == 200


def test_all_connections_are_limited(town: Town, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit of all connections, a connection is closed at once, so that it takes no file for long."""
    monkeypatch.setattr(server, "_OTHER_CONNECTIONS", 5)
    page = open_page(town, subscribers=5)
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(page)) for _ in range(20)]
        assert [client.recv(1) for client in clients[10:]] == [b""] * 10


def test_slow_reader_gets_everything(
    town: Town, open_page: OpenPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that reads slowly, but does read, gets the whole answer, although it takes longer than a stall may."""
    monkeypatch.setattr(LimitedProtocol, "stalled_seconds", 3.0)
    town.publish(FIRST)
    page = open_page(town, background=write_map(tmp_path))
    began, total, seconds = time.monotonic(), 0, 1.2 * LimitedProtocol.stalled_seconds
    with connect(page, 4_096) as client:
        client.sendall(b"GET /v1/background.geojson HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        while part := client.recv(BIG // 500):
            total += len(part)
            while time.monotonic() - began < seconds * total / BIG:  # a busy machine does not make it slower
                assert get(page, "/v1/openapi.json").status == 200
    assert time.monotonic() - began > LimitedProtocol.stalled_seconds
    assert total > BIG


async def subscribe(page: Page, query: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a stream, and read until its first event."""
    address = urlsplit(page.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=1 << 16)
    writer.write(f"GET /v1/stream{query} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    await reader.readuntil(b"event: beat")
    return reader, writer


async def read_ticks(reader: asyncio.StreamReader, wanted: bytes) -> None:
    """Read until an event contains some bytes."""
    kept = b""
    while wanted not in kept:
        part = await reader.read(1 << 16)
        assert part, "the stream ended"
        kept = kept[-200:] + part


async def follow(page: Page, town: Town) -> tuple[int, int, float]:
    """Open all streams and publish ticks. Return the growth of memory by the streams and by the ticks, and seconds."""
    before = read_memory()
    streams = []
    for _ in range(0, SUBSCRIBERS, 50):
        streams += await asyncio.gather(*(subscribe(page, query) for query in 25 * ("", "?states=1")))
    opened = read_memory()
    began = time.monotonic()
    for tick in range(FIRST + 1, FIRST + 1 + TICKS):
        await asyncio.to_thread(town.publish, tick)
        record = f'"places/station-central/{tick}"'.encode()
        state = f'"end":"{format_instant(town.parts.parameters.grid.as_of(tick))}"'.encode()
        wanted = (record, state)
        await asyncio.gather(*(read_ticks(reader, wanted[n % 2]) for n, (reader, _writer) in enumerate(streams)))
        if tick == FIRST + 2:
            opened = max(opened, read_memory())
    seconds = time.monotonic() - began
    after = read_memory()
    for _reader, writer in streams:
        writer.close()
    return opened - before, after - opened, seconds


def test_thousand_subscribers(town: Town, open_page: OpenPage) -> None:
    """1,000 subscribers get the records or the states of every tick, and the memory does not grow with the ticks."""
    town.publish(FIRST)
    page = open_page(town, subscribers=SUBSCRIBERS)
    growth, further, seconds = asyncio.run(follow(page, town))
    print(f"{SUBSCRIBERS} subscribers: {growth:,} KiB, then {further:,} KiB; {TICKS} ticks in {seconds:.1f} s")
    assert growth < MOST_GROWTH
    assert further < FLAT


@pytest.mark.parametrize(("stalled", "most", "cut"), [(0.5, 1, 0), (20.0, 1_000, 1)], ids=["stalled", "far behind"])
def test_slow_subscriber_is_cut(
    town: Town,
    open_page: OpenPage,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
    stalled: float,
    most: int,
    cut: int,
) -> None:
    """A subscriber that reads nothing is cut off, by time or by its full queue, which is counted. The page answers."""
    monkeypatch.setattr(LimitedProtocol, "stalled_seconds", stalled)
    town.publish(FIRST)
    page = open_page(town, metrics_port=0)
    hub = get_feed(page).hub
    with connect(page, 4_096) as slow:
        slow.sendall(b"GET /v1/stream HTTP/1.1\r\nHost: x\r\n\r\n")
        eventually(lambda: len(hub) == 1)
        left = iter(range(most))

        def send() -> bool:
            if next(left, None) is not None:
                publish_filler(page)
            return len(hub) == 0

        eventually(send)
    assert scrape(page)["subscribers_cut_total", ()] == cut
    assert get(page, "/v1/locations").status == 200
