"""The subscriber's view follows from the records alone, in any order and with duplicates."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from monitor.contracts.output_records import OutputRecord
from monitor.contracts.owner_record import make_owner_record
from monitor.contracts.parameters import Registry
from monitor.tools.client.subscriber_view import AlertChange, Change, HotSpotsChange, SnapshotChange, SubscriberView
from tests.tools.client.records import REGISTRY, hot_spots, over_time, snapshot


@pytest.fixture
def subscriber_view() -> SubscriberView:
    return SubscriberView(REGISTRY)


def add_all(subscriber_view: SubscriberView, records: Iterable[OutputRecord]) -> list[Change | None]:
    return [subscriber_view.add(record.headers, record.value) for record in records]


def test_duplicate_or_late_records_change_nothing(subscriber_view: SubscriberView) -> None:
    """Duplicate and late records change nothing."""
    records = [over_time("market", 7, 12), snapshot(1, 3, {"market": (3, 9)})]
    add_all(subscriber_view, records)
    before = subscriber_view.alerts, subscriber_view.times
    assert add_all(subscriber_view, [*records, over_time("market", 6, 0), snapshot(1, 2)]) == [None] * 4
    assert (subscriber_view.alerts, subscriber_view.times) == before


def test_alerts_are_in_registry_order(subscriber_view: SubscriberView) -> None:
    """Alerts are in the registry's order; unlisted locations come last."""
    add_all(subscriber_view, [over_time(place, 7, 0) for place in ("clinic", "unlisted", "market", "park")])
    assert [alert.location_id for alert in subscriber_view.alerts] == ["market", "park", "clinic", "unlisted"]


def test_unknown_types_are_skipped(subscriber_view: SubscriberView) -> None:
    """Records of unknown types are skipped."""
    owner = make_owner_record(
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
def test_invalid_records_are_counted(subscriber_view: SubscriberView, value: bytes | None) -> None:
    """Invalid records are skipped and counted."""
    assert subscriber_view.add(over_time("market", 7, 0).headers, value) is None
    assert subscriber_view.empty
    assert subscriber_view.unreadable == 1


@pytest.mark.promise(2)
def test_unlisted_location_is_safe(subscriber_view: SubscriberView) -> None:
    """A location without an entry in a complete snapshot is safe."""
    add_all(subscriber_view, [snapshot(0, 3), snapshot(1, 3, {"market": (3, 9)})])
    (at,) = subscriber_view.times
    assert at.statuses == {"market": "noisy_count", "park": "safe", "school": "safe", "clinic": "safe"}
    assert at.noisy_counts == {"market": 9}
    assert at.is_known


def test_unknown_snapshot_keeps_noisy_counts(subscriber_view: SubscriberView) -> None:
    """In an unknown snapshot no location is safe, but noisy counts remain."""
    add_all(subscriber_view, [snapshot(0, 4), snapshot(1, 4, {"market": (3, 9)}, complete=False)])
    (at,) = subscriber_view.times
    assert at.statuses == {"market": "noisy_count", "park": "safe", "school": "safe", "clinic": "unknown"}
    assert not at.is_known


def test_shard_without_snapshot_is_unknown(subscriber_view: SubscriberView) -> None:
    """The locations of a shard without a snapshot are unknown."""
    add_all(subscriber_view, [snapshot(0, 3)])
    (at,) = subscriber_view.times
    assert at.statuses == {"market": "unknown", "park": "safe", "school": "safe", "clinic": "unknown"}
    assert not at.final


def test_other_registry_makes_nothing_safe(subscriber_view: SubscriberView) -> None:
    """A snapshot about another registry makes no location safe."""
    other = Registry(("market", "park", "school"), 2)
    add_all(
        subscriber_view,
        [snapshot(0, 3, registry=other), snapshot(1, 3, {"market": (3, 9)}, registry=other)],
    )
    (at,) = subscriber_view.times
    assert at.statuses == {"market": "noisy_count", "park": "unknown", "school": "unknown", "clinic": "unknown"}


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
    """Hot spots stay until those of a later time are drawn."""
    #     slot      2     3     4     5  …  90
    #     τ         2  3
    #     drawn                 2     3
    changes = add_all(subscriber_view, [hot_spots(2, {"market": 9}), hot_spots(3, {"park": 7, "market": 5})])
    assert [change.now.time for change in changes if isinstance(change, HotSpotsChange)] == [
        "2026-01-05T02:30:00Z",
        "2026-01-05T03:30:00Z",
    ]
    add_all(subscriber_view, [over_time("market", 90, 0)])
    (latest,) = subscriber_view.hot_spots
    assert [(spot.location_id, spot.noisy_count) for spot in latest.hot_spots] == [("park", 7), ("market", 5)]


def test_later_of_two_times_counts(subscriber_view: SubscriberView) -> None:
    """Of two times drawn at one tick the later counts, and both are changes."""
    assert None not in add_all(subscriber_view, [hot_spots(2, {"market": 9}, after=3), hot_spots(3, None)])
    assert [snapshot.status for snapshot in subscriber_view.hot_spots] == ["unknown"]


def test_hot_spots_are_per_monitor(subscriber_view: SubscriberView) -> None:
    """Each monitor has separate hot spots."""
    add_all(
        subscriber_view,
        [hot_spots(3, {"park": 7}, monitor="noon"), hot_spots(2, {"market": 9}, monitor="morning")],
    )
    assert [snapshot.monitor for snapshot in subscriber_view.hot_spots] == ["morning", "noon"]


@pytest.mark.promise(41)
def test_bounds_are_certain(subscriber_view: SubscriberView) -> None:
    """The bounds are the lower bound and the noisy count, or T - 1 where the location is safe (T = 8).

    The noisy count 2 of the school, of tick 3, is exceeded by the final lower bound: it is no upper bound any more.
    """
    snapshots = [
        snapshot(0, 6, {"school": (3, 2)}, bounds={"park": 2, "elsewhere": 1, "school": 4}),
        snapshot(1, 6, {"market": (3, 9), "clinic": (5, 8)}, bounds={"market": 4}),
    ]
    assert any(change is not None for change in add_all(subscriber_view, snapshots))
    (at,) = subscriber_view.times
    assert at.counts_at_least == {"elsewhere": 1, "market": 4, "park": 2, "school": 4}
    assert at.bounds == {"clinic": (0, 8), "market": (4, 9), "park": (2, 7), "school": (4, None)}


def test_lower_bounds_are_kept(subscriber_view: SubscriberView) -> None:
    """Bounds are published once. They stay when later snapshots follow, and are one change."""
    records = [snapshot(1, 5), snapshot(1, 6, bounds={"market": 4}), snapshot(1, 7)]
    assert [change is not None for change in add_all(subscriber_view, records)] == [True, True, False]
    (at,) = subscriber_view.times
    assert at.counts_at_least == {"market": 4}
