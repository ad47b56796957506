"""Folding: what a subscriber knows follows from the records alone, in whatever order and however often they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from monitor.client.subscriber_view import AlertChange, Change, HotSpotsChange, SnapshotChange, SubscriberView
from monitor.contracts.alerts import OutputRecord, owner_record
from monitor.public.parameters import Registry

Said = Callable[..., OutputRecord]


@pytest.fixture
def subscriber_view(registry: Registry) -> SubscriberView:
    return SubscriberView(registry)


def take(subscriber_view: SubscriberView, records: Iterable[OutputRecord]) -> list[Change | None]:
    return [subscriber_view.add(record.headers, record.value) for record in records]


def test_the_latest_tick_of_a_location_counts(subscriber_view: SubscriberView, said: Said) -> None:
    #     tick  6     7      8
    #           safe  noisy  paused
    take(subscriber_view, [said("market", 6, 0), said("market", 7, 12), said("market", 8, 12, (7, 12))])
    assert [(alert.location_id, alert.status, alert.tick) for alert in subscriber_view.alerts] == [
        ("market", "paused", 8)
    ]


def test_a_record_that_comes_twice_or_late_changes_nothing(
    subscriber_view: SubscriberView, said: Said, shown: Said
) -> None:
    records = [said("market", 7, 12), shown(1, 3, {"market": (3, 9)})]
    take(subscriber_view, records)
    before = subscriber_view.alerts, subscriber_view.times
    assert take(subscriber_view, [*records, said("market", 6, 0), shown(1, 2)]) == [None] * 4
    assert (subscriber_view.alerts, subscriber_view.times) == before


def test_locations_come_in_the_order_of_the_registry(subscriber_view: SubscriberView, said: Said) -> None:
    take(subscriber_view, [said(place, 7, 0) for place in ("clinic", "unlisted", "market", "park")])
    assert [alert.location_id for alert in subscriber_view.alerts] == ["market", "park", "clinic", "unlisted"]


def test_types_that_are_not_known_are_skipped(subscriber_view: SubscriberView) -> None:
    owner = owner_record(
        source="town",
        service="town",
        fingerprint="f",
        input_topic_id="t",
        partitions=1,
        lost_at=None,
        input_since=None,
        partition=0,
        at=0,
    )
    assert subscriber_view.add(owner.headers, owner.value) is None
    assert subscriber_view.add([("ce_type", b"org.location-monitor.of_tomorrow")], b"\xff") is None
    assert subscriber_view.add([], None) is None
    assert subscriber_view.empty
    assert subscriber_view.unreadable == 0


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"{}", b'{"status": "safe"}'])
def test_a_record_that_follows_no_contract_is_counted_and_says_nothing(
    subscriber_view: SubscriberView, said: Said, value: bytes | None
) -> None:
    assert subscriber_view.add(said("market", 7, 0).headers, value) is None
    assert subscriber_view.empty
    assert subscriber_view.unreadable == 1


def test_a_location_that_a_complete_snapshot_does_not_list_is_safe(
    subscriber_view: SubscriberView, shown: Said
) -> None:
    take(subscriber_view, [shown(0, 3), shown(1, 3, {"market": (3, 9)})])
    (at,) = subscriber_view.times
    assert at.statuses == {"market": "noisy_count", "park": "safe", "school": "safe", "clinic": "safe"}
    assert at.noisy_counts == {"market": 9}
    assert at.whole


def test_an_unknown_snapshot_makes_nobody_safe_and_keeps_its_noisy_counts(
    subscriber_view: SubscriberView, shown: Said
) -> None:
    take(subscriber_view, [shown(0, 4), shown(1, 4, {"market": (3, 9)}, complete=False)])
    (at,) = subscriber_view.times
    assert at.statuses == {"market": "noisy_count", "park": "safe", "school": "safe", "clinic": "unknown"}
    assert not at.whole


def test_a_shard_that_was_not_heard_of_is_unknown(subscriber_view: SubscriberView, shown: Said) -> None:
    take(subscriber_view, [shown(0, 3)])
    (at,) = subscriber_view.times
    assert at.statuses == {"market": "unknown", "park": "safe", "school": "safe", "clinic": "unknown"}
    assert not at.final


def test_nothing_is_safe_by_a_snapshot_of_another_registry(subscriber_view: SubscriberView, shown: Said) -> None:
    """A location that the service does not know is in no snapshot either: that does not make it safe."""
    other = Registry(("market", "park", "school"), 2)
    take(subscriber_view, [shown(0, 3, registry=other), shown(1, 3, {"market": (3, 9)}, registry=other)])
    (at,) = subscriber_view.times
    assert at.statuses == {"market": "noisy_count", "park": "unknown", "school": "unknown", "clinic": "unknown"}


def test_a_time_is_dropped_once_nothing_more_is_said_about_it(subscriber_view: SubscriberView, shown: Said) -> None:
    #     slot   2     3     4     5     6     7
    #     τ = 2  ticks 2 … 6, the last is final
    #     τ = 4              ticks 4 … 8
    take(subscriber_view, [shown(0, 6), shown(1, 6)])
    (at,) = subscriber_view.times
    assert at.final
    take(subscriber_view, [shown(0, 7, time=4)])
    assert [at.time for at in subscriber_view.times] == ["2026-01-05T04:30:00Z", "2026-01-05T02:30:00Z"]
    take(subscriber_view, [shown(0, 8, time=4)])
    assert [at.time for at in subscriber_view.times] == ["2026-01-05T04:30:00Z"]


def test_a_change_names_what_is_new(subscriber_view: SubscriberView, said: Said, shown: Said) -> None:
    changes = take(
        subscriber_view,
        [
            said("market", 6, 0),
            said("market", 7, 0),
            said("market", 8, 12),
            shown(1, 3, {"market": (3, 9)}),
            shown(1, 4, {"market": (3, 9)}),
            shown(1, 5, {"market": (3, 9), "clinic": (5, 8)}),
        ],
    )
    alerts = [(one.before and one.before.status, one.now.status) for one in changes if isinstance(one, AlertChange)]
    assert alerts == [(None, "safe"), ("safe", "noisy_count")]
    assert [one.fresh for one in changes if isinstance(one, SnapshotChange)] == [{"market": 9}, {"clinic": 8}]


def test_hot_spots_stay_known_until_those_of_a_later_time_are_drawn(
    subscriber_view: SubscriberView, drawn: Said, said: Said
) -> None:
    #     slot      2     3     4     5  …  90
    #     τ         2  3
    #     drawn                 2     3
    changes = take(subscriber_view, [drawn(2, {"market": 9}), drawn(3, {"park": 7, "market": 5})])
    assert [change.now.time for change in changes if isinstance(change, HotSpotsChange)] == [
        "2026-01-05T02:30:00Z",
        "2026-01-05T03:30:00Z",
    ]
    take(subscriber_view, [said("market", 90, 0)])
    (kept,) = subscriber_view.hot_spots
    assert [(one.location_id, one.noisy_count) for one in kept.hot_spots] == [("park", 7), ("market", 5)]


def test_hot_spots_that_come_twice_or_late_change_nothing(subscriber_view: SubscriberView, drawn: Said) -> None:
    take(subscriber_view, [drawn(3, {"park": 7})])
    before = subscriber_view.hot_spots
    assert take(subscriber_view, [drawn(3, {"park": 7}), drawn(2, {"market": 9})]) == [None, None]
    assert subscriber_view.hot_spots == before


def test_the_later_of_two_times_drawn_at_one_tick_counts_and_both_are_news(
    subscriber_view: SubscriberView, drawn: Said
) -> None:
    assert None not in take(subscriber_view, [drawn(2, {"market": 9}, after=3), drawn(3, None)])
    assert [one.status for one in subscriber_view.hot_spots] == ["unknown"]


def test_each_monitor_has_its_own_hot_spots(subscriber_view: SubscriberView, drawn: Said) -> None:
    take(subscriber_view, [drawn(3, {"park": 7}, monitor="noon"), drawn(2, {"market": 9}, monitor="morning")])
    assert [one.monitor for one in subscriber_view.hot_spots] == ["morning", "noon"]
