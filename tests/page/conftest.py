"""A town on the session's Kafka, the page that shows it, and Debian's Chromium to look at it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from monitor.client.topic_consumer import Subscriber
from monitor.errors import UnreachableError
from monitor.page.page_threads import Page
from monitor.page.serve import FolderServer
from tests.kit.waiting import until
from tests.needed_programs import report_missing
from tests.page.world import Town, make_town
from tests.shared_kafka import SharedKafka

CHROMIUM = Path("/usr/bin/chromium")


@dataclass
class Served:
    """A page in a folder, and the server of this folder."""

    page: Page
    server: FolderServer

    @property
    def url(self) -> str:
        """The address of the page."""
        return self.server.url

    @property
    def metrics_url(self) -> str:
        """The address of the page's own metrics."""
        return self.page.metrics_url

    def read(self, name: str) -> bytes:
        """Return the content of a file of the page."""
        return (self.page.folder.path / name).read_bytes()

    def read_json(self, name: str) -> Any:
        """Return the content of a JSON file of the page."""
        return json.loads(self.read(name))

    def list_places(self) -> dict[str, Any]:
        """Return all places by id, as in `places.json`."""
        return {place["id"]: place for place in self.read_json("places.json")["locations"]}


OpenPage = Callable[..., Served]
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


@contextmanager
def serve(town: Town, out: Path | None = None, **settings: Any) -> Iterator[Served]:
    """Write the page of a town into a folder, and serve the folder."""
    with TemporaryDirectory() as folder:
        page = Page(town.with_page(**settings), town.clock, out or Path(folder))
        with page, FolderServer(page.folder.path, "localhost", 0) as server:
            until((page.folder.path / "places/market.json").exists, 60)
            yield Served(page, server)


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
