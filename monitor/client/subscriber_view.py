"""Folds the records of the output topic into the current state of each location, without Kafka or a screen.

A subscriber needs only the records and its copy of the public registry. Records may arrive twice or late, so only the
latest tick of each key counts. Records of unknown types are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

from pydantic import ValidationError

from monitor.contracts.alerts import (
    AT_TIMES,
    DWELL,
    HOT_SPOTS,
    OVER_TIME,
    AtTimesSnapshot,
    HotSpotsSnapshot,
    NoisyCountAlert,
    OverTimeAlert,
    PausedAlert,
    SafeAlert,
    UnknownAlert,
)
from monitor.contracts.dwell import DwellSnapshot
from monitor.public.instants import parse_instant
from monitor.public.parameters import Registry

Alert = SafeAlert | NoisyCountAlert | PausedAlert | UnknownAlert
Headers = Sequence[tuple[str, bytes | None]]
AtTimeStatus = Literal["safe", "noisy_count", "unknown"]

_KEPT_TICKS: Final = 1  # the last tick may still be incomplete, so the state at the tick before it is still shown


@dataclass(frozen=True, slots=True)
class AlertChange:
    """A change of the alert about one location (`over_time`). `before` is None for the first alert."""

    before: Alert | None
    now: Alert


@dataclass(frozen=True, slots=True)
class SnapshotChange:
    """The first snapshot of a shard at a designated time, or one with another status, new noisy counts or bounds."""

    before: AtTimesSnapshot | None
    now: AtTimesSnapshot

    @property
    def fresh(self) -> dict[str, int]:
        """The new noisy counts, by location."""
        known = {} if self.before is None else self.before.noisy_counts
        return {place: noisy.noisy_count for place, noisy in self.now.noisy_counts.items() if place not in known}

    @property
    def bounded(self) -> bool:
        """Whether lower bounds are new."""
        return bool(self.now.counts_at_least) and (self.before is None or not self.before.counts_at_least)


@dataclass(frozen=True, slots=True)
class HotSpotsChange:
    """New hot spots, whose designated time is later than that of all earlier ones."""

    now: HotSpotsSnapshot


@dataclass(frozen=True, slots=True)
class DwellChange:
    """New dwell times, whose designated time is later than that of all earlier ones."""

    now: DwellSnapshot


Change = AlertChange | SnapshotChange | HotSpotsChange | DwellChange


@dataclass(frozen=True)
class AtTime:
    """The state of one designated time: the latest snapshot per shard, and the subscriber's registry."""

    monitor: str
    time: str
    snapshots: Mapping[int, AtTimesSnapshot]
    registry: Registry

    @property
    def sample(self) -> AtTimesSnapshot:
        """One of the snapshots, for the fields that are equal in all of them."""
        return next(iter(self.snapshots.values()))

    @property
    def tick(self) -> int:
        """The latest tick of any shard."""
        return max(snapshot.tick for snapshot in self.snapshots.values())

    @property
    def final(self) -> bool:
        """Whether no further snapshots of this time will follow."""
        return len(self.snapshots) == self.sample.shards and all(snapshot.final for snapshot in self.snapshots.values())

    @cached_property
    def noisy_counts(self) -> dict[str, int]:
        """The noisy count of each location that has one, sorted by id. It is a certain upper bound."""
        noisy_counts = {
            place: noisy.noisy_count
            for snapshot in self.snapshots.values()
            for place, noisy in snapshot.noisy_counts.items()
        }
        return dict(sorted(noisy_counts.items()))

    @cached_property
    def counts_at_least(self) -> dict[str, int]:
        """The lower bound of each location that has one, sorted by id. It is certain, and at most the noisy count."""
        bounds = {
            place: bound for snapshot in self.snapshots.values() for place, bound in snapshot.counts_at_least.items()
        }
        return dict(sorted(bounds.items()))

    @cached_property
    def intervals(self) -> dict[str, tuple[int, int]]:
        """The certain lower and upper bound of each location with a lower bound or a noisy count, sorted by id.

        Without a lower bound it is 0. Without a noisy count, the upper bound of a safe location is T - 1. A location
        with neither a noisy count nor the status "safe" has no upper bound, and is left out.
        """
        most = {place: self.sample.threshold - 1 for place, status in self.statuses.items() if status == "safe"}
        most |= self.noisy_counts
        places = sorted(self.noisy_counts.keys() | (self.counts_at_least.keys() & most.keys()))
        return {place: (self.counts_at_least.get(place, 0), most[place]) for place in places}

    @cached_property
    def statuses(self) -> dict[str, AtTimeStatus]:
        """The status of each location of the subscriber's registry, in its order.

        A location that is not listed in the complete snapshot of its shard is safe, but only if the service uses the
        same registry. Otherwise it may be a location that the service does not know, which is not listed either.
        """
        by_shard = Registry(self.registry.ids, self.sample.shards)
        usable = {
            shard: snapshot.status == "complete" and snapshot.registry == self.registry.digest
            for shard, snapshot in self.snapshots.items()
        }
        statuses: dict[str, AtTimeStatus] = {}
        for place, shard in zip(by_shard.ids, by_shard.shard.tolist(), strict=True):
            safe: AtTimeStatus = "safe" if usable.get(shard, False) else "unknown"
            statuses[place] = "noisy_count" if place in self.noisy_counts else safe
        return statuses

    @property
    def safe(self) -> int:
        """The number of safe locations of the subscriber's registry."""
        return sum(status == "safe" for status in self.statuses.values())

    @property
    def is_known(self) -> bool:
        """Whether no location of the subscriber's registry has the status "unknown"."""
        return "unknown" not in self.statuses.values()


