"""Upper bounds on the page: they are shown, they are never safe, and their curve has each number."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Final

from monitor.client.known_at_a_moment import KnownPlaces
from monitor.client.state_from_records import SubscriberView
from monitor.config.registry import Location
from monitor.kinds.upper_bound.keys_and_parameters import UpperBound
from monitor.page.current_places import Place, read_place
from monitor.page.history import Histories
from monitor.page.kept_records import Board
from monitor.page.public_records import read_entries
from monitor.privacy.upper_bound import BucketRule
from monitor.records.output_records import OutputRecord
from monitor.time.instants import DAY, HOUR
from tests.builders import build_parameters
from tests.client.records import REGISTRY, SLOTS, bound, over_time
from tests.kit.signed import publish

RECORDS: Final = (bound("market", 5, 2), bound("park", 5, 2), over_time("market", 5, 0))


def read(place: str, tick: int) -> Place:
    """Return what the page knows about a place at a tick, from the records."""
    view, now = SubscriberView(REGISTRY), SLOTS.as_of(tick)
    for record in RECORDS:
        view.add(record.headers, record.value)
    return read_place(Location(id=place), KnownPlaces(view, HOUR, lambda: now), now, reachable=True)


def test_bound_is_shown() -> None:
    """A place with an upper bound alone is "bounded", which is not safe, until two buckets after it."""
    assert (read("park", 5).level, read("park", 5).leading.count_at_most) == ("bounded", 4)
    assert (read("park", 9).level, read("park", 10).level) == ("bounded", "unknown")


def test_bound_decides_nothing() -> None:
    """Beside an answer that is compared with a threshold, a bound is shown and does not lead."""
    place = read("market", 5)
    assert place.level == "safe"
    assert [answer.state for answer in place.answers] == ["safe", "bounded"]


def list_periods(*records: OutputRecord) -> list[tuple[str, int | None]]:
    """Return the states and bounds of the market's history, the latest first."""
    entries, foreign = read_entries(publish(list(records)))
    assert not foreign
    board = Board(7 * DAY, 10**9)
    board.add(entries)
    row = REGISTRY.rows["market"]
    monitor = UpperBound("curve", (row,), (BucketRule(Fraction(1), 2, 4, 0),))
    histories = Histories(board, replace(build_parameters(REGISTRY.ids), monitors=(monitor,)))
    return [(one["state"], one.get("count_at_most")) for one in histories.list_periods("market", row)]


def test_history_has_each_bound() -> None:
    """The history has the bound of each bucket; one without all its numbers is unknown there."""
    records = [bound("market", 3, 2), bound("market", 5, 3), bound("market", 7, 4, missing=True)]
    assert list_periods(*records) == [("unknown", None), ("bounded", 6), ("bounded", 4)]


def test_latest_bound_is_kept_of_each_place() -> None:
    """The state of the board has the latest bound of each place, however many places a monitor has."""
    places = [f"place-{number}" for number in range(5)]
    entries, _foreign = read_entries(publish([bound(place, tick, 2) for tick in (3, 5) for place in places]))
    board = Board(7 * DAY, 10**9)
    board.add(entries)
    assert [entry.key for entry in board.find_state()] == [f"curve/{place}" for place in places]
