"""Folds the records of the output topic into the current state of each location, without Kafka, a clock or a screen.

A subscriber needs only the records and its copy of the public registry. `known_at_a_moment.py` derives from this
state what is known about each place at a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from monitor.client.bound_of_whole_window import find_window_bound
from monitor.client.designated_time import AtTime, Snapshots
from monitor.kinds.all_answers import TOTALS
from monitor.kinds.at_times.record import AT_TIMES, AtTimesSnapshot
from monitor.kinds.base.record_of_designated_times import TotalSnapshot
from monitor.kinds.locations import Registry
from monitor.kinds.over_time.record import OVER_TIME, OverTimeAlert
from monitor.kinds.upper_bound.record import UPPER_BOUND, UpperBoundAlert
from monitor.records.fields import (
    UNREADABLE,
    Location,
    Name,
    Positive,
    Time,
    Whole,
    check_name,
    check_time,
    make_decoder,
)
from monitor.time.instants import DAY, parse_instant

Headers = Sequence[tuple[str, bytes | None]]

_KEPT_TICKS: Final = 1  # the last tick may still be incomplete, so the state at the tick before it is still shown
_KEPT_SLOTS: Final = 24
_KEPT_REGISTRIES: Final = 4


def keep_for(slot: int, final_for: int = DAY) -> int:
    """Return how long places and times without new records are kept: `final_for`, or 24 slots if that is longer.

    All durations are in microseconds.
    """
    return max(final_for, _KEPT_SLOTS * slot)


class AlertSubject(Struct, frozen=True):
    """What an `over_time` record of any form is about: a location, and its tick's as_of."""

    monitor: Name
    location_id: Location
    as_of: Time

    def __post_init__(self) -> None:
        """Raise ValueError if the name or the time has another form."""
        check_name(self.monitor)
        check_time(self.as_of)


class SnapshotSubject(Struct, frozen=True):
    """What an `at_times` record of any form is about: a time and a shard, and its tick's as_of."""

    monitor: Name
    time: Time
    shard: Whole
    shards: Positive
    as_of: Time

    def __post_init__(self) -> None:
        """Raise ValueError if the name or a time has another form."""
        check_name(self.monitor)
        check_time(self.time)
        check_time(self.as_of)


read_alert: Final = make_decoder(OverTimeAlert)
read_alert_subject: Final = make_decoder(AlertSubject)
read_snapshot: Final = make_decoder(AtTimesSnapshot)
read_snapshot_subject: Final = make_decoder(SnapshotSubject)
read_bound: Final = make_decoder(UpperBoundAlert)
_TOTAL_READERS: Final = {kind: make_decoder(form) for kind, form in TOTALS.items()}


def read_total(kind: str, value: bytes) -> TotalSnapshot:
    """Read an answer about all places together. `kind`: its ce_type, one of `TOTALS`."""
    return _TOTAL_READERS[kind](value)


@dataclass(frozen=True, slots=True)
class AlertChange:
    """A change of the alert about one location (`over_time`). `before` is None for the first alert."""

    before: OverTimeAlert | None
    now: OverTimeAlert


@dataclass(frozen=True, slots=True)
class SnapshotChange:
    """The first snapshot of a shard at a designated time, or one with another status, new noisy counts or bounds."""

    before: AtTimesSnapshot | None
    now: AtTimesSnapshot

    @property
    def fresh(self) -> dict[str, int]:
        """The new noisy counts, by location."""
        before = {} if self.before is None else self.before.noisy_counts
        known = {(place, number.tick) for place, noisy in before.items() for number in noisy.numbers}
        latest = {place: noisy.numbers[-1] for place, noisy in self.now.noisy_counts.items()}
        return {place: number.noisy_count for place, number in latest.items() if (place, number.tick) not in known}

    @property
    def bounded(self) -> bool:
        """Whether lower bounds are new."""
        return bool(self.now.bounds) and (self.before is None or not self.before.bounds)


@dataclass(frozen=True, slots=True)
class TotalChange:
    """A new answer about all places together, about a later designated time than all earlier ones of the monitor."""

    now: TotalSnapshot


@dataclass(frozen=True, slots=True)
class BoundChange:
    """A new upper bound of a location (`upper_bound`), which has one at the end of each bucket."""

    now: UpperBoundAlert


Change = AlertChange | SnapshotChange | TotalChange | BoundChange


