"""Records of the output topic that the service did not write: the page passes them. On a real Kafka."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from monitor.contracts.alerts import AT_TIMES, OVER_TIME
from monitor.contracts.instants import MILLISECOND
from monitor.errors import FailedError
from monitor.tools.client.subscriber import Subscriber
from monitor.tools.page.command import page_command
from monitor.tools.page.feed import Feed
from tests.conftest import Eventually
from tests.tools.page.conftest import OpenPage
from tests.tools.page.test_http import by_id
from tests.tools.page.test_metrics import request, scrape
from tests.tools.page.world import FIRST, Town

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


@pytest.mark.filterwarnings("ignore:Exception in thread reader")
@pytest.mark.parametrize("where", ["reader", "server"])
def test_ended_reader_ends_the_command(town: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """If a record cannot be read or shown for a reason that nobody foresaw, the command ends with an error.

    Then its supervisor starts it again. Without the record, a place that has an alarm could look safe.
    """
    town.publish(FIRST)
    environment = {
        "LOCATION_MONITOR__KAFKA__BOOTSTRAP_SERVERS": ",".join(town.parts.kafka.bootstrap_servers),
        "LOCATION_MONITOR__KAFKA__TOPICS__ALERTS": town.topic,
        "LOCATION_MONITOR__PAGE__PORT": "0",
    }

    def break_and_publish(_line: str) -> None:
        if where == "reader":
            monkeypatch.setattr(Subscriber, "poll", fail)
        else:
            monkeypatch.setattr(Feed, "deliver", fail)
        town.publish(FIRST + 1)

    stop = threading.Event()
    deadline = threading.Timer(20, stop.set)
    deadline.start()
    try:
        with pytest.raises(FailedError, match=rf"the .*{where}.* of the page has ended by itself"):
            page_command(tmp_path / "demo.yaml", environment, stop, nullcontext, break_and_publish)
    finally:
        deadline.cancel()
