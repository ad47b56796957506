"""Many subscribers of the stream: all get every event, memory stays flat, and a slow one is cut off without harm."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from monitor.contracts.instants import format_instant
from monitor.tools.page.protocol import LimitedProtocol
from monitor.tools.page.server import Page
from tests.conftest import Eventually
from tests.tools.page.conftest import OpenPage
from tests.tools.page.test_http import get
from tests.tools.page.world import FIRST, Town, get_feed, get_loop

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


def test_slow_subscriber_is_cut(
    town: Town, open_page: OpenPage, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A subscriber that reads nothing is cut off once its buffers are full, and the page still answers."""
    monkeypatch.setattr(LimitedProtocol, "stalled_seconds", 0.5)
    town.publish(FIRST)
    page = open_page(town)
    address = urlsplit(page.url)
    hub = get_feed(page).hub
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        slow.connect((address.hostname, address.port))
        slow.sendall(b"GET /v1/stream HTTP/1.1\r\nHost: x\r\n\r\n")
        eventually(lambda: len(hub) == 1)
        event = b"event: filler\ndata: " + b"x" * 200_000 + b"\n\n"

        def send() -> bool:
            get_loop(page).call_soon_threadsafe(hub.publish, event)
            return len(hub) == 0

        eventually(send)
    assert get(page, "/v1/locations").status == 200
