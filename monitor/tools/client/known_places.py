"""Derives from a view what is known about each place at a moment. Pure: the clock is injected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Final

from monitor.contracts.alerts import NoisyCountAlert, PausedAlert
from monitor.contracts.instants import DAY, parse_instant, to_datetime, to_instant
from monitor.tools.client.designated_time import Shards, Snapshots, calls_others_safe, find_upper_bound
from monitor.tools.client.known import About, Answer, Kind, Known, Reason, State
from monitor.tools.client.subscriber_view import Alert, AlertSubject, SubscriberView

VALID_SLOTS: Final = 2
"""The number of slots after its as_of for which an answer is valid. A newer one comes earlier, unless it is late."""

_LAST: Final = to_instant(datetime.fromisoformat("9999-12-31T00:00:00+00:00"))
_REASONS: Final[dict[State, Reason]] = {
    "safe": "below_threshold",
    "noisy_count": "noisy",
    "paused": "budget_spent",
    "unknown": "input_incomplete",
}


@dataclass(frozen=True)
class KnownPlaces:
    """What a view knows about each place.

    `slot` is the length of a slot. `final_for` is how long the last answer about a designated time stays valid, if that
    is longer than two slots: no newer one follows. Both are in microseconds. `now` returns the present as an instant.
    """

    view: SubscriberView
    slot: int
    now: Callable[[], int]
    final_for: int = DAY
    _shards: Shards = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Prepare the division of the view's registry into shards, which is computed when it is needed."""
        object.__setattr__(self, "_shards", Shards(self.view.registry))

    def get(self, location_id: str) -> Known:
        """Return what is known about a place. It never raises: a place without records is unknown.

        Hot spots are compared with no threshold, so they count only if there is no other answer.
        """
        answers = tuple(self._find_compared(location_id))
        return Known(answers or tuple(self._find_hot_spots(location_id)), self.now, self.slot)

    def answers(self, location_id: str) -> list[Known]:
        """Return what each monitor says about a place, including its hot spots, sorted by monitor."""
        answers = [*self._find_compared(location_id), *self._find_hot_spots(location_id)]
        answers.sort(key=lambda answer: answer.caution[-1])
        return [Known((answer,), self.now, self.slot) for answer in answers]

    def places(self) -> list[str]:
        """Return the ids of all places: those of the registry in its order, then others that records name, sorted."""
        rows = self.view.registry.rows
        others = {location for _, location in self.view.alert_index if location not in rows}
        others |= {spot.location_id for spots in self.view.hot_spots for spot in spots.hot_spots} - rows.keys()
        return [*self.view.registry.ids, *sorted(others)]

    def is_old(self, as_of: str, *, final: bool = False) -> bool:
        """Return whether an answer with this as_of is no longer valid. `final`: it is the last one about its time."""
        return self.now() > self._valid_until(parse_instant(as_of), final=final)

    def _find_compared(self, location_id: str) -> Iterator[Answer]:
        """Yield the answers of the monitors that compare counts with a threshold."""
        for monitor in self.view.alert_monitors:
            alert = self.view.alert_index.get((monitor, location_id))
            if alert is not None:
                yield self._read_alert(alert)
        latest: dict[str, tuple[Snapshots, int]] = {}
        for (monitor, _), snapshots in self.view.snapshot_index.items():
            shard = self._shards.of(location_id, snapshots.shards)
            if shard in snapshots.by_shard and (monitor not in latest or latest[monitor][0].time < snapshots.time):
                latest[monitor] = snapshots, shard
        for monitor, (snapshots, shard) in latest.items():
            yield self._read_snapshot(monitor, snapshots, shard, location_id)

    def _find_hot_spots(self, location_id: str) -> Iterator[Answer]:
        for snapshot in self.view.hot_spots:
            about = _make_about(snapshot.monitor, "hot_spots", parse_instant(snapshot.time))
            as_of = parse_instant(snapshot.as_of)
            for spot in snapshot.hot_spots:
                if spot.location_id == location_id:
                    until = self._valid_until(as_of, final=True)
                    yield Answer("noisy_count", "noisy", as_of, until, spot.noisy_count, about=about)

    def _valid_until(self, as_of: int, *, final: bool = False) -> int:
        return min(as_of + max(VALID_SLOTS * self.slot, self.final_for if final else 0), _LAST)

    def _read_alert(self, alert: Alert | AlertSubject) -> Answer:
        as_of = parse_instant(alert.as_of)
        until, end = self._valid_until(as_of), to_datetime(as_of)
        if isinstance(alert, AlertSubject):
            about = About(alert.monitor, "over_time", None, end)
            return Answer("unknown", "not_understood", as_of, until, about=about)
        resumes_at = _datetime(alert.resumes_at) if isinstance(alert, PausedAlert) else None
        about = About(alert.monitor, "over_time", _datetime(alert.window_start), end, alert.threshold, resumes_at)
        most = alert.count_at_most if isinstance(alert, NoisyCountAlert) else None
        most = alert.threshold - 1 if alert.status == "safe" else most
        return Answer(alert.status, _REASONS[alert.status], as_of, until, most, about=about)

    def _read_snapshot(self, monitor: str, snapshots: Snapshots, shard: int, location_id: str) -> Answer:
        snapshot, as_of, time = snapshots.by_shard[shard], snapshots.as_ofs[shard], snapshots.time
        if snapshot is None:
            about = _make_about(monitor, "at_times", time)
            return Answer("unknown", "not_understood", as_of, self._valid_until(as_of), about=about)
        least, noisy = snapshots.bounds.get(location_id, 0), snapshot.noisy_counts.get(location_id)
        until = self._valid_until(as_of, final=snapshot.final)
        about = _make_about(monitor, "at_times", time, snapshot.threshold)
        if noisy is not None:
            counted = max(0, as_of - max(0, snapshot.tick - noisy.tick) * self.slot)
            most = find_upper_bound(least, noisy.noisy_count)
            return Answer("noisy_count", "noisy", counted, until, most, least, about)
        registries = (self.view.registry, *self.view.earlier)
        if any(calls_others_safe(snapshot, one) and location_id in one.rows for one in registries):
            return Answer("safe", "below_threshold", as_of, until, snapshot.threshold - 1, least, about)
        reason: Reason = "input_incomplete" if snapshot.status == "unknown" else "other_registry"
        return Answer("unknown", reason, as_of, until, about=about)


@lru_cache(maxsize=1024)
def _make_about(monitor: str, kind: Kind, time: int, threshold: int | None = None) -> About:
    return About(monitor, kind, to_datetime(time), to_datetime(time), threshold)


def _datetime(text: str) -> datetime:
    return to_datetime(parse_instant(text))
