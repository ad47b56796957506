"""The records that the page reads: with them it knows what the test vectors of docs/vectors/answers.json expect."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from monitor.client.known_at_a_moment import KnownPlaces
from monitor.client.state_from_records import SubscriberView
from monitor.client.topic_consumer import Published
from monitor.config.registry import Locations
from monitor.kinds.locations import Registry
from monitor.page.current_places import Present
from monitor.page.kept_records import Board
from monitor.page.public_records import Entry, read_entries
from monitor.time.clock import SteppedClock
from monitor.time.instants import DAY, SECOND, parse_instant
from tests.builders import build_parameters
from tests.client.test_vectors import VECTORS, describe, parse_times


def make_consumed(record: dict[str, Any], offset: int) -> Published:
    """Return a CloudEvent of a vector as a consumer gives it."""
    data = record["data"]
    value = data if isinstance(data, str) else json.dumps(data)
    key = record["id"].rpartition("/")[0].encode()
    return Published((("ce_type", record["type"].encode()),), value.encode(), 0, offset, key)


def refold(entries: list[Entry], registry: Registry, keep: int) -> SubscriberView:
    """Return the view of a client that begins with the present records."""
    view = SubscriberView(registry, keep)
    for entry in entries:
        view.add([("ce_type", entry.type.encode())], entry.value)
    return view


@pytest.mark.promise(2)
@pytest.mark.parametrize("name", sorted({*VECTORS} - {"upper_bound"}))  # the page leaves upper bounds out
def test_page_passes_vectors(name: str) -> None:
    """The page knows what each vector expects. From its present records, a client learns the same states."""
    vector, offsets = VECTORS[name], count()
    registry, clock = Registry(tuple(vector["locations"]), 1), SteppedClock(0)
    slot, final_for = vector["slot_seconds"] * SECOND, vector["final_for_seconds"] * SECOND
    keep = max(final_for, 24 * slot)
    board = Board(7 * DAY, 10**9, keep)
    parameters, locations = build_parameters(registry.ids), Locations(registry.ids)
    present = Present(parameters, locations, board, SubscriberView(registry, keep), clock, 0)
    for step in vector["steps"]:
        for record in (one for one in step.get("records", ()) if not one.get("aborted")):
            entries, _foreign = read_entries([make_consumed(record, next(offsets))])
            present.deliver(entries)
        if "at" in step:
            clock.move_to(parse_instant(step["at"]))
        known = KnownPlaces(present.view, slot, clock.now, final_for)
        reopened = KnownPlaces(refold(board.find_state(), registry, keep), slot, clock.now, final_for)
        for place, expected in step.get("known", {}).items():
            assert describe(known.get(place)) == parse_times(expected), (place, step["at"])
            again, wanted = describe(reopened.get(place)), parse_times(expected)
            assert (again["state"], again["reason"]) == (wanted["state"], wanted["reason"]), (place, step["at"])
            assert again.get("last_alarm", {}).get("as_of") == wanted.get("last_alarm", {}).get("as_of"), place
