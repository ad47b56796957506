"""The states and records that clients receive, the stream and the CSV, without Kafka and without a server."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from monitor.client.current_answers import NOTHING, Answer
from monitor.client.subscriber_view import SubscriberView
from monitor.config import Location, Locations
from monitor.page.answers import write_locations_csv
from monitor.page.app import Site
from monitor.page.board import Board
from monitor.page.current_places import Place, Present, Snapshot
from monitor.page.entries import Entry, read_entries
from monitor.page.feed import Feed, Hub
from monitor.page.states import States, write_states
from monitor.time.clock import SteppedClock
from monitor.time.instants import DAY, SECOND, format_instant
from tests.client.records import REGISTRY, SLOTS, over_time
from tests.kit.signed import publish


def read(tick: int) -> Entry:
    """Return a record as the page reads it."""
    (entry,), _foreign = read_entries(publish([over_time("market", tick, 0)]))
    return entry._replace(offset=tick)


def make_present() -> Present:
    """Return what is known from the record of tick 6, at its as_of."""
    feed = Feed(Board(7 * DAY, 10**9), SubscriberView(REGISTRY), Hub(9), SteppedClock(SLOTS.as_of(6)), lambda: 0.0)
    feed.deliver("T", [read(6)], {0: 7})
    locations = Locations(REGISTRY.ids)
    parameters: Any = SimpleNamespace(registry=REGISTRY, grid=SLOTS)
    return Present(parameters, locations, feed, SECOND)


def read_states(event: bytes) -> dict[str, Any]:
    """Return the data of an event with states."""
    head, data = event.split(b"\n")[:2]
    assert head == b"event: states"
    content: dict[str, Any] = json.loads(data.removeprefix(b"data: "))
    return content


def test_states_are_sent_when_they_change() -> None:
    """Subscribers of states receive all states when one may have changed, also because an answer has expired."""
    present = make_present()
    states, feed = States(present), present.feed
    subscription, others = feed.hub.subscribe("states", ()), feed.hub.subscribe("records", ())

    async def receive() -> list[dict[str, Any]]:
        await states.publish()
        events = [subscription.queue.get_nowait() for _ in range(subscription.queue.qsize())]
        return [read_states(event) for event in events if event and not event.startswith(b"event: beat")]

    async def run() -> None:
        [first] = await receive()
        assert [(one["state"], one["rows"]) for one in first["answers"]] == [("safe", [0, 0])]
        assert (first["position"], first["registry"]) == ("T/0:7", REGISTRY.digest)
        assert await receive() == []
        feed.deliver("T", [read(7)], {0: 8})
        [second] = await receive()
        assert (second["position"], second["as_of"]) == ("T/0:8", format_instant(SLOTS.as_of(7)))
        feed.clock = SteppedClock(SLOTS.as_of(9) + 1)
        [third] = await receive()
        assert [(one["state"], one["reason"]) for one in third["answers"]] == [("unknown", "too_old")]
        sent = [others.queue.get_nowait() for _ in range(others.queue.qsize())]
        assert not [event for event in sent if event and b"event: states" in event]

    asyncio.run(run())


def test_equal_answers_are_written_once() -> None:
    """Each different answer has the runs of rows that it is about; a place without an answer is in no run."""
    safe, alarm = Answer("safe", "below_threshold", 0, 1, 9), Answer("noisy_count", "noisy", 0, 1, 12)
    found = [(safe,), (safe,), (safe, alarm), (), (safe,), (alarm,)]
    places = [Place(Location(id=str(row)), NOTHING, answers) for row, answers in enumerate(found)]
    written = json.loads(write_states(places) + b"}")["answers"]
    assert [(one["state"], one["rows"]) for one in written] == [("safe", [0, 2, 4, 4]), ("noisy_count", [2, 2, 5, 5])]


@pytest.mark.parametrize("query", [b"", b"states=1"])
def test_cut_connection_leaves_no_subscription(query: bytes) -> None:
    """A stream is a subscription only while it is sent: if its client leaves before, nothing stays."""
    present = make_present()
    site: Any = Site(present, None, None, None, None)  # type: ignore[arg-type]  # not used
    path = "/v1/stream"
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "headers": [],
    }

    async def request() -> None:
        response = await site.stream(Request(scope))
        hub = present.feed.hub
        assert len(hub) == 0
        stream = response.body_iterator
        await anext(stream)
        assert len(hub) == 1
        await stream.aclose()
        assert len(hub) == 0

    asyncio.run(request())


@pytest.mark.parametrize("name", ["=1+1", "a;=1+1", 'a;"=1+1', "a\t@x", "a\r\n-1", "a, +1", " =1"])
def test_csv_has_no_formula(name: str) -> None:
    """No cell begins with a formula, also not in a spreadsheet that separates cells by semicolons or tabs."""
    place = Place(Location(id="x", name=name), NOTHING, ())
    row = next(csv.DictReader(io.StringIO(write_locations_csv(Snapshot(places=[place])).decode(), newline="")))
    for separator in (";", "\t", ",", "\n", "\r"):
        cells = [cell.strip().strip('"').strip() for cell in row["name"].split(separator)]
        assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]
    assert row["name"].replace("'", "") == name
