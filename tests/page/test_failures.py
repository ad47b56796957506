"""Parts of the page that fail: the command notices, and nothing hangs. Records that cannot be read do not stop it."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from monitor.client.topic_consumer import Subscriber
from monitor.errors import FailedError
from monitor.kinds.at_times.record import AT_TIMES
from monitor.kinds.over_time.record import OVER_TIME
from monitor.page.current_places import Present
from monitor.page.run_page import Target, page_command
from monitor.page.serve import FolderServer
from monitor.page.site_files import SiteFiles
from monitor.time.instants import MILLISECOND
from tests.conftest import Eventually
from tests.page.conftest import OpenPage
from tests.page.test_metrics import request, scrape
from tests.page.world import FIRST, Town

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


def test_foreign_records_are_passed(town: Town, open_page: OpenPage, eventually: Eventually) -> None:
    """A page that starts with foreign records in the topic, and gets more, counts them and shows what follows."""
    town.publish(FIRST)
    poison(town)
    page = open_page(town, metrics_port=0)
    foreign = 2 * len((*VALUES, None))
    assert scrape(page)["foreign_records_total", ()] == foreign
    assert page.list_places()["clinic"]["state"] == "safe"
    poison(town)
    town.publish(FIRST + 1, {"market": 12})
    eventually(lambda: page.list_places()["market"]["state"] == "noisy_count")
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
        ("writer", Present, "deliver", fail),
        ("writer", SiteFiles, "write", fail),
        ("server", FolderServer, "has_ended", True),
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

    stop, target = threading.Event(), Target(address=("localhost", 0))
    deadline = threading.Timer(20, stop.set)
    deadline.start()
    try:
        with pytest.raises(FailedError, match=rf"the .*{thread}.* ended by itself.*Start the page again"):
            page_command(tmp_path / "demo.yaml", town.environment, target, stop, nullcontext, break_and_publish)
    finally:
        deadline.cancel()
