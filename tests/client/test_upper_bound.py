"""Upper bounds as a subscriber reads them: in the view, in words, and as metrics."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.client.describe_records import News, Words
from monitor.client.exporter import PublicMetrics
from monitor.client.known_at_a_moment import KnownPlaces
from monitor.client.state_from_records import BoundChange, SubscriberView
from monitor.records.output_records import OutputRecord
from monitor.time.instants import HOUR
from tests.client.records import REGISTRY, SLOTS, bound, over_time


@pytest.fixture
def view() -> SubscriberView:
    return SubscriberView(REGISTRY)


def add(view: SubscriberView, *records: OutputRecord) -> list[Any]:
    return [view.add(record.headers, record.value) for record in records]


def test_latest_bound_is_shown_for_two_buckets(view: SubscriberView) -> None:
    """Of two bounds of a place the later one counts, in any order, until two buckets after it."""
    changes = add(view, bound("market", 5, 2), bound("market", 3, 9), bound("clinic", 5, 4))
    assert [isinstance(change, BoundChange) for change in changes] == [True, False, True]
    shown = view.list_bounds(SLOTS.as_of(5))
    assert [(one.location_id, one.upper_bound) for one in shown] == [("market", 4), ("clinic", 8)]
    assert view.list_bounds(SLOTS.as_of(9)) == shown
    assert view.list_bounds(SLOTS.as_of(9) + 1) == []


def test_subscriber_knows_the_bound(view: SubscriberView) -> None:
    """A place with an upper bound alone is "bounded", unknown without a number, and unknown after two buckets."""
    add(view, bound("market", 5, 2), bound("clinic", 5, 4, missing=True))
    places = KnownPlaces(view, HOUR, lambda: SLOTS.as_of(5))
    market, clinic = places.get("market"), places.get("clinic")
    assert (market.state, market.reason, market.count_at_most) == ("bounded", "no_threshold", 4)
    assert (clinic.state, clinic.reason, clinic.count_at_most) == ("unknown", "input_incomplete", None)
    assert market.about is not None
    assert (market.about.monitor, market.about.kind, market.about.threshold) == ("curve", "upper_bound", None)
    assert market.at(SLOTS.as_of(9)).state == "bounded"
    assert market.at(SLOTS.as_of(9) + 1).reason == "too_old"


def test_compared_answers_come_before_a_bound(view: SubscriberView) -> None:
    """If another monitor compares the place with a threshold, its answer counts; all answers have the bound too."""
    add(view, bound("market", 5, 2), over_time("market", 5, 0))
    places = KnownPlaces(view, HOUR, lambda: SLOTS.as_of(5))
    assert places.get("market").state == "safe"
    assert [known.state for known in places.answers("market")] == ["bounded", "safe"]


def test_bound_is_described(view: SubscriberView) -> None:
    """The news of a bound are certain numbers, or that there is none."""
    changes = add(view, bound("market", 5, 2), bound("clinic", 5, 4, missing=True))
    assert [line.text for line in News(Words(SLOTS)).lines(view, changes)] == [
        "market: at most 4 reported infected people since Mon 5 Jan 02:00 (certain)",
        "clinic: no bound: the number of a bucket is missing",
    ]


def test_altered_answers_hide_bounds(view: SubscriberView) -> None:
    """If answers are not believed, no bound is shown."""
    add(view, bound("market", 5, 2))
    view.distrust("altered")
    assert view.list_bounds(SLOTS.as_of(5)) == []


def test_bounds_are_gauges(view: SubscriberView) -> None:
    """A bound is a gauge, which is absent without a bound."""
    metrics = PublicMetrics(REGISTRY.ids, HOUR, 1)
    add(view, bound("market", 5, 2), bound("park", 5, 2))

    def read() -> dict[tuple[str, ...], float]:
        return {
            tuple(sample.labels.values()): sample.value
            for family in metrics.registry.collect()
            for sample in family.samples
            if sample.name.endswith("public_count_at_most")
        }

    metrics.show([], None, bounds=view.list_bounds(SLOTS.as_of(5)))
    assert read() == {("curve", "market"): 4}
    metrics.show([], None, bounds=view.list_bounds(SLOTS.as_of(10)))
    assert read() == {}
