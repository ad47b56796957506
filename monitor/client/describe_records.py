"""Describes records in plain words. Times are in UTC."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import UNSET

from monitor.client.answer_types import Answer, describe_strength
from monitor.client.designated_time import AtTime
from monitor.client.known_at_a_moment import count_draws, judge_strength
from monitor.client.state_from_records import AlertChange, BoundChange, Change, SubscriberView, TotalChange
from monitor.kinds.base.record_of_designated_times import TotalSnapshot
from monitor.kinds.over_time.record import OverTimeAlert
from monitor.kinds.upper_bound.record import UpperBoundAlert
from monitor.privacy.over_time import compute_p_value
from monitor.time.instants import DAY, format_duration, parse_instant, to_datetime, to_instant
from monitor.time.slot_grid import SlotGrid
from monitor.values.wording import PEOPLE

NAMED: Final = 5
"""The number of places that a short line names."""

_SINCE: Final = "infected people reported since"
_UNKNOWN: Final = "unknown: not confirmed in time that all visits had been read"


def moment(instant: int | str) -> str:
    """Return an instant as text, such as `Tue 6 Jan 14:00`. Seconds are shown if there are any, as in short slots."""
    when = to_datetime(parse_instant(instant) if isinstance(instant, str) else instant)
    return f"{when:%a} {when.day} {when:%b %H:%M}{f':{when:%S}' if when.second else ''}"


def length(duration: int) -> str:
    """Return a duration as text: whole days in words, other durations as in the configuration."""
    days, rest = divmod(duration, DAY)
    return format_duration(duration) if rest or not days else f"{days} days" if days > 1 else "day"


def chance(p_value: float) -> str:
    """Return a probability in percent, with about two digits."""
    if p_value < 1e-4:  # noqa: PLR2004  # readers cannot make use of smaller values
        return "less than 0.01 %"
    return f"{p_value:.0%}".replace("%", " %") if p_value >= 0.1 else f"{100 * p_value:.2g} %"  # noqa: PLR2004  # two digits


@dataclass(frozen=True, slots=True)
class Words:
    """Describes records. `grid` is the slot grid, which turns ticks into times.

    `names`: the names of locations by id. A location without a name is called by its id.
    """

    grid: SlotGrid
    names: Mapping[str, str] = field(default_factory=dict)

    def name(self, location_id: str) -> str:
        """Return what a location is called."""
        return self.names.get(location_id, location_id)

    def alert(self, alert: OverTimeAlert, draws: float, most: int | None = None) -> str:
        """Describe the state of one location (`over_time`) at its latest tick. `draws`: as in `count_draws`.

        `most` is a certain upper bound of the people in the window, if one is known.
        """
        since = moment(alert.window_start)
        fresh = "" if alert.counted_since is UNSET else moment(alert.counted_since)
        if alert.status == "noisy_count":
            counted = f"{_SINCE} {fresh}" if fresh else f"{PEOPLE} since {since}"
            return (
                f"at most {alert.count_at_most} {counted} (certain), {_describe_strength(alert, draws)}: "
                f"with fewer, the chance of an answer this high is {chance(alert.p_value or 0)}"
                f"{self._describe_window(alert, most)}"
            )
        if alert.status == "paused" and alert.resumes_at:
            lost = "" if alert.answers else " (an earlier ledger was lost, so all ε counts as spent)"
            return f"paused until {moment(alert.resumes_at)}, its ε is spent{lost}"
        if fresh and alert.status == "safe":
            return f"fewer than {alert.threshold} {_SINCE} {fresh}{self._describe_window(alert, most)}"
        if alert.status == "safe":
            return f"safe: fewer than {alert.threshold} {PEOPLE} since {since}"
        return _UNKNOWN

    @staticmethod
    def _describe_window(alert: OverTimeAlert, most: int | None) -> str:
        """Describe what is certain about the window of a count that started afresh. Nothing may be known."""
        if most is None or alert.counted_since is UNSET:
            return ""
        return f"; with the alarms before, at most {most} in all since {moment(alert.window_start)}"

    def bound(self, bound: UpperBoundAlert) -> str:
        """Describe the upper bound of one location (`upper_bound`)."""
        if bound.upper_bound is None:
            return "no bound: the number of a bucket is missing"
        return f"at most {bound.upper_bound} {PEOPLE} since {moment(bound.window_start)} (certain)"

    def last_alarm(self, alarm: Answer) -> str:
        """Describe an earlier alarm that still counts."""
        since = alarm.about and alarm.about.counted_since
        text = f"at most {alarm.count_at_most} {PEOPLE}"
        if alarm.since_at_most is not None:
            began = moment(to_instant(since)) if since else "an earlier alarm"
            text = f"at most {alarm.since_at_most} {_SINCE} {began}"
        text = f"alarm on {moment(alarm.as_of or 0)}, {text}"
        threshold = None if alarm.about is None else alarm.about.threshold
        if alarm.strength is None or threshold is None:
            return text
        return f"{text}, {describe_strength(alarm.strength, threshold)}"

    def too_old(self, as_of: str) -> str:
        """Describe an item whose answer is no longer valid."""
        return f"unknown: nothing newer since {moment(as_of)}"

    def at_time(self, at: AtTime, draws: float) -> str:
        """Describe all locations at one designated time. `draws`: as in `count_draws`."""
        parts = [f"{at.safe} of {len(at.statuses)} locations safe (fewer than {at.sample.threshold} {PEOPLE})"]
        parts += [f"{self.name(place)} {_describe_bounds(at, place, draws)}" for place in at.bounds]
        parts += _describe_unknown(at)
        return ", ".join(parts) + ("; final" if at.final else "")

    def total(self, snapshot: TotalSnapshot, most: int | None = None) -> str:
        """Describe the answer about all places together at one designated time. Name at most `most` places."""
        return _UNKNOWN if snapshot.status == "unknown" else snapshot.describe(self.name, most)

    def alert_news(self, change: AlertChange, draws: float, most: int | None = None) -> str:
        """Describe the change of one location (`over_time`). `draws` and `most`: as in `alert`."""
        alert = change.now
        if alert.status == "noisy_count" and alert.counted_since is UNSET:
            window = length(parse_instant(alert.as_of) - parse_instant(alert.window_start))
            people = f"at most {alert.count_at_most} {PEOPLE}"
            strength = _describe_strength(alert, draws)
            return f"{self.name(alert.location_id)}: {people} in the last {window} (noisy), {strength}"
        before = None if change.before is None else change.before.status
        if alert.status == "paused" and alert.resumes_at and before == "noisy_count":
            return f"{self.name(alert.location_id)}: paused until {moment(alert.resumes_at)}, its ε is spent"
        if (before, alert.status) == ("paused", "safe") and not alert.is_below_since:
            return f"{self.name(alert.location_id)}: answers again; safe: fewer than {alert.threshold} {PEOPLE}"
        return f"{self.name(alert.location_id)}: {self.alert(alert, draws, most)}"

    def time_news(self, at: AtTime, fresh: Mapping[str, int], draws: float) -> str:
        """Describe the change of one designated time: the number of safe locations, and the new bounds.

        Lower bounds are published once, so every lower bound is new.
        """
        parts = [f"{at.safe} of {len(at.statuses)} locations safe", *_describe_unknown(at)]
        places = sorted(fresh.keys() | (at.counts_at_least.keys() & at.bounds.keys()))
        parts += [f"{self.name(place)} {_describe_bounds(at, place, draws, f' {PEOPLE}')}" for place in places]
        return f"{moment(at.time)} {at.monitor}: {', '.join(parts)}"


def _describe_strength(alert: OverTimeAlert, draws: float) -> str:
    """Return whether the threshold was reached, as far as a noisy count says."""
    return describe_strength(judge_strength(alert.p_value or 0, draws), alert.threshold)


def _describe_bounds(at: AtTime, place: str, draws: float, people: str = "") -> str:
    """Return the certain bounds of a count as text, and whether the threshold was reached.

    A lower bound of 0 has no information, so it is left out.
    """
    least, most = at.bounds[place]
    if most is None:
        return f"at least {least}{people}"
    if place not in at.noisy_counts or place in at.below_since:
        since = f" (fewer than {at.sample.threshold} reported since its alarm)" if place in at.below_since else ""
        return f"{least} to {most}{people}{since}" if least else f"at most {most}{people}{since}"
    strength = _describe_latest(at, place, draws)
    if least:
        return f"at least {least}{people} (at most {most} before later reports, {strength})"
    return f"at most {most}{people} ({strength})"


def _describe_latest(at: AtTime, place: str, draws: float) -> str:
    """Return whether the latest noisy count of a location reached the threshold, and since when it counts."""
    *earlier, latest = at.noisy[place].numbers
    p_value = compute_p_value(latest.epsilon or at.sample.epsilon, at.sample.threshold, latest.noisy_count)
    strength = describe_strength(judge_strength(p_value, draws), at.sample.threshold)
    return f"{latest.noisy_count} of them since the alarm before, {strength}" if earlier else strength


def _describe_unknown(at: AtTime) -> list[str]:
    """Return a phrase with the number of unknown locations and the reason; an empty list if there are none."""
    count = sum(status == "unknown" for status in at.statuses.values())
    if not count:
        return []
    if any(snapshot.registry != at.registry.digest for snapshot in at.snapshots.values()):
        return [f"{count} unknown: the service uses another registry than locations.file"]
    whole = {shard for shard, snapshot in at.snapshots.items() if snapshot.status == "complete"}
    shards = ", ".join(str(shard) for shard in range(at.sample.shards) if shard not in whole)
    return [f"{count} unknown: not all visits were read in time in shard {shards} of {at.sample.shards}"]


def alert_status(alert: OverTimeAlert) -> str:
    """Return the status that selects the colour of a location: "below_since" if it is "safe" only since an alarm."""
    return "below_since" if alert.is_below_since else alert.status


def bound_status(bound: UpperBoundAlert) -> str:
    """Return the status that selects the colour of an upper bound: it is no alarm, and says nothing of safety."""
    return "unknown" if bound.upper_bound is None else "bounded"


def total_status(snapshot: TotalSnapshot) -> str:
    """Return the status that selects the colour of an answer about all places together: it says nothing of safety."""
    return "unknown" if snapshot.status == "unknown" else "noisy_count"


class NewsLine(NamedTuple):
    """A line of news, and the status that selects its colour."""

    text: str
    status: str


class News:
    """Turns changes into lines of news: one for each changed location, designated time or hot spots record."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._new_counts: dict[tuple[str, str], dict[str, int]] = {}

    def lines(self, view: SubscriberView, changes: Iterable[Change]) -> list[NewsLine]:
        """Return the news for changes of the view. A designated time is reported once all of its shards are known."""
        lines: list[NewsLine] = []
        draws = count_draws(view, self._words.grid.length)
        for change in changes:
            if isinstance(change, AlertChange):
                most = view.find_window_bound(change.now, self._words.grid.length)
                lines.append(NewsLine(self._words.alert_news(change, draws, most), alert_status(change.now)))
            elif isinstance(change, BoundChange):
                text = f"{self._words.name(change.now.location_id)}: {self._words.bound(change.now)}"
                lines.append(NewsLine(text, bound_status(change.now)))
            elif isinstance(change, TotalChange):
                text = f"{moment(change.now.time)} {change.now.monitor}: {self._words.total(change.now, NAMED)}"
                lines.append(NewsLine(text, total_status(change.now)))
            else:
                self._new_counts.setdefault((change.now.monitor, change.now.time), {}).update(change.fresh)
        return [*lines, *self._time_lines(view, draws)]

    def _time_lines(self, view: SubscriberView, draws: float) -> Iterator[NewsLine]:
        """Yield the news of designated times whose shards are all known. The shards may arrive in several polls."""
        pending = self._new_counts
        self._new_counts = {}
        for at in view.times:
            counts = pending.get((at.monitor, at.time))
            if counts is None:
                continue
            if len(at.snapshots) < at.sample.shards:
                self._new_counts[at.monitor, at.time] = counts
                continue
            status = "noisy_count" if counts else "safe" if at.is_known else "unknown"
            yield NewsLine(self._words.time_news(at, counts, draws), status)
