"""What the records say, in plain words. Times are UTC; `people` names whom the data is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from monitor.client.subscriber_view import Alert, AlertChange, AtTime, Change, HotSpotsChange, SubscriberView
from monitor.contracts.alerts import HotSpotsSnapshot, NoisyCountAlert, PausedAlert
from monitor.public.instants import DAY, format_duration, parse_instant, to_datetime
from monitor.public.slot_grid import SlotGrid

NAMED: Final = 5
"""How many hot spots a line that must stay short names."""


def moment(instant: int | str) -> str:
    """An instant as people say it: `Tue 6 Jan 14:00`."""
    when = to_datetime(parse_instant(instant) if isinstance(instant, str) else instant)
    return f"{when:%a} {when.day} {when:%b %H:%M}"


def span(duration: int) -> str:
    """A duration: whole days in words, others as the configuration writes them."""
    days, rest = divmod(duration, DAY)
    return format_duration(duration) if rest or not days else f"{days} days" if days > 1 else "day"


def chance(p_value: float) -> str:
    """A probability in percent, in two digits or so."""
    if p_value < 1e-4:  # noqa: PLR2004  # what nobody can picture any more
        return "less than 0.01 %"
    return f"{p_value:.0%}".replace("%", " %") if p_value >= 0.1 else f"{100 * p_value:.2g} %"  # noqa: PLR2004  # digits


@dataclass(frozen=True, slots=True)
class Words:
    """How things are called: the public grid of slots (ticks become times), and whom the data is about."""

    grid: SlotGrid
    people: str = "target people"

    def alert(self, alert: Alert) -> str:
        """What is known about one location over time, at its latest tick."""
        since = moment(alert.window_start)
        if isinstance(alert, NoisyCountAlert):
            return (
                f"at most {alert.count_at_most} {self.people} since {since} (certain); fewer than {alert.threshold} "
                f"would give so high an answer with a chance of {chance(alert.p_value)}"
            )
        if isinstance(alert, PausedAlert):
            return f"silent until {moment(alert.resumes_at)}, its ε is spent{self._spent(alert)}"
        if alert.status == "safe":
            return f"safe: fewer than {alert.threshold} {self.people} since {since}"
        return "unknown: it could not be shown in time that every visit had been read"

    def _spent(self, alert: PausedAlert) -> str:
        if not alert.answers:
            return " (an earlier ledger was lost, so everything counts as spent)"
        latest = alert.answers[-1]
        return f": at most {latest.noisy_count} {self.people} on {moment(self.grid.as_of(latest.tick))}"

    def at_time(self, at: AtTime) -> str:
        """What is known about all locations at one designated time."""
        parts = [f"{at.safe} of {len(at.statuses)} locations safe (fewer than {at.any.threshold} {self.people})"]
        parts += [f"{place} at most {count}" for place, count in at.noisy_counts.items()]
        parts += _unknown(at)
        return ", ".join(parts) + ("; final" if at.final else "")

    def hot_spots(self, snapshot: HotSpotsSnapshot, most: int | None = None) -> str:
        """The locations with the highest noisy counts at one designated time; the first `most` of them by name."""
        if snapshot.status == "unknown":
            return "unknown: it could not be shown in time that every visit had been read"
        named = [f"{one.location_id} at most {one.noisy_count}" for one in snapshot.hot_spots[:most]]
        left = len(snapshot.hot_spots) - len(named)
        return f"{', '.join(named)}{f' and {left} more' if left else ''} ({self.people}; noisy, drawn once)"

    def hot_spots_news(self, snapshot: HotSpotsSnapshot) -> str:
        """What is new about the hot spots of a monitor."""
        return f"{moment(snapshot.time)} {snapshot.monitor}: {self.hot_spots(snapshot, NAMED)}"

    def alert_news(self, change: AlertChange) -> str:
        """What is new about one location over time."""
        alert = change.now
        if isinstance(alert, NoisyCountAlert):
            window = span(parse_instant(alert.as_of) - parse_instant(alert.window_start))
            return f"{alert.location_id}: at most {alert.count_at_most} {self.people} in the last {window} (noisy)"
        if isinstance(alert, PausedAlert) and isinstance(change.before, NoisyCountAlert):
            return f"{alert.location_id}: silent until {moment(alert.resumes_at)}, its ε is spent"
        if alert.status == "safe" and isinstance(change.before, PausedAlert):
            return f"{alert.location_id}: answers again; safe: fewer than {alert.threshold} {self.people}"
        return f"{alert.location_id}: {self.alert(alert)}"

    def time_news(self, at: AtTime, fresh: Mapping[str, int]) -> str:
        """What is new about one designated time: how many locations are safe, and the noisy counts that are new."""
        parts = [f"{at.safe} of {len(at.statuses)} locations safe", *_unknown(at)]
        parts += [f"{place} at most {count} {self.people}" for place, count in sorted(fresh.items())]
        return f"{moment(at.time)} {at.monitor}: {', '.join(parts)}"


def _unknown(at: AtTime) -> list[str]:
    """How many locations nothing is known about, and why; nothing if there are none."""
    count = sum(status == "unknown" for status in at.statuses.values())
    if not count:
        return []
    if any(snapshot.registry != at.registry.digest for snapshot in at.snapshots.values()):
        return [f"{count} unknown: the service's list of locations is not this one (locations.file)"]
    whole = {shard for shard, snapshot in at.snapshots.items() if snapshot.status == "complete"}
    shards = ", ".join(str(shard) for shard in range(at.any.shards) if shard not in whole)
    return [f"{count} unknown: not all visits were read in time in shard {shards} of {at.any.shards}"]


def hot_spots_status(snapshot: HotSpotsSnapshot) -> str:
    """The status that hot spots are coloured by: their numbers are noisy counts."""
    return "noisy_count" if snapshot.status == "complete" else "unknown"


class NewsLine(NamedTuple):
    """A line of news, and the status that it is about: what it is coloured by."""

    text: str
    status: str


class News:
    """Turns changes into lines of news: one for each location over time, for each designated time, for hot spots."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def of(self, subscriber_view: SubscriberView, changes: Iterable[Change]) -> list[NewsLine]:
        """The news in some changes, which `knowledge` has taken in. A designated time is news once it is whole."""
        lines: list[NewsLine] = []
        fresh: dict[tuple[str, str], dict[str, int]] = {}
        for change in changes:
            if isinstance(change, AlertChange):
                lines.append(NewsLine(self._words.alert_news(change), change.now.status))
            elif isinstance(change, HotSpotsChange):
                lines.append(NewsLine(self._words.hot_spots_news(change.now), hot_spots_status(change.now)))
            else:
                fresh.setdefault((change.now.monitor, change.now.time), {}).update(change.fresh)
        for at in subscriber_view.times:
            counts = fresh.get((at.monitor, at.time))
            if counts is not None and len(at.snapshots) == at.any.shards:
                status = "noisy_count" if counts else "safe" if at.whole else "unknown"
                lines.append(NewsLine(self._words.time_news(at, counts), status))
        return lines
