"""What the records of the output topic say about each place at any moment.

docs/subscribers.md has the rules. Clients in every language must pass the test vectors in docs/vectors/answers.json.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from functools import cache, lru_cache, partial
from typing import Final

from msgspec import UNSET, UnsetType

from monitor.client.answer_types import About, Answer, Known, Reason, State, Strength, find_latest_alarm
from monitor.client.designated_time import Snapshots, calls_others_safe, find_upper_bound
from monitor.client.state_from_records import AlertSubject, SubscriberView
from monitor.kinds.at_times.record import AtTimesSnapshot
from monitor.kinds.locations import find_shard
from monitor.kinds.over_time.record import OverTimeAlert
from monitor.privacy.over_time import compute_p_value
from monitor.time.instants import DAY, YEAR, parse_instant, to_datetime, to_instant

VALID_SLOTS: Final = 2
"""The number of slots after its as_of for which an answer is valid. A newer one comes earlier, unless it is late."""
_LAST: Final = to_instant(datetime.fromisoformat("9999-12-31T00:00:00+00:00"))
_REASONS: Final[dict[State, Reason]] = {
    "safe": "below_threshold",
    "noisy_count": "noisy",
    "below_since": "below_threshold",
    "paused": "budget_spent",
    "unknown": "input_incomplete",
}
_NOT_VERIFIED: Final = Answer("unknown", "not_verified")


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

    def get(self, location_id: str) -> Known:
        """Return what is known about a place. It never raises: a place without records is unknown.

        Upper bounds and hot spots are compared with no threshold, so they count only if there is no other answer: first
        the bounds, then the hot spots.
        """
        if self.view.problem:
            return Known((_NOT_VERIFIED,), self.now, self.slot)
        finders = self._find_compared, self._find_bounded, self._find_named
        found = (answers for find in finders if (answers := tuple(find(location_id))))
        return Known(next(found, ()), self.now, self.slot)

    def answers(self, location_id: str) -> list[Known]:
        """Return what each monitor says about a place, including bounds and hot spots, sorted by monitor."""
        finders = self._find_compared, self._find_bounded, self._find_named
        answers = [answer for find in finders for answer in find(location_id)]
        answers.sort(key=lambda answer: answer.caution[-1])
        return [Known((answer,), self.now, self.slot) for answer in answers]

    def places(self) -> list[str]:
        """Return the ids of all places: those of the registry in its order, then others that records name, sorted."""
        rows = self.view.registry.rows
        others = {location for _, location in self.view.alert_index if location not in rows}
        others |= {location for _, location, _ in self.view.named_places} - rows.keys()
        others |= self.view.bound_index.keys() - rows.keys()
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
        encodable = location_id.encode(errors="replace").decode()  # callers may pass any text
        shard_of = cache(partial(find_shard, encodable))
        latest: dict[str, tuple[Snapshots, int]] = {}
        alarms: dict[str, list[Answer]] = {}
        for (monitor, _), snapshots in self.view.snapshot_index.items():
            shard = shard_of(snapshots.shards)
            if shard not in snapshots.by_shard:
                continue
            if monitor not in latest or latest[monitor][0].time < snapshots.time:
                latest[monitor] = snapshots, shard
            snapshot = snapshots.by_shard[shard]
            if snapshot is not None and location_id in snapshot.noisy_counts:
                alarms.setdefault(monitor, []).append(self._read_alarm_at(monitor, snapshots, snapshot, location_id))
        for monitor, (snapshots, shard) in latest.items():
            alarm = find_latest_alarm(alarms[monitor]) if monitor in alarms else None
            yield self._read_snapshot(monitor, snapshots, shard, location_id, alarm)

    def _read_alarm_at(self, monitor: str, snapshots: Snapshots, snapshot: AtTimesSnapshot, location_id: str) -> Answer:
        """Return the noisy count of a snapshot about a place. It counts for as long as the last answer about a time."""
        as_of, noisy = snapshots.as_ofs[snapshot.shard], snapshot.noisy_counts[location_id]
        *earlier, latest = noisy.numbers
        counted = max(0, as_of - max(0, snapshot.tick - latest.tick) * self.slot)
        until, least = self._valid_until(as_of, final=True), snapshots.bounds.get(location_id, 0)
        since = max(0, counted - (latest.tick - earlier[-1].tick) * self.slot) if earlier else None
        about = _make_about(monitor, "at_times", snapshots.time, snapshot.threshold, since)
        most, since_at_most = find_upper_bound(least, noisy.upper_bound), latest.noisy_count if earlier else None
        alarm = Answer("noisy_count", "noisy", counted, until, most, least, about, since_at_most=since_at_most)
        return self._compare(alarm, latest.epsilon or snapshot.epsilon)

    def find_last_alarm(self, alert: OverTimeAlert) -> Answer | None:
        """Return the last noisy count that an `over_time` record repeats, as of its own tick; None if it repeats none.

        It counts for as long as an answer at the last tick of its mark. Its window and threshold are only in its own
        record, because they may have changed since.
        """
        mark = max(alert.answers, key=lambda answer: answer.tick, default=None)
        if mark is None:
            return None
        as_of = parse_instant(alert.as_of)
        counted = min(max(0, as_of - (alert.tick - mark.tick) * self.slot), _LAST)
        until = self._valid_until(min(max(0, as_of + (mark.until - alert.tick) * self.slot), _LAST))
        own = self.view.find_alarm(alert.monitor, alert.location_id, counted)
        if own is not None:
            return replace(self._read_counted(own), state="noisy_count", reason="noisy", valid_until=until)
        about = About(alert.monitor, "over_time", None, to_datetime(counted))
        if any(other.tick < mark.tick for other in alert.answers):  # the count continues that of an earlier alarm
            return Answer("noisy_count", "noisy", counted, until, about=about, since_at_most=mark.noisy_count)
        return Answer("noisy_count", "noisy", counted, until, mark.noisy_count, about=about)

    def _compare(self, alarm: Answer, epsilon: Fraction) -> Answer:
        """Return an alarm with its strength; unchanged if it has no upper bound, or its threshold is not known."""
        threshold = alarm.about.threshold if alarm.about else None
        most = alarm.count_at_most if alarm.since_at_most is None else alarm.since_at_most
        if threshold is None or most is None or most < threshold:
            return alarm
        p_value = compute_p_value(epsilon, threshold, most)
        return replace(alarm, p_value=p_value, strength=judge_strength(p_value, count_draws(self.view, self.slot)))

    def _find_bounded(self, location_id: str) -> Iterator[Answer]:
        """Yield the upper bounds of a place. A bound is valid for longer than other answers: for two buckets."""
        for bound in self.view.bound_index.get(location_id, {}).values():
            as_of, start = parse_instant(bound.as_of), _read_time(bound.window_start)
            about = About(bound.monitor, bound.kind, start, to_datetime(as_of))
            until = min(max(bound.valid_until, self._valid_until(as_of)), _LAST)
            if bound.upper_bound is None:
                yield Answer("unknown", "input_incomplete", as_of, until, about=about)
            else:
                yield Answer("bounded", "no_threshold", as_of, until, bound.upper_bound, about=about)

    def _find_named(self, location_id: str) -> Iterator[Answer]:
        for total, location, most in self.view.named_places:
            if location == location_id:
                about = _make_about(total.monitor, total.kind, parse_instant(total.time))
                as_of = parse_instant(total.as_of)
                until = self._valid_until(as_of, final=True)
                yield Answer("noisy_count", "noisy", as_of, until, most, about=about)

    def _valid_until(self, as_of: int, *, final: bool = False) -> int:
        return min(as_of + max(VALID_SLOTS * self.slot, self.final_for if final else 0), _LAST)

    def _read_alert(self, alert: OverTimeAlert | AlertSubject) -> Answer:
        if isinstance(alert, AlertSubject):
            as_of = parse_instant(alert.as_of)
            about = About(alert.monitor, "over_time", None, to_datetime(as_of))
            return Answer("unknown", "not_understood", as_of, self._valid_until(as_of), about=about)
        return replace(self._read_counted(alert), last_alarm=self.find_last_alarm(alert))

    def _read_counted(self, alert: OverTimeAlert) -> Answer:
        """Return the answer of a record about one location, without an earlier alarm."""
        as_of = parse_instant(alert.as_of)
        state: State = "below_since" if alert.is_below_since else alert.status
        paused_until = alert.resumes_at if alert.status == "paused" else UNSET
        start, resumes_at, since = map(_read_time, (alert.window_start, paused_until, alert.counted_since))
        about = About(alert.monitor, "over_time", start, to_datetime(as_of), alert.threshold, resumes_at, since)
        most = self.view.find_window_bound(alert, self.slot)
        since_at_most = None if since is None else alert.upper_bound
        answer = Answer(
            state, _REASONS[state], as_of, self._valid_until(as_of), most, about=about, since_at_most=since_at_most
        )
        return self._compare(answer, alert.epsilon) if alert.status == "noisy_count" else answer

    def _read_snapshot(
        self, monitor: str, snapshots: Snapshots, shard: int, location_id: str, alarm: Answer | None
    ) -> Answer:
        snapshot, as_of, time = snapshots.by_shard[shard], snapshots.as_ofs[shard], snapshots.time
        if snapshot is None:
            about = _make_about(monitor, "at_times", time)
            return Answer("unknown", "not_understood", as_of, self._valid_until(as_of), about=about, last_alarm=alarm)
        until = self._valid_until(as_of, final=snapshot.final)
        if location_id in snapshot.noisy_counts:
            own = self._read_alarm_at(monitor, snapshots, snapshot, location_id)
            own = replace(own, valid_until=until, last_alarm=alarm)
            return _read_below_since(own, snapshot, location_id, as_of) if snapshot.is_below_since(location_id) else own
        about = _make_about(monitor, "at_times", time, snapshot.threshold)
        registries = (self.view.registry, *self.view.earlier)
        if any(calls_others_safe(snapshot, one) and location_id in one.rows for one in registries):
            least = snapshots.bounds.get(location_id, 0)
            return Answer("safe", "below_threshold", as_of, until, snapshot.threshold - 1, least, about, alarm)
        reason: Reason = "input_incomplete" if snapshot.status == "unknown" else "other_registry"
        return Answer("unknown", reason, as_of, until, about=about, last_alarm=alarm)


def _read_below_since(own: Answer, snapshot: AtTimesSnapshot, location_id: str, as_of: int) -> Answer:
    """Return the answer of a snapshot that counted a place since its latest noisy count, which is the answer `own`."""
    since = _read_time(snapshot.noisy_counts[location_id].counted_since)
    return Answer(
        "below_since",
        "below_threshold",
        as_of,
        own.valid_until,
        snapshot.find_upper_bound(location_id),
        own.count_at_least,
        own.about and replace(own.about, counted_since=since),
        own.last_alarm,
        since_at_most=snapshot.threshold - 1,
    )


def _read_time(time: str | UnsetType) -> datetime | None:
    return None if time is UNSET else to_datetime(parse_instant(time))


@lru_cache(maxsize=1024)
def _make_about(
    monitor: str, kind: str, time: int, threshold: int | None = None, counted_since: int | None = None
) -> About:
    since = None if counted_since is None else to_datetime(counted_since)
    return About(monitor, kind, to_datetime(time), to_datetime(time), threshold, counted_since=since)


def judge_strength(p_value: float, draws: float) -> Strength:
    """Return "far_above" if noise alone raises so high an answer less than once in a year with this many draws."""
    return "far_above" if p_value * draws < 1 else "just_above"


def count_draws(view: SubscriberView, slot: int) -> float:
    """Return how often noise is drawn in a year, at all places together.

    It is drawn at each tick: for each place over time, and for all places about each designated time that is not final.
    Pauses and marks lower the number. Each monitor counts with one designated time or more, because a later one follows
    the final one.
    """
    open_times = Counter(
        monitor
        for (monitor, _time), snapshots in view.snapshot_index.items()
        if len(snapshots.by_shard) < snapshots.shards or not all(one.final for one in snapshots.understood.values())
    )
    times = sum(max(1, open_times[monitor]) for monitor in {monitor for monitor, _time in view.snapshot_index})
    return (len(view.alert_index) + len(view.registry.ids) * times) * YEAR / slot
