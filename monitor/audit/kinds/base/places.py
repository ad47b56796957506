"""What the audits of monitors of listed locations share. Each such location has its own ε, and a record at each tick.

A kind adds the form of its answers, its recount, and what one answer has to be (`PlacesCheck._judge`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct

from monitor.audit.findings import FORM
from monitor.audit.history import History, Memory
from monitor.audit.kinds.base.monitor import C, Check, Monitor, Part, Prove, Scope
from monitor.audit.parse_values import parse_epsilon
from monitor.audit.record_fields import Answer, Instant, Positive, Record, parse_recorded_epsilon
from monitor.audit.shared_terms import Grid, SharedTerms

T = TypeVar("T")


class PlaceMemory(Memory, Generic[T]):
    """What the records of each location have drawn, after the latest of them, by monitor and location."""

    def __init__(self) -> None:
        self._drawn: dict[tuple[str, str], list[T] | None] = {}

    def get(self, monitor: str, location: str, *, whole: bool) -> list[T] | None:
        """Return what was drawn about a location; None if it is not known. `whole`: no output record has expired."""
        return self._drawn.get((monitor, location), [] if whole else None)

    def set(self, monitor: str, location: str, drawn: list[T] | None) -> None:
        """Set what was drawn about a location, after a record."""
        self._drawn[monitor, location] = drawn


class PlaceAnswer(Answer, frozen=True, kw_only=True):
    """The common fields of answers about one location and a window."""

    memory: ClassVar[type[PlaceMemory[Any]]]
    """What the kind keeps of earlier answers."""

    location_id: str
    window_start: Instant

    @property
    def subject(self) -> str:
        """The location."""
        return self.location_id

    @property
    def watched(self) -> str:
        """The location: its ε is its own."""
        return self.location_id

    def note_unjudged(self, history: History) -> None:
        """Note that what was drawn about the location is not known."""
        history.recall(self.memory).set(self.monitor, self.location_id, None)


class LocationCharges(Struct, frozen=True):
    """The charges of a monitor of listed locations, as an owner record states them."""

    monitor: str
    answers: Positive
    """k; for upper bounds, the number of buckets of a window."""
    window: Positive
    """W, in slots."""
    shares: dict[str, list[str]]
    """The locations by ε_l."""
    bucket: Positive | None = None
    """Only for upper bounds: the slots of a bucket."""

    def __post_init__(self) -> None:
        """Check the keys of `shares`."""
        for epsilon in self.shares:
            parse_recorded_epsilon(epsilon)

    def list_charges(self) -> Iterator[Hashable]:
        """Yield the charge of each location."""
        for share, locations in self.shares.items():
            for location in locations:
                yield self.monitor, self.answers, self.window, parse_recorded_epsilon(share), location, self.bucket


@dataclass(frozen=True)
class PlacesMonitor(Monitor[C]):
    """The common part of monitors of listed locations."""

    name: str
    shares: dict[str, Fraction]
    """ε_l by location."""
    window: int
    """W, in slots."""
    lifetime: int
    """W + F, in slots: how long an answer counts as spent."""

    @property
    @abstractmethod
    def answers_per_share(self) -> int:
        """The number of answers of a window, among which ε_l is divided."""

    @property
    def bucket_length(self) -> int | None:
        """The slots of a bucket; None if the kind has no buckets."""
        return None

    def list_charges(self) -> Iterator[Hashable]:
        """Yield the charge of each location."""
        for location, share in self.shares.items():
            yield self.name, self.answers_per_share, self.window, share, location, self.bucket_length

    def find_lifetime(self, grid: Grid) -> int:
        """Return how many slots after its last one a visit has left the window."""
        del grid
        return self.window

    def find_watched_rows(self, terms: SharedTerms) -> Collection[int]:
        """Return the rows of the watched locations."""
        return [terms.rows[location] for location in self.shares]

    def answers_at(self, tick: int) -> bool:
        """Return whether the monitor has an answer about each of its locations at a tick."""
        del tick
        return True


def parse_shares(keys: Mapping[str, Any], terms: SharedTerms) -> dict[str, Fraction]:
    """Return ε_l by location: equal shares of the monitor's ε, or in proportion to the weights."""
    named = keys["locations"]
    weights = {location: int(named[location]) if isinstance(named, dict) else 1 for location in named}
    if not weights.keys() <= terms.rows.keys():
        raise ValueError(f"{keys['name']} watches a location that the registry does not have")
    total, epsilon = sum(weights.values()), parse_epsilon(keys["epsilon"])
    return {location: epsilon * weight / total for location, weight in weights.items()}


