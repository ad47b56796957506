"""What is known about a place: an answer that becomes unknown by itself when it is no longer valid.

docs/subscribers.md has the rules. Clients in every language must pass the test vectors in docs/vectors/answers.json.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from functools import cache, lru_cache, partial
from typing import Final, Literal

from msgspec import UNSET, UnsetType

from monitor.client.designated_time import Snapshots, calls_others_safe, find_upper_bound
from monitor.client.strength import Strength, count_draws, judge_strength
from monitor.client.subscriber_view import AlertSubject, SubscriberView
from monitor.kinds.at_times.record import AtTimesSnapshot
from monitor.kinds.locations import find_shard
from monitor.kinds.over_time.record import OverTimeAlert
from monitor.privacy.over_time import compute_p_value
from monitor.time.instants import DAY, parse_instant, to_datetime, to_instant

State = Literal["safe", "noisy_count", "below_since", "paused", "unknown", "bounded"]
Reason = Literal[
    "below_threshold",
    "noisy",
    "budget_spent",
    "no_threshold",
    "nothing_published",
    "too_old",
    "input_incomplete",
    "other_registry",
    "not_understood",
    "clock_behind",
    "not_verified",
]

_CAUTION: Final[dict[State, int]] = {
    "noisy_count": 0,
    "below_since": 1,
    "paused": 2,
    "unknown": 3,
    "safe": 4,
    "bounded": 5,
}
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


@dataclass(frozen=True, slots=True)
class About:
    """What an answer is about: the monitor, and the time of the visits that it counts.

    `start` equals `end` for a designated time. `start` is None if the record was not understood. `threshold` is None
    for hot spots and upper bounds, which are compared with no threshold. `resumes_at` is set while a place is paused.
    `counted_since` is set if only people reported since then, at a noisy count, were counted.
    """

    monitor: str
    kind: str
    start: datetime | None
    end: datetime
    threshold: int | None = None
    resumes_at: datetime | None = None
    counted_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """One monitor's answer about one place, as published or as read at an instant (`at`). Times are instants.

    `count_at_most` is None without a certain upper bound. A `count_at_least` of 0 has no information. `last_alarm` is
    the monitor's last noisy count while it still counts, whatever the state is now: None if there is none.

    `p_value`: the largest chance per update of a noisy count this high from fewer than `about.threshold` people.
    `strength`: "far_above" if noise alone does this less than once a year at all places together, else "just_above".
    Both are None without a noisy count that is compared with a known threshold.

    `since_at_most` is set for a count that started afresh: a certain upper bound of the people who were reported since
    `about.counted_since`. `count_at_most` is then the bound for the whole window, with the earlier noisy counts.
    """

    state: State
    reason: Reason
    as_of: int | None = None
    valid_until: int | None = None
    count_at_most: int | None = None
    count_at_least: int = 0
    about: About | None = None
    last_alarm: Answer | None = None
    p_value: float | None = field(default=None, compare=False)
    strength: Strength | None = field(default=None, compare=False)
    since_at_most: int | None = None

    def at(self, now: int, slot: int) -> Answer:
        """Return the answer as it has to be read at an instant: unknown if it is not valid then.

        A clock that is more than a slot behind the as_of is wrong, so it cannot judge the age of the answer. An alarm
        stays true when the answer expires, so it has its own `valid_until`.
        """
        if self.last_alarm is not None and now > (self.last_alarm.valid_until or 0):
            return replace(self, last_alarm=None).at(now, slot)
        if self.state == "unknown" or self.as_of is None or self.valid_until is None:
            return self
        if now > self.valid_until:
            return self._unknown("too_old")
        return self._unknown("clock_behind") if now + slot < self.as_of else self

    def find_end(self, slot: int) -> int | None:
        """Return the last instant at which an answer that `at` returned is read in this way; None if it stays so."""
        end = None if self.state == "unknown" else self.valid_until
        if self.reason == "clock_behind" and self.as_of is not None:
            end = self.as_of - slot - 1
        ends = (end, self.last_alarm.valid_until if self.last_alarm else None)
        return min((one for one in ends if one is not None), default=None)

    def _unknown(self, reason: Reason) -> Answer:
        unknown = replace(self, state="unknown", reason=reason, count_at_most=None, count_at_least=0)
        return replace(unknown, p_value=None, strength=None, since_at_most=None)

    @property
    def is_bound(self) -> bool:
        """Whether this is the answer of a monitor that publishes upper bounds and compares with no threshold."""
        return self.about is not None and self.about.kind == "upper_bound"

    @property
    def caution(self) -> tuple[int, int, str]:
        """The sort key: the most cautious answer first, then the one that expires first, then by monitor."""
        return _CAUTION[self.state], self.valid_until or 0, "" if self.about is None else self.about.monitor


NOTHING: Final = Answer("unknown", "nothing_published")
_NOT_VERIFIED: Final = Answer("unknown", "not_verified")


@dataclass(frozen=True, repr=False)
class Known:
    """What is known about a place. Frozen; each field is computed from the clock when it is read. Reading never raises.

    After `valid_until` the state is "unknown", although no record says so. While the state is "unknown" there are no
    bounds. If several monitors answer about the place, this is the most cautious of their answers: a noisy count, else
    below the threshold since a noisy count, else a pause, else unknown, else safe. "bounded" is a place of which only
    `count_at_most` is known. To read several fields of one moment, use `current`.

    `answers` are the answers of the monitors, `now` returns the present as an instant, and `slot` is the length of
    a slot in microseconds.
    """

    answers: tuple[Answer, ...]
    now: Callable[[], int] = field(compare=False)
    slot: int

    @property
    def current(self) -> Answer:
        """The answer at this moment, with all of its fields."""
        return self.at(self.now())

    def at(self, instant: int) -> Answer:
        """Return the answer as it has to be read at an instant, with the last alarm of any monitor."""
        answers = [answer.at(instant, self.slot) for answer in self.answers]
        leading = min(answers, key=lambda answer: answer.caution, default=NOTHING)
        alarms = [answer.last_alarm for answer in answers if answer.last_alarm is not None]
        return replace(leading, last_alarm=_find_latest(alarms)) if alarms else leading

    def find_end(self, instant: int) -> int | None:
        """Return the last instant until which each answer is read as at `instant`; None if all of them stay so."""
        ends = (answer.at(instant, self.slot).find_end(self.slot) for answer in self.answers)
        return min((end for end in ends if end is not None), default=None)

    @property
    def state(self) -> State:
        """What the place is at this moment. Only "safe" is safe."""
        return self.current.state

    @property
    def as_of(self) -> datetime | None:
        """Visits that were reported before this time are counted; None if nothing was published."""
        return _datetime(self.current.as_of)

    @property
    def valid_until(self) -> datetime | None:
        """When the state becomes "unknown" without a newer answer; None if nothing was published."""
        return _datetime(self.current.valid_until)

    @property
    def count_at_most(self) -> int | None:
        """A certain upper bound of the number of people; None if there is no such bound."""
        return self.current.count_at_most

    @property
    def since_at_most(self) -> int | None:
        """A certain upper bound of the people reported since `about.counted_since`; None if all people were counted."""
        return self.current.since_at_most

    @property
    def count_at_least(self) -> int:
        """A certain lower bound of the number of people, from those who consented. 0 has no information."""
        return self.current.count_at_least

    @property
    def reason(self) -> Reason:
        """Why the state is what it is; docs/subscribers.md lists the reasons."""
        return self.current.reason

    @property
    def last_alarm(self) -> Answer | None:
        """The last noisy count about the place that still counts, also while the place is paused, safe or unknown.

        A place that is paused because of an alarm has one until it can answer again (docs/subscribers.md).
        """
        return self.current.last_alarm

    @property
    def about(self) -> About | None:
        """The monitor whose answer this is, and the time of the visits that it counts."""
        return self.current.about

    def __repr__(self) -> str:
        """Return the fields at this moment."""
        now = self.current
        return (
            f"Known(state={now.state!r}, as_of={_datetime(now.as_of)!s}, valid_until={_datetime(now.valid_until)!s}, "
            f"count_at_most={now.count_at_most}, count_at_least={now.count_at_least}, reason={now.reason!r})"
        )


def _find_latest(alarms: Iterable[Answer]) -> Answer | None:
    """Return the alarm with the latest designated time or end of its window."""
    ends = ((alarm.about.end, alarm) for alarm in alarms if alarm.about is not None)
    return max(ends, key=lambda one: one[0], default=(None, None))[1]


def _datetime(instant: int | None) -> datetime | None:
    return None if instant is None else to_datetime(instant)


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
            alarm = _find_latest(alarms[monitor]) if monitor in alarms else None
            yield self._read_snapshot(monitor, snapshots, shard, location_id, alarm)

    def _read_alarm_at(self, monitor: str, snapshots: Snapshots, snapshot: AtTimesSnapshot, location_id: str) -> Answer:
        """Return the noisy count of a snapshot about a place. It counts for as long as the last answer about a time."""
        as_of, noisy = snapshots.as_ofs[snapshot.shard], snapshot.noisy_counts[location_id]
        counted = max(0, as_of - max(0, snapshot.tick - noisy.tick) * self.slot)
        until, least = self._valid_until(as_of, final=True), snapshots.bounds.get(location_id, 0)
        about = _make_about(monitor, "at_times", snapshots.time, snapshot.threshold)
        most = find_upper_bound(least, noisy.noisy_count)
        return self._compare(Answer("noisy_count", "noisy", counted, until, most, least, about), snapshot.epsilon)

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
            return replace(own, valid_until=until, last_alarm=alarm)
        about = _make_about(monitor, "at_times", time, snapshot.threshold)
        registries = (self.view.registry, *self.view.earlier)
        if any(calls_others_safe(snapshot, one) and location_id in one.rows for one in registries):
            least = snapshots.bounds.get(location_id, 0)
            return Answer("safe", "below_threshold", as_of, until, snapshot.threshold - 1, least, about, alarm)
        reason: Reason = "input_incomplete" if snapshot.status == "unknown" else "other_registry"
        return Answer("unknown", reason, as_of, until, about=about, last_alarm=alarm)


def _read_time(time: str | UnsetType) -> datetime | None:
    return None if time is UNSET else to_datetime(parse_instant(time))


@lru_cache(maxsize=1024)
def _make_about(monitor: str, kind: str, time: int, threshold: int | None = None) -> About:
    return About(monitor, kind, to_datetime(time), to_datetime(time), threshold)
