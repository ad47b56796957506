"""The state of a demo: the public clock, the latest answers, the news, and the visits read. It draws nothing."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry

from monitor.client.describe_records import News, Words, moment
from monitor.client.state_from_records import AlertChange, BoundChange, Change, SubscriberView, keep_for
from monitor.kinds.parameters import Parameters
from monitor.observe.prometheus_metric import PREFIX
from monitor.observe.service_metrics import FATES
from monitor.records.output_records import OutputRecord
from monitor.time.instants import DAY, parse_instant

_NEWS_KEPT: Final = 60


class Item(NamedTuple):
    """A piece of news: the time on the public clock, the text, and the status of the answer."""

    at: str
    text: str
    status: str


@dataclass(frozen=True, slots=True)
class Intake:
    """The numbers of visits and dead letters that the service has read so far, from its metrics."""

    visits: int
    dead_letters: int


@dataclass
class Story:
    """The demo's state, updated tick by tick from the first to the last."""

    parameters: Parameters
    first_tick: int
    last_tick: int
    names: Mapping[str, str] = field(default_factory=dict)
    """The names of the places by id."""
    intake: Intake = Intake(0, 0)
    page_url: str = ""
    """The address of the page; "" without one."""
    tick: int | None = None
    news: deque[Item] = field(default_factory=lambda: deque(maxlen=_NEWS_KEPT))
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Create the view of a subscriber that has read no record yet."""
        keep = keep_for(self.parameters.grid.length)
        self.subscriber_view = SubscriberView(self.parameters.registry, keep)
        self.words = Words(self.parameters.grid, self.names)
        self._news = News(self.words)

    def add_tick(self, tick: int, records: Iterable[OutputRecord], metrics: CollectorRegistry) -> list[Item]:
        """Add the records of a published tick and return the news in them."""
        changes = [self.subscriber_view.add(record.headers, record.value) for record in records]
        surprising = [change for change in changes if change is not None and not self._is_expected(change)]
        self.tick, self.intake = tick, read_intake(metrics)
        fresh = [Item(moment(self.now), *line) for line in self._news.lines(self.subscriber_view, surprising)]
        self.news.extend(fresh)
        return fresh

    def _is_expected(self, change: Change) -> bool:
        """Return whether a change is not news: a first "safe", a bound, or an answer about a time before the demo."""
        if isinstance(change, AlertChange):
            return change.before is None and change.now.status == "safe"
        if isinstance(change, BoundChange):
            return True
        return parse_instant(change.now.time) < self.parameters.grid.start(self.first_tick)

    @property
    def now(self) -> int:
        """The current instant of the public clock."""
        return self.parameters.grid.as_of(self.first_tick - 1 if self.tick is None else self.tick)

    @property
    def day(self) -> int:
        """The number of the demo's day, from 1."""
        start = self.parameters.grid.start(self.first_tick)
        return max(0, self.now - 1 - (start - start % DAY)) // DAY + 1

    @property
    def days(self) -> int:
        """The number of days of the demo."""
        return -(-self.ticks * self.parameters.grid.length // DAY)

    @property
    def ticks(self) -> int:
        """The number of ticks of the demo."""
        return self.last_tick - self.first_tick + 1

    @property
    def ticks_published(self) -> int:
        """The number of ticks published so far."""
        return 0 if self.tick is None else self.tick - self.first_tick + 1

    @property
    def seconds_left(self) -> float:
        """The time in seconds that the remaining ticks will take at the average pace so far."""
        return (time.monotonic() - self.started) / max(1, self.ticks_published) * (self.ticks - self.ticks_published)


def read_intake(metrics: CollectorRegistry) -> Intake:
    """Return the numbers of visits and dead letters that a service has read, from its metrics."""
    by_fate = {fate: int(metrics.get_sample_value(f"{PREFIX}_visits_total", {"fate": fate}) or 0) for fate in FATES}
    return Intake(sum(by_fate.values()), by_fate["dead_letter"])
