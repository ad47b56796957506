"""What the audits of monitors of designated times share.

Some answers are drawn once for all locations, at the last tick about a designated time (`DrawnCheck`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Final
from zoneinfo import ZoneInfo

from msgspec import Struct

from monitor.audit.findings import FORM, TICKS
from monitor.audit.history import History, Memory
from monitor.audit.kinds.base.monitor import C, Check, Counts, Monitor, Part, Prove, Scope, Use
from monitor.audit.parse_values import (
    find_occurrences,
    format_utc,
    is_time_of_day,
    parse_duration,
    parse_epsilon,
    parse_instant,
)
from monitor.audit.record_fields import Answer, Digest, Instant, People, Record, Status
from monitor.audit.shared_terms import Grid, SharedTerms, hash_text
from monitor.audit.visits import AcceptedVisit

_FIRST_DAY: Final = date(1970, 1, 1)
_DAYS: Final = (date(2200, 1, 1) - _FIRST_DAY).days  # times of day outside these days are left out
_DAY: Final = 24 * 3600 * 1_000_000
_RECURS: Final = 9 * _DAY
"""A span that contains each time of day on each day of the week, in microseconds, also if a zone skips a day."""


class Timed(Answer, frozen=True, kw_only=True):
    """The common fields of answers about a designated time."""

    time: Instant
    status: Status
    final: bool
    registry: str
    locations: People

    @property
    def subject(self) -> str:
        """The designated time."""
        return format_utc(self.time)


class TimeCharges(Struct, frozen=True):
    """The charges of a monitor of designated times."""

    monitor: str
    kind: str
    epsilon: Fraction
    horizon: str
    at: list[str]
    timezone: str | None
    instants: Digest

    def __post_init__(self) -> None:
        """Check the times and the horizon."""
        parse_duration(self.horizon)
        self.list_moments()

    def list_moments(self) -> frozenset[int | tuple[time, int]]:
        """Return the designated times: instants, and times of day with a day of the week."""
        instants = frozenset(parse_instant(text) for text in self.at if not is_time_of_day(text))
        return instants | find_occurrences(self.at)

    def list_charges(self) -> Iterator[Hashable]:
        """Yield the charge of all designated times."""
        moments = self.list_moments()
        zone = self.timezone if any(isinstance(moment, tuple) for moment in moments) else None
        yield self.monitor, self.kind, self.epsilon, parse_duration(self.horizon), zone, moments


@dataclass(frozen=True)
class TimedMonitor(Monitor[C]):
    """The common part of monitors of designated times."""

    name: str
    instants: tuple[int, ...]
    weekly: frozenset[tuple[time, int]]
    """The times of day, each with a day of the week in `zone` on which it occurs. Monday is 0."""
    zone: ZoneInfo | None
    horizon: int
    """In microseconds."""
    epsilon: Fraction
    """ε for each time."""

    def find_times(self, low: int, high: int) -> list[int]:
        """Return the designated times τ with low ≤ τ < high, sorted.

        If a time of day occurs twice because the clocks change, the first one counts.
        """
        times = {at for at in self.instants if low <= at < high}
        if self.weekly and low < high:
            for day in range(max(0, low // _DAY - 1), min(_DAYS, high // _DAY + 2)):
                times.update(at for at in _find_times_of_day(day, self.weekly, self.zone) if low <= at < high)
        return sorted(times)

    def find_final_times(self, tick: int, grid: Grid) -> list[int]:
        """Return the designated times τ about which a tick is the last one, sorted."""
        return self.find_times(grid.as_of(tick) - self.horizon, grid.as_of(tick + 1) - self.horizon)

    def has_time(self, low: int, high: int) -> bool:
        """Return whether there is a designated time τ with low ≤ τ < high."""
        # A time of day recurs each week, so the last days suffice.
        recent = self.find_times(max(low, high - _RECURS), high)
        return any(low <= at < high for at in self.instants) or bool(recent)

    def list_charges(self) -> Iterator[Hashable]:
        """Yield the charge of all designated times."""
        yield self.state_charge(self.kind, self.epsilon)

    def state_charge(self, kind: str, epsilon: Fraction) -> Hashable:
        """Return a charge of all designated times."""
        moments = frozenset(self.instants) | self.weekly
        return self.name, kind, epsilon, self.horizon, None if self.zone is None else self.zone.key, moments

    def find_lifetime(self, grid: Grid) -> int:
        """Return how many slots after its last one a visit has left the horizon."""
        return -(-self.horizon // grid.slot)


def parse_timed(monitor: Any) -> dict[str, Any]:
    """Parse the keys that all monitors of designated times have."""
    weekly = find_occurrences(monitor["at"])
    return {
        "name": monitor["name"],
        "instants": tuple(parse_instant(text) for text in monitor["at"] if not is_time_of_day(text)),
        "weekly": weekly,
        "zone": ZoneInfo(monitor["timezone"]) if weekly else None,
        "horizon": parse_duration(monitor["reporting_horizon"]),
        "epsilon": parse_epsilon(monitor["epsilon"]),
    }


@lru_cache(maxsize=65_536)
def _find_times_of_day(day: int, weekly: frozenset[tuple[time, int]], zone: ZoneInfo | None) -> tuple[int, ...]:
    """Return the instants of times of day on a day of their zone, given as days since 1970."""
    on_day = _FIRST_DAY + timedelta(days=day)
    clocks = (clock for clock, week_day in weekly if week_day == on_day.weekday())
    return tuple(parse_instant(datetime.combine(on_day, clock, zone).isoformat()) for clock in clocks)


class TimedCounts(Counts):
    """The visits that cover each designated time. A subclass keeps them."""

    def __init__(self, monitor: TimedMonitor[Any], terms: SharedTerms) -> None:
        self._timed, self._grid = monitor, terms.grid

    def add(self, visit: AcceptedVisit) -> Use:
        """Add a visit at each designated time that a tick from its report on is about."""
        # From the report's slot on, no tick is about an older time. So a stay of years is not searched in full.
        oldest = self._grid.as_of(visit.current) - self._timed.horizon
        times = self._timed.find_times(max(visit.arrived, oldest), visit.left)
        for at in times:
            self.add_at(at, visit)
        if times:
            return Use.IN_TIME
        return Use.TOO_LATE if self._timed.has_time(visit.arrived, visit.left) else Use.NONE

    def forget(self, tick: int) -> None:
        """Forget the designated times that no tick from this one on is about."""
        self.forget_before(self._grid.as_of(tick) - self._timed.horizon)

    @abstractmethod
    def add_at(self, time: int, visit: AcceptedVisit) -> None:
        """Add a visit that covers a designated time."""

    @abstractmethod
    def forget_before(self, time: int) -> None:
        """Forget the designated times before an instant."""


class Presence(TimedCounts):
    """The people reported to be at each location at each designated time τ: those with arrived_at ≤ τ < left_at.

    `_reports` and `_consenting` have the slot of each person's first report (with consent), by τ and row.
    """

    def __init__(self, monitor: TimedMonitor[Any], terms: SharedTerms) -> None:
        super().__init__(monitor, terms)
        self._reports: dict[int, dict[int, dict[int, int]]] = {}
        self._consenting: dict[int, dict[int, dict[int, int]]] = {}

    def add_at(self, time: int, visit: AcceptedVisit) -> None:
        """Add a visit that covers τ."""
        for people_at in (self._reports, self._consenting) if visit.consent else (self._reports,):
            people = people_at.setdefault(time, {}).setdefault(visit.row, {})
            people[visit.person] = min(visit.current, people.get(visit.person, visit.current))

    def count(self, time: int, row: int, tick: int) -> int:
        """Return the number of people at a location at τ who are reported before the tick's as_of."""
        return sum(slot <= tick for slot in self._reports.get(time, {}).get(row, {}).values())

    def count_consenting(self, time: int, row: int, tick: int) -> int:
        """Return the number of people with a visit with consent at a location at τ, reported before the as_of."""
        return sum(slot <= tick for slot in self._consenting.get(time, {}).get(row, {}).values())

    def list_rows_at(self, time: int, at_least: int = 1) -> list[int]:
        """Return the rows of the locations with at least so many people, reported at any time, in registry order."""
        return sorted(row for row, people in self._reports.get(time, {}).items() if len(people) >= at_least)

    def __len__(self) -> int:
        """Return the number of people at all locations and designated times."""
        return sum(len(people) for people_at in self._reports.values() for people in people_at.values())

    def forget_before(self, time: int) -> None:
        """Forget the designated times before an instant."""
        for people_at in (self._reports, self._consenting):
            for old in [at for at in people_at if at < time]:
                del people_at[old]


