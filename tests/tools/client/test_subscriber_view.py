"""The subscriber's view follows from the records alone, in any order and with duplicates."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from monitor.contracts.output_records import OutputRecord
from monitor.contracts.parameters import Registry
from monitor.tools.client.subscriber_view import AlertChange, Change, SnapshotChange, SubscriberView, TotalChange
from tests.tools.client.records import REGISTRY, hot_spots, over_time, snapshot

MARKET = {"market": (3, 9)}
OTHER = Registry(("market", "park", "school"), 2)


@pytest.fixture
def subscriber_view() -> SubscriberView:
    return SubscriberView(REGISTRY)


def add_all(subscriber_view: SubscriberView, records: Iterable[OutputRecord]) -> list[Change | None]:
    return [subscriber_view.add(record.headers, record.value) for record in records]


def test_alerts_are_in_registry_order(subscriber_view: SubscriberView) -> None:
    """Alerts are in the registry's order; unlisted locations come last."""
    add_all(subscriber_view, [over_time(place, 7, 0) for place in ("clinic", "unlisted", "market", "park")])
    assert [alert.location_id for alert in subscriber_view.alerts] == ["market", "park", "clinic", "unlisted"]


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"{}", b'{"status": "safe"}'])
def test_invalid_records_are_counted(subscriber_view: SubscriberView, value: bytes | None) -> None:
    """Invalid records are skipped and counted."""
    assert subscriber_view.add(over_time("market", 7, 0).headers, value) is None
    assert subscriber_view.empty
    assert subscriber_view.unreadable == 1


@pytest.mark.promise(2)
@pytest.mark.parametrize(
    ("snapshots", "others"),
    [
        ([snapshot(0, 3), snapshot(1, 3, MARKET)], {"park": "safe", "school": "safe", "clinic": "safe"}),
        ([snapshot(0, 4), snapshot(1, 4, MARKET, complete=False)], {"park": "safe", "school": "safe"}),
        ([snapshot(1, 3, MARKET)], {"clinic": "safe"}),
        ([snapshot(0, 3, registry=OTHER), snapshot(1, 3, MARKET, registry=OTHER)], {}),
    ],
    ids=["complete", "incomplete shard", "shard without snapshot", "other registry"],
)
def test_only_complete_snapshots_mean_safe(
    subscriber_view: SubscriberView, snapshots: list[OutputRecord], others: dict[str, str]
) -> None:
    """A location without an entry is safe in a complete snapshot of its shard and of this registry, else unknown.

    The noisy counts remain in any case.
    """
    add_all(subscriber_view, snapshots)
    (at,) = subscriber_view.times
    assert at.statuses == dict.fromkeys(REGISTRY.ids, "unknown") | {"market": "noisy_count"} | others
    assert at.noisy_counts == {"market": 9}
    assert at.is_known == (len(others) == 3)
    assert not at.final


def test_finished_time_is_dropped(subscriber_view: SubscriberView) -> None:
    """A designated time is dropped after its last snapshot."""
    #     slot   2     3     4     5     6     7
    #     τ = 2  ticks 2 … 6, the last is final
    #     τ = 4              ticks 4 … 8
    add_all(subscriber_view, [snapshot(0, 6), snapshot(1, 6)])
    (at,) = subscriber_view.times
    assert at.final
    add_all(subscriber_view, [snapshot(0, 7, time=4)])
    assert [at.time for at in subscriber_view.times] == ["2026-01-05T04:30:00Z", "2026-01-05T02:30:00Z"]
    add_all(subscriber_view, [snapshot(0, 8, time=4)])
    assert [at.time for at in subscriber_view.times] == ["2026-01-05T04:30:00Z"]


def test_changes_name_what_is_new(subscriber_view: SubscriberView) -> None:
    """A change contains the old and new alert, or the new noisy counts."""
    changes = add_all(
        subscriber_view,
        [
            over_time("market", 6, 0),
            over_time("market", 7, 0),
            over_time("market", 8, 12),
            snapshot(1, 3, {"market": (3, 9)}),
            snapshot(1, 4, {"market": (3, 9)}),
            snapshot(1, 5, {"market": (3, 9), "clinic": (5, 8)}),
        ],
    )
    alerts = [
        (change.before and change.before.status, change.now.status)
        for change in changes
        if isinstance(change, AlertChange)
    ]
    assert alerts == [(None, "safe"), ("safe", "noisy_count")]
    assert [change.fresh for change in changes if isinstance(change, SnapshotChange)] == [{"market": 9}, {"clinic": 8}]


def test_hot_spots_stay_until_the_next(subscriber_view: SubscriberView) -> None:
    """Hot spots of a monitor stay until those of a later time are drawn. Of two times drawn at one tick, each counts.

    slot    2  3           90
    drawn         at both
    """
    drawn = [hot_spots(2, {"market": 9}, after=3), hot_spots(3, None), hot_spots(2, {"park": 7}, monitor="another")]
    changes = add_all(subscriber_view, drawn)
    times = [change.now.time for change in changes if isinstance(change, TotalChange)]
    assert times == ["2026-01-05T02:30:00Z", "2026-01-05T03:30:00Z", "2026-01-05T02:30:00Z"]
    add_all(subscriber_view, [over_time("market", 90, 0)])
    assert [(spots.monitor, spots.status) for spots in subscriber_view.hot_spots] == [
        ("another", "complete"),
        ("busiest", "unknown"),
    ]
