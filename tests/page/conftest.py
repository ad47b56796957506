"""A town on the session's Kafka, the page that shows it, and Debian's Chromium to look at it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from monitor.client.subscriber import Subscriber
from monitor.errors import UnreachableError
from monitor.page.server import Page
from tests.needed_programs import report_missing
from tests.page.world import Town, make_town
from tests.shared_kafka import SharedKafka

CHROMIUM = Path("/usr/bin/chromium")
BEAT_SECONDS = 0.2


OpenPage = Callable[..., Page]
"""The type of the fixture `open_page`: its arguments are a town and, by name, settings of the page."""


@pytest.fixture
def town(kafka: SharedKafka, tmp_path: Path) -> Iterator[Town]:
    """An empty town."""
    town = make_town(kafka, tmp_path)
    yield town
    town.producer.close(timeout=5)


@pytest.fixture
def open_page() -> Iterator[OpenPage]:
    """A function that serves the page of a town until the end of the test."""
    with ExitStack() as stack:
        yield lambda town, **settings: stack.enter_context(serve(town, **settings))


def serve(town: Town, **settings: Any) -> Page:
    """Return a page that is not yet served."""
    return Page(town.with_page(**settings), town.clock, BEAT_SECONDS)


def fail_once(
    monkeypatch: pytest.MonkeyPatch, applies: Callable[[Subscriber], bool] = lambda _subscriber: True
) -> threading.Event:
    """Let Kafka not confirm the id of the topic once, to a subscriber to which this applies. The event is set then."""
    confirm, failed = Subscriber.require_same_topic, threading.Event()

    def require_same_topic(subscriber: Subscriber) -> None:
        if not failed.is_set() and applies(subscriber):
            failed.set()
            raise UnreachableError("planted")
        confirm(subscriber)

    monkeypatch.setattr(Subscriber, "require_same_topic", require_same_topic)
    return failed


def require_chromium() -> None:
    """Skip the test if Chromium is missing. In CI it fails."""
    if not CHROMIUM.exists():
        report_missing("Chromium (no /usr/bin/chromium)", "make test-tools")
