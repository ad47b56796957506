"""Parts of the page that fail: the command notices, and nothing hangs. Records that cannot be read do not stop it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from monitor.client.subscriber import Subscriber
from monitor.errors import FailedError
from monitor.kinds.at_times.record import AT_TIMES
from monitor.kinds.over_time.record import OVER_TIME
from monitor.page import reader
from monitor.page.feed import Feed
from monitor.page.serve import page_command
from monitor.page.states import States
from monitor.time.instants import MILLISECOND
from tests.conftest import Eventually
from tests.page.conftest import OpenPage, serve
from tests.page.test_http import by_id
from tests.page.test_metrics import request, scrape
from tests.page.world import FIRST, Town, get_loop

VALUES = [
    b'{"monitor": "places", "kind": "\xff"}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"monitor": 1e999}',
    b'{"monitor": %s}' % (b"9" * 5_000),
    b'{"monitor": "\\ud800"}',
    b"\x00",
    b"{",
    b"[]",
    b"",
]


def poison(town: Town) -> None:
    """Append the foreign records, each as an alert and as a snapshot, and one without a value."""
    at = town.clock.now() // MILLISECOND
    for value in (*VALUES, None):
        for kind in (OVER_TIME, AT_TIMES):
            headers = [("ce_type", kind.encode())]
            town.producer.send(town.topic, key=b"k\xff", value=value, headers=headers, timestamp_ms=at)
    town.producer.flush(timeout=10)


def fail(*_arguments: Any) -> None:
    raise MemoryError("planted")


async def end(*_arguments: Any) -> bool:
    """End uvicorn's loop."""
    return True


def test_foreign_records_are_passed(town: Town, open_page: OpenPage, eventually: Eventually) -> None:
    """A page that starts with foreign records in the topic, and gets more, counts them and shows what follows."""
    town.publish(FIRST)
    poison(town)
    page = open_page(town, metrics_port=0)
    foreign = 2 * len((*VALUES, None))
    assert scrape(page)["foreign_records_total", ()] == foreign
    assert by_id(page)["clinic"]["state"] == "safe"
    poison(town)
    town.publish(FIRST + 1, {"market": 12})
    eventually(lambda: by_id(page)["market"]["state"] == "noisy_count")
    assert scrape(page)["foreign_records_total", ()] == 2 * foreign


@pytest.mark.filterwarnings("ignore:Exception in thread reader")
def test_ended_reader_is_unhealthy(
    town: Town, open_page: OpenPage, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the reader ends, the health is 503 and names it."""
    town.publish(FIRST)
    page = open_page(town, metrics_port=0)
    assert request(page, "/healthz")[0] == 200
    monkeypatch.setattr(Subscriber, "poll", fail)
    eventually(lambda: request(page, "/healthz")[0] == 503)
    assert "reader of the output topic" in request(page, "/healthz")[1]


@pytest.mark.filterwarnings("ignore:Exception in thread")
@pytest.mark.parametrize(
    ("thread", "owner", "method", "replacement"),
    [
        ("reader", Subscriber, "poll", fail),
        ("server", Feed, "deliver", fail),
        ("server", States, "publish", fail),
        ("server", uvicorn.Server, "on_tick", end),
    ],
)
def test_ended_part_ends_the_command(
    town: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, thread: str, owner: type, method: str, replacement: Any
) -> None:
    """If a part of the page fails for a reason that nobody foresaw, the command ends with an error.

    Then its supervisor starts it again. Without a record, a place that has an alarm could look safe.
    """
    town.publish(FIRST)

    def break_and_publish(_line: str) -> None:
        monkeypatch.setattr(owner, method, replacement)
        town.publish(FIRST + 1)

    stop = threading.Event()
    deadline = threading.Timer(20, stop.set)
    deadline.start()
    try:
        with pytest.raises(FailedError, match=rf"the .*{thread}.* ended by itself.*Start the page again"):
            page_command(tmp_path / "demo.yaml", town.environment, stop, nullcontext, break_and_publish)
    finally:
        deadline.cancel()


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """An event that makes every HTTP server end by itself."""
    ending = threading.Event()

    async def main_loop(_server: uvicorn.Server) -> None:
        await asyncio.to_thread(ending.wait)

    monkeypatch.setattr(uvicorn.Server, "main_loop", main_loop)
    yield ending
    ending.set()


def test_late_delivery_hangs_nothing(
    town: Town, ending: threading.Event, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delivery that comes when the event loop has stopped is dropped, and the page can be closed."""
    monkeypatch.setattr(reader, "ASK_SECONDS", 0.1)
    town.publish(FIRST)
    page = serve(town).__enter__()
    loop: Any = get_loop(page)
    close, call = loop.close, loop.call_soon_threadsafe
    stopped, delivered = threading.Event(), threading.Event()

    def close_late() -> None:
        stopped.set()
        assert delivered.wait(20)
        close()

    def call_soon(*arguments: Any, **options: Any) -> Any:
        handle = call(*arguments, **options)
        if stopped.is_set():
            delivered.set()
        return handle

    monkeypatch.setattr(loop, "close", close_late)
    monkeypatch.setattr(loop, "call_soon_threadsafe", call_soon)
    ending.set()
    assert delivered.wait(20)
    closing = threading.Thread(target=page.close, daemon=True)
    closing.start()
    eventually(lambda: not closing.is_alive(), 20)
