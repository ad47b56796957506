"""Records of the output topic, folded into what is known about each location now. Pure: no Kafka, no screen.

A subscriber needs nothing but the records and its own copy of the public registry. Records may come twice, and from
before what is known already: the latest tick of each key counts. Types that are not known are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

from pydantic import ValidationError

from monitor.contracts.alerts import (
    AT_TIMES,
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
from monitor.public.instants import parse_instant
from monitor.public.parameters import Registry

Alert = SafeAlert | NoisyCountAlert | PausedAlert | UnknownAlert
Headers = Sequence[tuple[str, bytes | None]]
AtTimeStatus = Literal["safe", "noisy_count", "unknown"]

_HELD_TICKS: Final = 1  # a tick may be half read, so what the one before it said is still shown


@dataclass(frozen=True, slots=True)
class AlertChange:
    """A location over time of which something else is said than before; `before` is None at first."""

    before: Alert | None
    now: Alert


@dataclass(frozen=True, slots=True)
class SnapshotChange:
    """A shard at a designated time: its first snapshot, or one with another status or new noisy counts."""

    before: AtTimesSnapshot | None
    now: AtTimesSnapshot

    @property
    def fresh(self) -> dict[str, int]:
        """The noisy counts that were not there before, by location."""
        known = {} if self.before is None else self.before.noisy_counts
        return {place: noisy.noisy_count for place, noisy in self.now.noisy_counts.items() if place not in known}


@dataclass(frozen=True, slots=True)
class HotSpotsChange:
    """The hot spots of a later designated time than any before, drawn once."""

    now: HotSpotsSnapshot


Change = AlertChange | SnapshotChange | HotSpotsChange


@dataclass(frozen=True)
class AtTime:
    """All that is known about one designated time: the latest snapshot by shard, and the subscriber's registry."""

    monitor: str
    time: str
    snapshots: Mapping[int, AtTimesSnapshot]
    registry: Registry

    @property
    def any(self) -> AtTimesSnapshot:
        """One of the snapshots, for what is the same in all of them."""
        return next(iter(self.snapshots.values()))

    @property
    def tick(self) -> int:
        """The latest tick of any shard."""
        return max(snapshot.tick for snapshot in self.snapshots.values())

    @property
    def final(self) -> bool:
        """Whether nothing more will be said about this time."""
        return len(self.snapshots) == self.any.shards and all(one.final for one in self.snapshots.values())

    @cached_property
    def noisy_counts(self) -> dict[str, int]:
        """The noisy count of each location that has one, in order of ids. Each is a certain upper bound."""
        found = {
            place: noisy.noisy_count
            for snapshot in self.snapshots.values()
            for place, noisy in snapshot.noisy_counts.items()
        }
        return dict(sorted(found.items()))

    @cached_property
    def statuses(self) -> dict[str, AtTimeStatus]:
        """What is known about each location of the subscriber's registry, in its order.

        A location that its shard's complete snapshot does not list is safe, provided that the snapshot is about the
        same registry: one that the service does not watch is in no snapshot either.
        """
        by_shard = Registry(self.registry.ids, self.any.shards)
        same = {
            shard: one.status == "complete" and one.registry == self.registry.digest
            for shard, one in self.snapshots.items()
        }
        found: dict[str, AtTimeStatus] = {}
        for place, shard in zip(by_shard.ids, by_shard.shard.tolist(), strict=True):
            safe: AtTimeStatus = "safe" if same.get(shard, False) else "unknown"
            found[place] = "noisy_count" if place in self.noisy_counts else safe
        return found

    @property
    def safe(self) -> int:
        """How many locations of the subscriber's registry are safe."""
        return sum(status == "safe" for status in self.statuses.values())

    @property
    def whole(self) -> bool:
        """Whether something is known about every location of the subscriber's registry."""
        return "unknown" not in self.statuses.values()