class PlacesCheck(Check, Generic[C]):
    """The check of the records of a monitor of listed locations."""

    def __init__(self, monitor: PlacesMonitor[C], scope: Scope, counts: C | None) -> None:
        super().__init__(scope)
        self._places, self._counts = monitor, counts
        self._cost = {location: share / monitor.answers_per_share for location, share in monitor.shares.items()}

    def take(self, record: Record) -> Prove | None:
        """Check the next record."""
        form, monitor = record.form, self._places
        where = f"{monitor.name}/{self._terms.name_location(form.location_id)}, tick {form.tick}"
        if form.location_id not in monitor.shares or not monitor.answers_at(form.tick):
            self._findings.add(FORM, f"{where}: the monitor has no answer about this location at this tick")
            return None
        self._check_ticks(form)
        key = f"{monitor.name}/{form.location_id}"
        in_order = self._history.note_tick((monitor.name, None, form.location_id), key, form.tick)
        self.statuses[form.status] += 1
        self._check_facts(record, key)
        return self._judge(record, where, in_order=in_order)

    def list_facts(self, form: Any) -> dict[str, Any]:
        """Return the fields that follow from the configuration and the tick."""
        if form.location_id not in self._cost:
            return {}
        window_start = self._terms.grid.start(form.tick - self._places.window + 1)
        return {"epsilon": self._cost[form.location_id], "window_start": window_start}

    def expect_records(self, tick: int, part: Part, found: int) -> int:
        """Return the number of watched locations in a partition, at a tick at which the monitor answers."""
        del found
        shard, rows = self._terms.shard, self._terms.rows
        return self._places.answers_at(tick) * sum(part.has(shard[rows[one]]) for one in self._places.shares)

    @abstractmethod
    def _check_ticks(self, form: Any) -> None:
        """Raise `FormError` if a tick in the answer is out of range."""

    @abstractmethod
    def _judge(self, record: Record, where: str, *, in_order: bool) -> Prove:
        """Check an answer about a watched location, and return its comparison with the recount.

        `in_order`: its tick is later than that of the previous answer about the location.
        """


TickRange = tuple[int, int]
"""A half-open range of ticks: the first is included, the second is not."""


class PeopleCount:
    """The number of distinct people at a location by tick, except for forgotten ticks.

    The count at the tick requested last is kept, so that the next tick costs one step.
    """

    def __init__(self) -> None:
        self._ticks: dict[int, tuple[TickRange, ...]] = {}
        self._changes: Counter[int] = Counter()
        self._tick = -1 << 62
        self._count = 0
        self._floor: int | None = None

    def __len__(self) -> int:
        """Return the number of people that a later tick may count."""
        return len(self._ticks)

    def add(self, person: int, first: int, end: int) -> None:
        """Count a person at the ticks from `first` until before `end`."""
        if self._floor is not None and end <= self._floor:
            return
        known = self._ticks.get(person, ())
        merged = _merge((*known, (first, end)))
        if merged == known:
            return
        for begin, until in known:
            self._change(begin, -1)
            self._change(until, 1)
        for begin, until in merged:
            self._change(begin, 1)
            self._change(until, -1)
        self._ticks[person] = merged

    def at(self, tick: int) -> int:
        """Return the count at a tick."""
        tick = tick if self._floor is None else max(tick, self._floor)
        low, high = sorted((self._tick, tick))
        if high - low > len(self._changes):
            change = sum(by for at, by in self._changes.items() if low < at <= high)
        else:
            change = sum(self._changes[at] for at in range(low + 1, high + 1))
        self._count += change if tick > self._tick else -change
        self._tick = tick
        return self._count

    def forget(self, tick: int) -> None:
        """Forget the ticks before one."""
        self.at(tick)
        self._floor = tick
        for at in [at for at in self._changes if at <= tick]:
            del self._changes[at]
        self._ticks = {person: ticks for person, ticks in self._ticks.items() if ticks[-1][1] > tick}

    def _change(self, tick: int, by: int) -> None:
        if tick <= self._tick:
            self._count += by
        if self._floor is None or tick > self._floor:
            self._changes[tick] += by
            if not self._changes[tick]:
                del self._changes[tick]


class FreshCount:
    """The number of distinct people at a location whose report was stamped after a slot, for each tick and slot.

    `_reports` has, by person, the ticks that count each report, from the slot of its stamp on.
    """

    def __init__(self) -> None:
        self._reports: dict[int, set[TickRange]] = {}

    def __len__(self) -> int:
        """Return the number of people that a later tick may count."""
        return len(self._reports)

    def add(self, person: int, stamped: int, end: int) -> None:
        """Count a person at the ticks from the slot of the stamp until before `end`."""
        self._reports.setdefault(person, set()).add((stamped, end))

    def at(self, tick: int, after: int) -> int:
        """Return the count of a tick from the reports that were stamped after the slot `after`."""
        return sum(any(after < stamped <= tick < end for stamped, end in reports) for reports in self._reports.values())

    def forget(self, tick: int) -> None:
        """Forget the reports that no tick from this one on counts."""
        kept = {person: {one for one in reports if one[1] > tick} for person, reports in self._reports.items()}
        self._reports = {person: reports for person, reports in kept.items() if reports}


def _merge(ranges: Iterable[TickRange]) -> tuple[TickRange, ...]:
    """Return the union of ranges of ticks, sorted."""
    merged: list[TickRange] = []
    for first, end in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((first, end))
    return tuple(merged)
