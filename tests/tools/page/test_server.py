"""The HTTP server of the page ends by itself: the command notices, and nothing hangs. On a real Kafka."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from monitor.errors import FailedError
from monitor.tools.page import reader
from monitor.tools.page.command import page_command
from tests.conftest import Eventually
from tests.tools.page.conftest import serve
from tests.tools.page.world import FIRST, Town


@pytest.fixture
def end(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """An event that makes every HTTP server end by itself."""
    end = threading.Event()

    async def main_loop(_server: uvicorn.Server) -> None:
        await asyncio.to_thread(end.wait)

    monkeypatch.setattr(uvicorn.Server, "main_loop", main_loop)
    yield end
    end.set()


def test_ended_server_ends_the_command(town: Town, end: threading.Event, tmp_path: Path) -> None:
    """If the HTTP server ends by itself, the command ends with an error that says what to do."""
    town.publish(FIRST)
    environment = {
        "LOCATION_MONITOR__KAFKA__BOOTSTRAP_SERVERS": ",".join(town.parts.kafka.bootstrap_servers),
        "LOCATION_MONITOR__KAFKA__TOPICS__ALERTS": town.topic,
        "LOCATION_MONITOR__PAGE__PORT": "0",
    }
    stop = threading.Event()
    deadline = threading.Timer(20, stop.set)
    deadline.start()
    try:
        with pytest.raises(FailedError, match=r"ended by itself.*Start the page again"):
            page_command(tmp_path / "demo.yaml", environment, stop, nullcontext, lambda _line: end.set())
    finally:
        deadline.cancel()


def test_late_delivery_hangs_nothing(
    town: Town, end: threading.Event, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delivery that comes when the event loop has stopped is dropped, and the page can be closed."""
    monkeypatch.setattr(reader, "ASK_SECONDS", 0.1)
    town.publish(FIRST)
    page = serve(town).__enter__()
    loop: Any = page._loop
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
    end.set()
    assert delivered.wait(20)
    closing = threading.Thread(target=page.close, daemon=True)
    closing.start()
    eventually(lambda: not closing.is_alive(), 20)
