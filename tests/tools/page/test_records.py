"""The bodies with records, the stream and the CSV, without Kafka and without a server."""

from __future__ import annotations

import asyncio
import csv
import gzip
import io
import json
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from monitor.config import Location
from monitor.contracts.clock import SteppedClock
from monitor.contracts.instants import DAY, SECOND, format_instant
from monitor.tools.client.known import NOTHING
from monitor.tools.client.subscriber_view import SubscriberView
from monitor.tools.page.answers import write_locations_csv
from monitor.tools.page.app import Site
from monitor.tools.page.board import Board
from monitor.tools.page.bodies import Bodies, Body
from monitor.tools.page.entries import Entry, read_entries
from monitor.tools.page.feed import Feed
from monitor.tools.page.hub import Hub
from monitor.tools.page.places import Place
from monitor.tools.page.records import Records
from tests.tools.client.records import REGISTRY, SLOTS, over_time


def read(tick: int) -> Entry:
    """Return a record as the page reads it."""
    record = over_time("market", tick, 0)
    source = SimpleNamespace(headers=record.headers, key=record.key, value=record.value, partition=0, offset=tick)
    (entry,), _foreign = read_entries([source])
    return entry


def make_feed() -> Feed:
    """Return a feed with the record of tick 6."""
    feed = Feed(Board(7 * DAY, 10**9), SubscriberView(REGISTRY), Hub(9), SteppedClock(SLOTS.as_of(6)), lambda: 0.0)
    feed.deliver("T", [read(6)], {0: 7})
    return feed


def read_plain(body: Body) -> bytes:
    return b"".join(body.read(zipped=False))


def test_present_records_are_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests share the records until a record comes, but each has the present time, plain and compressed."""
    feed = make_feed()
    records = Records(feed, Bodies())

    async def request() -> dict[str, Any]:
        body = await records.prepare_present()
        assert gzip.decompress(b"".join(body.read(zipped=True))) == read_plain(body)
        content: dict[str, Any] = json.loads(read_plain(body))
        return content

    async def requests() -> None:
        first = await request()
        feed.clock = SteppedClock(SLOTS.as_of(6) + 5 * SECOND)
        with monkeypatch.context() as patched:
            patched.setattr(feed.board, "find_state", None)  # it cannot be called
            feed.deliver("T", [], {0: 9})  # a position without a record for subscribers
            assert await request() == first | {"now": format_instant(feed.clock.now())}
        feed.deliver("T", [read(7)], {0: 10})
        third = await request()
        assert (third["position"], third["as_of"]) == ("T/0:10", format_instant(SLOTS.as_of(7)))
        assert [record["value"]["tick"] for record in third["records"]] == [7]

    asyncio.run(requests())


def test_past_records_have_no_position() -> None:
    """The records of an earlier state have neither a time nor a position. They are the latest ones until then."""
    feed = make_feed()
    feed.deliver("T", [read(7)], {0: 8})
    content = json.loads(read_plain(asyncio.run(Records(feed, Bodies()).prepare_past(SLOTS.as_of(6)))))
    assert [record["value"]["tick"] for record in content.pop("records")] == [6]
    assert content == {}


def test_cut_connection_leaves_no_subscription() -> None:
    """A stream is a subscription only while it is sent: if its client leaves before, nothing stays."""
    feed: Any = make_feed()
    site: Any = Site(SimpleNamespace(feed=feed), None, None, None, lambda: None)  # type: ignore[arg-type]  # not used
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/v1/stream",
        "raw_path": b"/v1/stream",
        "query_string": b"",
        "headers": [],
    }

    async def request() -> None:
        response = await site.stream(Request(scope))
        assert len(feed.hub) == 0
        stream = response.body_iterator
        await anext(stream)
        assert len(feed.hub) == 1
        await stream.aclose()
        assert len(feed.hub) == 0

    asyncio.run(request())


@pytest.mark.parametrize("name", ["=1+1", "a;=1+1", 'a;"=1+1', "a\t@x", "a\r\n-1", "a, +1", " =1"])
def test_csv_has_no_formula(name: str) -> None:
    """No cell begins with a formula, also not in a spreadsheet that separates cells by semicolons or tabs."""
    place = Place(Location(id="x", name=name), NOTHING, ())
    row = next(csv.DictReader(io.StringIO(write_locations_csv([place]).decode(), newline="")))
    for separator in (";", "\t", ",", "\n", "\r"):
        cells = [cell.strip().strip('"').strip() for cell in row["name"].split(separator)]
        assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]
    assert row["name"].replace("'", "") == name