@dataclass
class SubscriberView:
    """What is known now. `unreadable` counts records of a known type that follow no contract: they tell nothing."""

    registry: Registry
    unreadable: int = 0
    tick: int | None = None
    as_of: str | None = None
    _alerts: dict[tuple[str, str], Alert] = field(default_factory=dict)
    _snapshots: dict[tuple[str, str], dict[int, AtTimesSnapshot]] = field(default_factory=dict)
    _hot_spots: dict[str, HotSpotsSnapshot] = field(default_factory=dict)

    def add(self, headers: Headers, value: bytes | None) -> Change | None:
        """Take in a record; returns what it changes, None if nothing."""
        kind = dict(headers).get("ce_type")
        try:
            if kind == OVER_TIME.encode():
                return self._add_alert(OverTimeAlert.model_validate_json(value or b"").root)
            if kind == AT_TIMES.encode():
                return self._add_snapshot(AtTimesSnapshot.model_validate_json(value or b""))
            if kind == HOT_SPOTS.encode():
                return self._add_hot_spots(HotSpotsSnapshot.model_validate_json(value or b""))
        except ValidationError:
            self.unreadable += 1
        return None

    def _add_alert(self, alert: Alert) -> Change | None:
        key = alert.monitor, alert.location_id
        before = self._alerts.get(key)
        if before is not None and before.tick >= alert.tick:
            return None
        self._alerts[key] = alert
        self._note(alert.tick, alert.as_of)
        same = before is not None and before.status == alert.status and alert.status != "noisy_count"
        return None if same else AlertChange(before, alert)

    def _add_snapshot(self, snapshot: AtTimesSnapshot) -> Change | None:
        shards = self._snapshots.setdefault((snapshot.monitor, snapshot.time), {})
        before = shards.get(snapshot.shard)
        if before is not None and before.tick >= snapshot.tick:
            return None
        shards[snapshot.shard] = snapshot
        self._note(snapshot.tick, snapshot.as_of)
        change = SnapshotChange(before, snapshot)
        return change if change.fresh or before is None or before.status != snapshot.status else None

    def _add_hot_spots(self, snapshot: HotSpotsSnapshot) -> Change | None:
        before = self._hot_spots.get(snapshot.monitor)
        if before is not None and parse_instant(before.time) >= parse_instant(snapshot.time):
            return None
        self._hot_spots[snapshot.monitor] = snapshot
        self._note(snapshot.tick, snapshot.as_of)
        return HotSpotsChange(snapshot)

    def _note(self, tick: int, as_of: str) -> None:
        if self.tick is None or tick > self.tick:
            self.tick, self.as_of = tick, as_of
            self._forget(tick - _HELD_TICKS)

    def _forget(self, oldest: int) -> None:
        """Drop designated times of which nothing has been said lately: their horizon is over."""
        for key, shards in list(self._snapshots.items()):
            if max(snapshot.tick for snapshot in shards.values()) < oldest:
                del self._snapshots[key]

    @property
    def empty(self) -> bool:
        """Whether nothing was said yet."""
        return self.tick is None

    @property
    def alerts(self) -> list[Alert]:
        """What was said last about each location over time, by monitor, in the registry's order."""
        rows, last = self.registry.rows, len(self.registry.ids)
        return sorted(
            self._alerts.values(),
            key=lambda alert: (alert.monitor, rows.get(alert.location_id, last), alert.location_id),
        )

    @property
    def hot_spots(self) -> list[HotSpotsSnapshot]:
        """The latest hot spots of each monitor, by monitor: they stay what is known until the next are drawn."""
        return [self._hot_spots[monitor] for monitor in sorted(self._hot_spots)]

    @property
    def times(self) -> list[AtTime]:
        """The designated times that something is still said about, by monitor, the latest first."""
        found = [AtTime(monitor, time, shards, self.registry) for (monitor, time), shards in self._snapshots.items()]
        found.sort(key=lambda one: one.time, reverse=True)
        return sorted(found, key=lambda one: one.monitor)
