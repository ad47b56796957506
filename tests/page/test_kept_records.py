"""The kept records: the latest of each key in any order, the past, what is dropped, and what the public gets."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from typing import Any, Final

import pytest

from monitor.client.answer_types import NOTHING, About, Answer, Strength
from monitor.client.known_at_a_moment import KnownPlaces
from monitor.client.state_from_records import SubscriberView
from monitor.client.topic_consumer import Published
from monitor.config.registry import Location, Locations
from monitor.kinds.locations import Registry
from monitor.kinds.over_time.record import OVER_TIME
from monitor.page.current_places import Place, Present
from monitor.page.html import sort_places
from monitor.page.kept_records import Board
from monitor.page.public_records import Entry, read_entries
from monitor.time.clock import SteppedClock
from monitor.time.instants import DAY, SECOND, parse_instant, to_datetime
from tests.builders import build_parameters
from tests.client.test_vectors import VECTORS, describe, parse_times

VALUE = b"{}"


def entry(key: str, tick: int, kind: str = OVER_TIME) -> Entry:
    """Return a record. Ticks are a second long."""
    return Entry(kind, key, tick * 1_000_000, 0, VALUE)


def board(*entries: Entry, history: int = 10**12, most_bytes: int = 10**9, valid: int = 0) -> Board:
    """Return a board to which the records were added one by one."""
    made = Board(history, most_bytes, valid)
    for each in entries:
        made.add([each])
    return made


def find_records(kept: Board, at: int | None = None) -> list[tuple[str, int]]:
    return [(each.key, each.as_of // 1_000_000) for each in kept.find_state(None if at is None else at * 1_000_000)]


def test_state_has_latest_records() -> None:
    """The state has the latest record of each key, now or at a time. Repetitions and older ticks change nothing."""
    kept = board(entry("m/a", 1), entry("m/a", 2), entry("m/b", 2), entry("m/a", 2), entry("m/a", 1))
    assert find_records(kept) == [("m/a", 2), ("m/b", 2)]
    assert find_records(kept, at=1) == [("m/a", 1)]
    assert find_records(kept, at=0) == []
    assert kept.version == 3


def test_state_has_alarms_that_a_count_continues() -> None:
    """The state has the latest alarm of a place, and the alarms since which it counts, so that their sum is known."""

    def alarm(tick: int, since: int | None = None) -> Entry:
        start = None if since is None else since * 1_000_000
        return entry("m/a", tick)._replace(alarms=1, counted_since=start)

    kept = board(alarm(1), alarm(2), alarm(3, since=2), entry("m/a", 4), alarm(5, since=3), entry("m/a", 6))
    assert find_records(kept) == [("m/a", 2), ("m/a", 3), ("m/a", 5), ("m/a", 6)]
    assert find_records(kept, at=4) == [("m/a", 2), ("m/a", 3), ("m/a", 4)]


def test_state_has_latest_times() -> None:
    """Of the designated times of a monitor, the state has the three latest ones of each shard.

    Shard 0 has the days 1 to 5, and shard 1, which has stopped, the days 1 and 2.
    """
    keys = [f"noon/2026-01-0{day}T12:00:00Z/{shard}" for shard, days in ((0, 6), (1, 3)) for day in range(1, days)]
    kept = board(*(entry(key, 9, "org.location-monitor.at_times") for key in keys))
    assert [key for key, _tick in find_records(kept)] == sorted(keys[2:])


def test_old_records_are_dropped() -> None:
    """Records older than the history are dropped."""
    kept = board(entry("m/a", 1), entry("m/b", 2), entry("m/b", 9), history=5_000_000)
    assert find_records(kept) == [("m/b", 9)]
    assert kept.list_by_key("m/a") == ()


def test_size_is_bounded() -> None:
    """Above the limit of bytes the oldest records are dropped first."""
    kept = board(*(entry("m/a", tick) for tick in range(100)), most_bytes=5_000)
    assert find_records(kept) == [("m/a", 99)]
    assert 5 < len(kept.list_by_key("m/a")) < 15


def test_valid_alarm_outlives_limits() -> None:
    """The latest record of a key stays while it may be valid, also above the limit of bytes and beyond the history.

    Otherwise a place with an alarm of one monitor would look safe by the repeated answers of another.
    """
    for limits in ({"most_bytes": 2_000}, {"history": 5_000_000}):
        alarm, answers = entry("noon/a", 1), [entry("m/a", tick) for tick in range(2, 30)]
        kept = board(alarm, *answers, **limits, valid=30_000_000)
        assert find_records(kept) == [("noon/a", 1), ("m/a", 29)]
        assert len(kept.list_by_key("m/a")) < 10
        kept.add([entry("m/a", 32)])
        assert find_records(kept) == [("m/a", 32)]


def test_incomplete_past_is_not_shown() -> None:
    """The state at an instant is empty if a record that was valid then has been dropped; so are its ticks."""
    noon, repeated = entry("noon/a", 1), [entry("m/a", tick) for tick in range(2, 30)]
    kept = board(noon, *repeated, history=20_000_000, valid=12_000_000)
    assert kept.complete_since == 13_000_000
    assert find_records(kept, at=12) == []
    assert find_records(kept, at=13) == [("m/a", 13)]
    assert kept.ticks[0].as_of == 13_000_000


SAFE: Final = Answer(
    "safe", "below_threshold", 9 * DAY, 10 * DAY, 9, about=About("m", "over_time", None, to_datetime(DAY), 10)
)


def make_alarm(strength: Strength | None, day: int, least: int = 0) -> Answer:
    """Return an alarm about a day."""
    about = About("m", "over_time", None, to_datetime(day * DAY), 10)
    return Answer("noisy_count", "noisy", day * DAY, 10 * DAY, 20, least, about, strength=strength)


def make_place(name: str, *answers: Answer, leading: int = 0) -> Place:
    """Return a place about which these answers are known."""
    return Place(Location(id=name), answers[leading], answers)


def past(alarm: Answer, now: Answer = SAFE) -> Answer:
    """Return an answer of now with an alarm that still counts."""
    return replace(now, last_alarm=alarm)


def test_strong_and_late_alarms_come_first() -> None:
    """The strongest alarms come first, of equal ones the latest, then by name; places without an alarm by name."""
    places = [
        make_place("a", SAFE),
        make_place("b", NOTHING),
        make_place("c", make_alarm("just_above", 8)),
        make_place("d", make_alarm("far_above", 5)),
        make_place("e", past(make_alarm("far_above", 7))),
        make_place("f", make_alarm("far_above", 7)),
        make_place("g", make_alarm(None, 6)),
    ]
    assert [place.name for place in sort_places(reversed(places))] == list("efdgcba")


def test_strongest_alarm_marks_the_place() -> None:
    """Of several alarms that still count, the strongest one is the mark, and the latest one is the moment."""
    place = make_place("a", make_alarm("just_above", 8), past(make_alarm("far_above", 5)))
    assert (place.mark, place.alarmed_at) == ("far_above", 8 * DAY)
    hidden = replace(place.answers[1], state="unknown")
    assert Place(place.location, hidden, (hidden,), reachable=False).mark == "far_above"


def test_sure_alarm_is_not_called_just_above() -> None:
    """A lower bound that reaches the threshold is certain, so noise alone did not raise the alarm."""
    assert make_place("a", make_alarm("just_above", 8, least=10)).mark == "noisy_count"
    assert make_place("a", make_alarm("just_above", 8, least=9)).mark == "just_above"
    assert make_place("a", SAFE).mark == "safe"


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