class Drawings(Memory):
    """The drawings about all locations: the monitor and the designated time of each."""

    def __init__(self) -> None:
        self.drawn: set[tuple[str, int]] = set()

    def forget(self, time: int) -> None:
        """Forget the designated times before an instant."""
        self.drawn = {subject for subject in self.drawn if subject[1] >= time}


class DrawnOnce(Timed, frozen=True, kw_only=True):
    """The common fields of answers that are drawn once for all locations, at the last tick about their time."""

    def note_unjudged(self, history: History) -> None:
        """Note that the time is answered."""
        history.recall(Drawings).drawn.add((self.monitor, self.time))


class DrawnCheck(Check):
    """The check of one monitor's records. A subclass checks what they draw."""

    def __init__(self, monitor: TimedMonitor[Any], scope: Scope, facts: Mapping[str, Any]) -> None:
        super().__init__(scope)
        self._drawings = self._history.recall(Drawings)
        self._drawn_by = monitor
        self._facts = {
            "final": True,
            "registry": self._terms.digest,
            "locations": len(self._terms.locations),
            "epsilon": monitor.epsilon,
            **facts,
        }

    def take(self, record: Record) -> Prove | None:
        """Check the next record."""
        form, monitor = record.form, self._drawn_by
        key = f"{monitor.name}/{format_utc(form.time)}"
        where = f"{key}, tick {form.tick}"
        if form.time not in monitor.find_final_times(form.tick, self._terms.grid):
            self._findings.add(TICKS, f"{where}: the time is not designated, or this is not the last tick about it")
            return None
        if (monitor.name, form.time) in self._drawings.drawn:
            self._findings.add(TICKS, f"{where}: the time is answered a second time")
        self._drawings.drawn.add((monitor.name, form.time))
        for text in self._find_wrong(form):
            self._findings.add(FORM, f"{where}: {text}")
        self.statuses[form.status] += 1
        self._check_facts(record, key)
        if form.status == "unknown":
            return lambda: None
        self._payments.charge_time(self._terms, record.kind, monitor.name, form.time, monitor.epsilon, form.tick)
        return partial(self._prove, form, where)

    def expect_records(self, tick: int, part: Part, found: int) -> int:
        """Return one record more than found for each designated time that this tick should have answered."""
        if not part.has(hash_text(self._drawn_by.name)):
            return 0
        due = self._drawn_by.find_final_times(tick, self._terms.grid)
        return found + sum((self._drawn_by.name, time) not in self._drawings.drawn for time in due)

    def list_facts(self, form: Any) -> dict[str, Any]:
        """Return the fields that follow from the configuration."""
        del form
        return self._facts

    @abstractmethod
    def _find_wrong(self, form: Any) -> Iterator[str]:
        """Yield the errors in what was drawn, from the output alone. Raise FormError for another form."""

    @abstractmethod
    def _prove(self, form: Any, where: str) -> None:
        """Compare what was drawn with the recount."""
