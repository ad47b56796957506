"""What the demo shows at any moment: the public clock, what is known, what is new, what was read. No screen here."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry

from monitor.client.subscriber_view import AlertChange, Change, SubscriberView
from monitor.client.words import News, Words, moment
from monitor.operate.metrics import FATES, PREFIX
from monitor.public.instants import DAY, parse_instant
from monitor.public.parameters import Parameters
from monitor.release.ledger import LedgerRecord

PEOPLE: Final = "infected people"
_NEWS_KEPT: Final = 60


class Item(NamedTuple):
    """A piece of news: when by the public clock, what, and the status that it is about."""

    at: str
    text: str
    status: str


@dataclass(frozen=True, slots=True)
class Intake:
    """What the service has read so far, as its own metrics say."""

    visits: int
    dead_letters: int


@dataclass
class Story:
    """Tells what happens, tick by tick, from the first to the last."""

    parameters: Parameters
    first_tick: int
    last_tick: int
    intake: Intake = Intake(0, 0)
    tick: int | None = None
    news: deque[Item] = field(default_factory=lambda: deque(maxlen=_NEWS_KEPT))
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Nothing is known yet."""
        self.subscriber_view = SubscriberView(self.parameters.registry)
        self.words = Words(self.parameters.grid, PEOPLE)
        self._news = News(self.words)

    def take(self, tick: int, records: Iterable[LedgerRecord], metrics: CollectorRegistry) -> list[Item]:
        """A tick was published; returns what is new."""
        changes = [self.subscriber_view.add(record.headers, record.value) for record in records]
        surprising = [change for change in changes if change is not None and not self._expected(change)]
        self.tick, self.intake = tick, intake_of(metrics)
        fresh = [Item(moment(self.now), *line) for line in self._news.lines(self.subscriber_view, surprising)]
        self.news.extend(fresh)
        return fresh

    def _expected(self, change: Change) -> bool:
        """Whether it only says that a location begins as safe, or is about a time before the demo."""
        if isinstance(change, AlertChange):
            return change.before is None and change.now.status == "safe"
        return parse_instant(change.now.time) < self.parameters.grid.start(self.first_tick)

    @property
    def now(self) -> int:
        """The public clock."""
        return self.parameters.grid.as_of(self.first_tick - 1 if self.tick is None else self.tick)

    @property
    def day(self) -> int:
        """Which day of the demo it is, from 1."""
        start = self.parameters.grid.start(self.first_tick)
        return max(0, self.now - 1 - (start - start % DAY)) // DAY + 1

    @property
    def days(self) -> int:
        """How many days the demo tells."""
        return -(-self.ticks * self.parameters.grid.length // DAY)

    @property
    def ticks(self) -> int:
        """How many ticks there will be."""
        return self.last_tick - self.first_tick + 1

    @property
    def done(self) -> int:
        """How many ticks there were."""
        return 0 if self.tick is None else self.tick - self.first_tick + 1

    @property
    def seconds_left(self) -> float:
        """How long it will take at the pace so far."""
        return (time.monotonic() - self.began) / max(1, self.done) * (self.ticks - self.done)


def intake_of(metrics: CollectorRegistry) -> Intake:
    """What a service has read, by its metrics."""
    by_fate = {fate: int(metrics.get_sample_value(f"{PREFIX}_visits_total", {"fate": fate}) or 0) for fate in FATES}
    return Intake(sum(by_fate.values()), by_fate["dead_letter"])