@dataclass
class SubscriberView:
    """The current state of all locations. `unreadable` counts invalid records of a known type.

    Records may come twice, late and in any order. The latest as_of counts, not the latest tick, because a change of the
    slot grid numbers ticks differently. If a record is not understood, because it has a newer form, the earlier
    answer about its subject no longer counts.

    `keep`: how long (in microseconds; see `keep_for`) a place or time without new records is kept. Later it counts as
    no longer watched. `earlier`: registries that the service may still use, latest first. `problem`: why no answer is
    believed (`distrust`), empty if answers are. `signer`: the name of the key that has signed the answers, empty if
    signatures are not verified.

    Others only read `alert_index`, the latest `over_time` record by monitor and location (also one that was not
    understood), `alert_monitors`, the monitors of these records, `snapshot_index`, snapshots by monitor and time, and
    `bound_index`, the latest upper bound by location and monitor.
    """

    registry: Registry
    keep: int = DAY
    unreadable: int = 0
    earlier: tuple[Registry, ...] = ()
    problem: str = ""
    signer: str = ""
    tick: int | None = None
    as_of: str | None = None
    _latest: int | None = None
    alert_index: dict[tuple[str, str], OverTimeAlert | AlertSubject] = field(default_factory=dict, init=False)
    alert_monitors: set[str] = field(default_factory=set, init=False)
    snapshot_index: dict[tuple[str, str], Snapshots] = field(default_factory=dict, init=False)
    bound_index: dict[str, dict[str, UpperBoundAlert]] = field(default_factory=dict, init=False)
    _noisy: dict[tuple[str, str], list[OverTimeAlert]] = field(default_factory=dict)  # the latest, and what it repeats
    _totals: dict[tuple[str, str], TotalSnapshot] = field(default_factory=dict)  # of each monitor

    def use(self, registry: Registry) -> None:
        """Use another registry from now on. The present one becomes an earlier one."""
        known = (self.registry, *self.earlier)
        self.earlier = tuple(one for one in known if one.digest != registry.digest)[:_KEPT_REGISTRIES]
        self.registry = registry

    def distrust(self, problem: str) -> None:
        """Forget all answers, and believe none from now on, because their signatures show that some were altered.

        With an empty problem, believe those that are added from now on.
        """
        self.problem = problem
        for known in (
            self.alert_index,
            self._noisy,
            self.alert_monitors,
            self.snapshot_index,
            self._totals,
            self.bound_index,
        ):
            known.clear()

    def add(self, headers: Headers, value: bytes | None) -> Change | None:
        """Add a record, and return the change; None if nothing changes. Records of unknown types are skipped."""
        if self.problem:
            return None
        kind = (dict(headers).get("ce_type") or b"").decode(errors="replace")
        adders: dict[str, Callable[[bytes], Change | None]] = {
            OVER_TIME: self._add_alert,
            AT_TIMES: self._add_snapshot,
            UPPER_BOUND: self._add_bound,
            **dict.fromkeys(TOTALS, lambda value: self._add_total(read_total(kind, value))),
        }
        add = adders.get(kind)
        try:
            return None if add is None else add(value or b"")
        except UNREADABLE:  # it does not name what it is about
            self.unreadable += 1
            return None

    def _add_alert(self, value: bytes) -> Change | None:
        alert: OverTimeAlert | None = None  # None: a newer form
        with suppress(*UNREADABLE):
            alert = read_alert(value)
        about = alert or read_alert_subject(value)
        key, as_of = (about.monitor, about.location_id), parse_instant(about.as_of)
        self.unreadable += alert is None
        self._note_alarm(key, alert)
        before = self.alert_index.get(key)
        if before is not None and parse_instant(before.as_of) >= as_of:
            return None
        self.alert_index[key] = about
        self.alert_monitors.add(about.monitor)
        self._advance(about.as_of, alert.tick if alert else None)
        understood = None if isinstance(before, AlertSubject) else before
        same = understood and alert and _read_state(understood) == _read_state(alert) != ("noisy_count", False)
        return None if alert is None or same else AlertChange(understood, alert)

    def _note_alarm(self, key: tuple[str, str], alert: OverTimeAlert | None) -> None:
        """Note the record of a noisy count, with the earlier ones that the latest record still repeats."""
        if alert is None or alert.status != "noisy_count":
            return
        others = (one for one in self._noisy.get(key, ()) if one.as_of != alert.as_of)
        known = sorted([*others, alert], key=lambda one: parse_instant(one.as_of))
        repeated = {mark.tick for mark in known[-1].answers}
        self._noisy[key] = [one for one in known if one is known[-1] or one.tick in repeated]

    def _add_snapshot(self, value: bytes) -> Change | None:
        snapshot: AtTimesSnapshot | None = None  # None: a newer form
        with suppress(*UNREADABLE):
            snapshot = read_snapshot(value)
        about = snapshot or read_snapshot_subject(value)
        time, as_of = parse_instant(about.time), parse_instant(about.as_of)
        self.unreadable += snapshot is None
        if about.shard >= about.shards:
            return None
        known = self.snapshot_index.setdefault((about.monitor, about.time), Snapshots(time, about.shards, as_of))
        if not known.accepts(about.shard, about.shards, as_of):
            return None
        before = known.understood.get(about.shard) if known.shards == about.shards else None
        known.put(about.shard, about.shards, as_of, snapshot)
        self._advance(about.as_of, snapshot.tick if snapshot else None)
        if snapshot is None:
            return None
        change = SnapshotChange(before, snapshot)
        changed = change.fresh or change.bounded or before is None or before.status != snapshot.status
        return change if changed else None

    def _add_total(self, snapshot: TotalSnapshot) -> Change | None:
        key = snapshot.kind, snapshot.monitor
        time, before = parse_instant(snapshot.time), self._totals.get(key)
        if before is not None and parse_instant(before.time) >= time:
            return None
        self._advance(snapshot.as_of, snapshot.tick)
        self._totals[key] = snapshot
        return TotalChange(snapshot)

    def _add_bound(self, value: bytes) -> Change | None:
        bound = read_bound(value)
        of_place = self.bound_index.setdefault(bound.location_id, {})
        before = of_place.get(bound.monitor)
        if before is not None and parse_instant(before.as_of) >= parse_instant(bound.as_of):
            return None
        of_place[bound.monitor] = bound
        self._advance(bound.as_of, bound.tick)
        return BoundChange(bound)

    def _advance(self, as_of: str, tick: int | None = None) -> None:
        """Note the as_of of a record, and its tick if the record was understood."""
        instant = parse_instant(as_of)
        if self._latest is None or instant > self._latest:
            self._latest = instant
            self._forget(instant - self.keep)
        if tick is not None and (self.as_of is None or instant > parse_instant(self.as_of)):
            self.tick, self.as_of = tick, as_of

    def _forget(self, oldest: int) -> None:
        for place, alert in list(self.alert_index.items()):
            if parse_instant(alert.as_of) < oldest:
                del self.alert_index[place]
        for key, snapshots in list(self.snapshot_index.items()):
            if snapshots.as_of < oldest:
                del self.snapshot_index[key]

    @property
    def empty(self) -> bool:
        """Whether no record has been understood yet."""
        return self.tick is None

    @property
    def alerts(self) -> list[OverTimeAlert]:
        """The latest `over_time` alert of each location, sorted by monitor, then in registry order."""
        rows, last = self.registry.rows, len(self.registry.ids)
        return sorted(
            (alert for alert in self.alert_index.values() if not isinstance(alert, AlertSubject)),
            key=lambda alert: (alert.monitor, rows.get(alert.location_id, last), alert.location_id),
        )

    @property
    def totals(self) -> list[TotalSnapshot]:
        """The latest answer about all places together of each monitor, sorted by monitor."""
        return sorted(self._totals.values(), key=lambda snapshot: snapshot.monitor)

    def list_bounds(self, now: int) -> list[UpperBoundAlert]:
        """Return the latest upper bound of each location, by monitor, in registry order, if it is valid at an instant.

        It is valid for two buckets: a newer one comes after one, unless it is late.
        """
        rows, last = self.registry.rows, len(self.registry.ids)
        known = (bound for of_place in self.bound_index.values() for bound in of_place.values())
        valid = [bound for bound in known if now <= bound.valid_until]
        return sorted(valid, key=lambda one: (one.monitor, rows.get(one.location_id, last), one.location_id))

    @property
    def named_places(self) -> list[tuple[TotalSnapshot, str, int]]:
        """The answers in `totals` that name places, with each place and its upper bound."""
        return [(total, *bound) for total in self.totals for bound in total.list_bounds()]

    @property
    def times(self) -> list[AtTime]:
        """The designated times with recent snapshots or alarms, by monitor, then from the latest to the earliest."""
        times = []
        for (monitor, time), snapshots in self.snapshot_index.items():
            if snapshots.understood:
                at = AtTime(monitor, time, snapshots.understood, dict(sorted(snapshots.bounds.items())), self.registry)
                is_recent = self.tick is None or abs(at.tick - self.tick) <= _KEPT_TICKS
                times += [at] if is_recent or at.noisy_counts else []
        times.sort(key=lambda at: at.time, reverse=True)
        return sorted(times, key=lambda at: at.monitor)

    def find_alarm(self, monitor: str, location_id: str, as_of: int) -> OverTimeAlert | None:
        """Return the record of the latest alarm of a place, if it was added and has this as_of (an instant)."""
        known = self._noisy.get((monitor, location_id))
        return known[-1] if known and parse_instant(known[-1].as_of) == as_of else None

    def find_window_bound(self, alert: OverTimeAlert, slot: int) -> int | None:
        """Return a certain upper bound of the people in the whole window of an answer; None if none is known."""
        return find_window_bound(alert, self._noisy.get((alert.monitor, alert.location_id), ()), slot)


def _read_state(alert: OverTimeAlert) -> tuple[str, bool]:
    return alert.status, alert.is_below_since