@dataclass
class SubscriberView:
    """The current state of all locations. `unreadable` counts invalid records of a known type, which are skipped."""

    registry: Registry
    unreadable: int = 0
    tick: int | None = None
    as_of: str | None = None
    _alerts: dict[tuple[str, str], Alert] = field(default_factory=dict)
    _snapshots: dict[tuple[str, str], dict[int, AtTimesSnapshot]] = field(default_factory=dict)
    _hot_spots: dict[str, HotSpotsSnapshot] = field(default_factory=dict)
    _dwell: dict[str, DwellSnapshot] = field(default_factory=dict)

    def add(self, headers: Headers, value: bytes | None) -> Change | None:
        """Add a record, and return the change; None if nothing changes."""
        kind = dict(headers).get("ce_type")
        try:
            if kind == OVER_TIME.encode():
                return self._add_alert(OverTimeAlert.model_validate_json(value or b"").root)
            if kind == AT_TIMES.encode():
                return self._add_snapshot(AtTimesSnapshot.model_validate_json(value or b""))
            if kind == HOT_SPOTS.encode():
                return self._add_hot_spots(HotSpotsSnapshot.model_validate_json(value or b""))
            if kind == DWELL.encode():
                return self._add_dwell(DwellSnapshot.model_validate_json(value or b""))
        except ValidationError:
            self.unreadable += 1
        return None

    def _add_alert(self, alert: Alert) -> Change | None:
        key = alert.monitor, alert.location_id
        before = self._alerts.get(key)
        if before is not None and before.tick >= alert.tick:
            return None
        self._alerts[key] = alert
        self._advance(alert.tick, alert.as_of)
        same = before is not None and before.status == alert.status and alert.status != "noisy_count"
        return None if same else AlertChange(before, alert)

    def _add_snapshot(self, snapshot: AtTimesSnapshot) -> Change | None:
        shards = self._snapshots.setdefault((snapshot.monitor, snapshot.time), {})
        before = shards.get(snapshot.shard)
        if before is not None and before.tick >= snapshot.tick:
            return None
        if before is not None and before.counts_at_least and not snapshot.counts_at_least:
            # Bounds are published once. Under a horizon that was lengthened, later snapshots follow.
            snapshot = snapshot.model_copy(update={"counts_at_least": before.counts_at_least})
        shards[snapshot.shard] = snapshot
        self._advance(snapshot.tick, snapshot.as_of)
        change = SnapshotChange(before, snapshot)
        changed = change.fresh or change.bounded or before is None or before.status != snapshot.status
        return change if changed else None

    def _add_hot_spots(self, snapshot: HotSpotsSnapshot) -> Change | None:
        before = self._hot_spots.get(snapshot.monitor)
        if before is not None and parse_instant(before.time) >= parse_instant(snapshot.time):
            return None
        self._hot_spots[snapshot.monitor] = snapshot
        self._advance(snapshot.tick, snapshot.as_of)
        return HotSpotsChange(snapshot)

    def _add_dwell(self, snapshot: DwellSnapshot) -> Change | None:
        before = self._dwell.get(snapshot.monitor)
        if before is not None and parse_instant(before.time) >= parse_instant(snapshot.time):
            return None
        self._dwell[snapshot.monitor] = snapshot
        self._advance(snapshot.tick, snapshot.as_of)
        return DwellChange(snapshot)

    def _advance(self, tick: int, as_of: str) -> None:
        if self.tick is None or tick > self.tick:
            self.tick, self.as_of = tick, as_of
            self._forget(tick - _KEPT_TICKS)

    def _forget(self, oldest: int) -> None:
        """Remove designated times without recent snapshots: their reporting horizon has ended."""
        for key, shards in list(self._snapshots.items()):
            if max(snapshot.tick for snapshot in shards.values()) < oldest:
                del self._snapshots[key]

    @property
    def empty(self) -> bool:
        """Whether no record was added yet."""
        return self.tick is None

    @property
    def alerts(self) -> list[Alert]:
        """The latest `over_time` alert of each location, sorted by monitor, then in registry order."""
        rows, last = self.registry.rows, len(self.registry.ids)
        return sorted(
            self._alerts.values(),
            key=lambda alert: (alert.monitor, rows.get(alert.location_id, last), alert.location_id),
        )

    @property
    def hot_spots(self) -> list[HotSpotsSnapshot]:
        """The latest hot spots of each monitor, sorted by monitor."""
        return [self._hot_spots[monitor] for monitor in sorted(self._hot_spots)]

    @property
    def dwell(self) -> list[DwellSnapshot]:
        """The latest dwell times of each monitor, sorted by monitor."""
        return [self._dwell[monitor] for monitor in sorted(self._dwell)]

    @property
    def times(self) -> list[AtTime]:
        """The designated times with recent snapshots, sorted by monitor, then from the latest to the earliest."""
        times = [AtTime(monitor, time, shards, self.registry) for (monitor, time), shards in self._snapshots.items()]
        times.sort(key=lambda at: at.time, reverse=True)
        return sorted(times, key=lambda at: at.monitor)
