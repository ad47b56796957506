"""Folding: what a subscriber knows follows from the records alone, in whatever order and however often they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from monitor.client.knowledge import AlertChange, Change, HotSpotsChange, SnapshotChange, SubscriberView
from monitor.contracts.alerts import OutputRecord, owner_record
from monitor.public.parameters import Registry

Said = Callable[..., OutputRecord]


@pytest.fixture
def knowledge(registry: Registry) -> SubscriberView:
    return SubscriberView(registry)


def take(knowledge: SubscriberView, records: Iterable[OutputRecord]) -> list[Change | None]:
    return [knowledge.add(record.headers, record.value) for record in records]


def test_the_latest_tick_of_a_location_counts(knowledge: SubscriberView, said: Said) -> None:
    #     tick  6     7      8
    #           safe  noisy  paused
    take(knowledge, [said("market", 6, 0), said("market", 7, 12), said("market", 8, 12, (7, 12))])
    assert [(alert.location_id, alert.status, alert.tick) for alert in knowledge.alerts] == [("market", "paused", 8)]


def test_a_record_that_comes_twice_or_late_changes_nothing(knowledge: SubscriberView, said: Said, shown: Said) -> None:
    records = [said("market", 7, 12), shown(1, 3, {"market": (3, 9)})]
    take(knowledge, records)
    before = knowledge.alerts, knowledge.times
    assert take(knowledge, [*records, said("market", 6, 0), shown(1, 2)]) == [None] * 4
    assert (knowledge.alerts, knowledge.times) == before


def test_locations_come_in_the_order_of_the_registry(knowledge: SubscriberView, said: Said) -> None:
    take(knowledge, [said(place, 7, 0) for place in ("clinic", "unlisted", "market", "park")])
    assert [alert.location_id for alert in knowledge.alerts] == ["market", "park", "clinic", "unlisted"]


def test_types_that_are_not_known_are_skipped(knowledge: SubscriberView) -> None:
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
    assert knowledge.add(owner.headers, owner.value) is None
    assert knowledge.add([("ce_type", b"org.location-monitor.of_tomorrow")], b"\xff") is None
    assert knowledge.add([], None) is None
    assert knowledge.empty
    assert knowledge.unreadable == 0


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"{}", b'{"status": "safe"}'])
def test_a_record_that_follows_no_contract_is_counted_and_says_nothing(
    knowledge: SubscriberView, said: Said, value: bytes | None
) -> None:
    assert knowledge.add(said("market", 7, 0).headers, value) is None
    assert knowledge.empty
    assert knowledge.unreadable == 1


def test_a_location_that_a_complete_snapshot_does_not_list_is_safe(knowledge: SubscriberView, shown: Said) -> None:
    take(knowledge, [shown(0, 3), shown(1, 3, {"market": (3, 9)})])
    (at,) = knowledge.times
    assert at.statuses == {"market": "noisy_count", "park": "safe", "school": "safe", "clinic": "safe"}
    assert at.noisy_counts == {"market": 9}
    assert at.whole


def test_an_unknown_snapshot_makes_nobody_safe_and_keeps_its_noisy_counts(
    knowledge: SubscriberView, shown: Said
) -> None:
    take(knowledge, [shown(0, 4), shown(1, 4, {"market": (3, 9)}, complete=False)])
    (at,) = knowledge.times
    assert at.statuses == {"market": "noisy_count", "park": "safe", "school": "safe", "clinic": "unknown"}
    assert not at.whole


def test_a_shard_that_was_not_heard_of_is_unknown(knowledge: SubscriberView, shown: Said) -> None:
    take(knowledge, [shown(0, 3)])
    (at,) = knowledge.times
    assert at.statuses == {"market": "unknown", "park": "safe", "school": "safe", "clinic": "unknown"}
    assert not at.final


def test_nothing_is_safe_by_a_snapshot_of_another_registry(knowledge: SubscriberView, shown: Said) -> None:
    """A location that the service does not know is in no snapshot either: that does not make it safe."""
    other = Registry(("market", "park", "school"), 2)
    take(knowledge, [shown(0, 3, registry=other), shown(1, 3, {"market": (3, 9)}, registry=other)])
    (at,) = knowledge.times
    assert at.statuses == {"market": "noisy_count", "park": "unknown", "school": "unknown", "clinic": "unknown"}


def test_a_time_is_dropped_once_nothing_more_is_said_about_it(knowledge: SubscriberView, shown: Said) -> None:
    #     slot   2     3     4     5     6     7
    #     τ = 2  ticks 2 … 6, the last is final
    #     τ = 4              ticks 4 … 8
    take(knowledge, [shown(0, 6), shown(1, 6)])
    (at,) = knowledge.times
    assert at.final
    take(knowledge, [shown(0, 7, time=4)])
    assert [at.time for at in knowledge.times] == ["2026-01-05T04:30:00Z", "2026-01-05T02:30:00Z"]
    take(knowledge, [shown(0, 8, time=4)])
    assert [at.time for at in knowledge.times] == ["2026-01-05T04:30:00Z"]


def test_a_change_names_what_is_new(knowledge: SubscriberView, said: Said, shown: Said) -> None:
    changes = take(
        knowledge,
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
    knowledge: SubscriberView, drawn: Said, said: Said
) -> None:
    #     slot      2     3     4     5  …  90
    #     τ         2  3
    #     drawn                 2     3
    changes = take(knowledge, [drawn(2, {"market": 9}), drawn(3, {"park": 7, "market": 5})])
    assert [change.now.time for change in changes if isinstance(change, HotSpotsChange)] == [
        "2026-01-05T02:30:00Z",
        "2026-01-05T03:30:00Z",
    ]
    take(knowledge, [said("market", 90, 0)])
    (kept,) = knowledge.hot_spots
    assert [(one.location_id, one.noisy_count) for one in kept.hot_spots] == [("park", 7), ("market", 5)]


def test_hot_spots_that_come_twice_or_late_change_nothing(knowledge: SubscriberView, drawn: Said) -> None:
    take(knowledge, [drawn(3, {"park": 7})])
    before = knowledge.hot_spots
    assert take(knowledge, [drawn(3, {"park": 7}), drawn(2, {"market": 9})]) == [None, None]
    assert knowledge.hot_spots == before


def test_the_later_of_two_times_drawn_at_one_tick_counts_and_both_are_news(
    knowledge: SubscriberView, drawn: Said
) -> None:
    assert None not in take(knowledge, [drawn(2, {"market": 9}, after=3), drawn(3, None)])
    assert [one.status for one in knowledge.hot_spots] == ["unknown"]


def test_each_monitor_has_its_own_hot_spots(knowledge: SubscriberView, drawn: Said) -> None:
    take(knowledge, [drawn(3, {"park": 7}, monitor="noon"), drawn(2, {"market": 9}, monitor="morning")])
    assert [one.monitor for one in knowledge.hot_spots] == ["morning", "noon"]
