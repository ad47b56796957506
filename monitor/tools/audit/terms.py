"""What was promised: of the configuration (docs/interface.md, section 3), what the recount needs. Its own reading.

The file alone is read: values that came from the environment are to be written into it first.
"""

from __future__ import annotations

import csv
import hashlib
from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import yaml

from monitor.tools.audit.text import AuditError, duration, epsilon, instant, moment

_FIRST_DAY: Final = date(1970, 1, 1)  # no daily time lies before or after these days
_LAST_DAY: Final = date(2199, 12, 31)
_MARGIN: Final = timedelta(days=2)  # more than any offset from UTC


@dataclass(frozen=True, slots=True)
class Grid:
    """Slot s covers [origin + s·slot, origin + (s+1)·slot) (docs/interface.md, section 1)."""

    origin: int
    slot: int

    def slot_of(self, at: int) -> int:
        """The slot of an instant."""
        return (at - self.origin) // self.slot

    def start(self, slot: int) -> int:
        """The first instant of a slot."""
        return self.origin + slot * self.slot

    def as_of(self, tick: int) -> int:
        """When tick t closes slot t."""
        return self.origin + (tick + 1) * self.slot


@dataclass(frozen=True)
class OverTimeTerms:
    """A monitor of kind `over_time`: ε_l by location, k answers a window, T people, W and W + F in slots."""

    name: str
    shares: dict[str, Fraction]
    answers: int
    threshold: int
    window: int
    mark_lifetime: int


@dataclass(frozen=True)
class TimedTerms:
    """What monitors of designated times have in common; ε for each of them, the horizon in microseconds."""

    name: str
    instants: tuple[int, ...]
    daily: tuple[time, ...]
    zone: ZoneInfo | None
    horizon: int
    epsilon: Fraction

    def between(self, low: int, high: int) -> list[int]:
        """The designated times τ with low ≤ τ < high, sorted.

        A time of day that comes twice where clocks change is the first of the two.
        """
        found = {at for at in self.instants if low <= at < high}
        earliest, latest = _day(low) - _MARGIN, _day(high) + _MARGIN
        day = max(earliest, _FIRST_DAY)
        while self.daily and day <= min(latest, _LAST_DAY):
            at_day = (instant(datetime.combine(day, at, self.zone).isoformat()) for at in self.daily)
            found.update(at for at in at_day if low <= at < high)
            day += timedelta(days=1)
        return sorted(found)

    def ticks(self, at: int, grid: Grid) -> tuple[int, int]:
        """The first and the last tick with τ < as_of ≤ τ + horizon."""
        return grid.slot_of(at), grid.slot_of(at + self.horizon) - 1


@dataclass(frozen=True)
class AtTimesTerms(TimedTerms):
    """A monitor of kind `at_times`; T people."""

    threshold: int


@dataclass(frozen=True)
class HotSpotsTerms(TimedTerms):
    """A monitor of kind `hot_spots`; at most `top` locations are named."""

    top: int


@dataclass(frozen=True)
class AuditTerms:
    """All that was promised. Durations in microseconds; `ahead` is F, in slots."""

    service: str
    shards: int
    grid: Grid
    max_lead: int
    default_stay: int
    may_pay: Fraction
    period: int
    locations: tuple[str, ...]
    over_time: tuple[OverTimeTerms, ...]
    at_times: tuple[AtTimesTerms, ...]
    hot_spots: tuple[HotSpotsTerms, ...]

    @property
    def timed(self) -> tuple[TimedTerms, ...]:
        """All monitors of designated times."""
        return (*self.at_times, *self.hot_spots)

    @cached_property
    def rows(self) -> dict[str, int]:
        """A location's place in the registry."""
        return {location: row for row, location in enumerate(self.locations)}

    @cached_property
    def shard(self) -> tuple[int, ...]:
        """By row: the first 8 bytes of SHA-256 of the id, big-endian, mod shards."""
        return tuple(int(hashlib.sha256(text.encode()).hexdigest()[:16], 16) % self.shards for text in self.locations)

    @cached_property
    def shard_sizes(self) -> Counter[int]:
        """How many locations each shard has."""
        return Counter(self.shard)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all location ids in file order, each followed by a newline."""
        told = hashlib.sha256()
        for location in self.locations:
            told.update(location.encode() + b"\n")
        return told.hexdigest()


class _Texts(yaml.SafeLoader):
    """YAML whose scalars all stay texts: no value is turned into a float or a number of base 60 on the way."""

    yaml_implicit_resolvers = {"<": yaml.SafeLoader.yaml_implicit_resolvers["<"]}  # noqa: RUF012  # PyYAML's own way


def read_terms(path: Path) -> AuditTerms:
    """Read a configuration and the registry that it names.

    Raises:
        AuditError: what it needs is not there, or not written as the interface says.
    """
    try:
        config = _Texts(path.read_text(encoding="utf-8")).get_single_data()
        return _terms(config, _locations(path.parent / config["locations"]["file"]))
    except KeyError as error:
        raise AuditError(
            f"{path}: the configuration lacks {error}; expected it as `location-monitor check` does"
        ) from None
    except (OSError, ValueError, TypeError, AttributeError, ZeroDivisionError, yaml.YAMLError, csv.Error) as error:
        raise AuditError(f"{path}: not a configuration that can be read: {error}") from error


def _locations(path: Path) -> tuple[str, ...]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    column = rows[0].index("location_id") if rows else 0
    return tuple(row[column] for row in rows[1:])


def _terms(config: Any, locations: tuple[str, ...]) -> AuditTerms:
    clock, visits, privacy = config["clock"], config["visits"], config["privacy"]
    grid = Grid(instant(clock["origin"]), duration(clock["slot"]))
    max_lead = duration(visits["accept_ahead"]) // grid.slot
    monitors = config["monitors"]
    return AuditTerms(
        service=config["service"]["name"],
        shards=int(config["service"].get("shards", 16)),
        grid=grid,
        max_lead=max_lead,
        default_stay=duration(visits["default_stay"]),
        may_pay=epsilon(privacy["epsilon"]),
        period=duration(privacy["period"]),
        locations=locations,
        over_time=tuple(_over_time(said, grid, max_lead) for said in monitors if said["kind"] == "over_time"),
        at_times=tuple(
            AtTimesTerms(**_timed(said), threshold=int(said["threshold"]))
            for said in monitors
            if said["kind"] == "at_times"
        ),
        hot_spots=tuple(
            HotSpotsTerms(**_timed(said), top=int(said["top"])) for said in monitors if said["kind"] == "hot_spots"
        ),
    )


def _over_time(said: Any, grid: Grid, max_lead: int) -> OverTimeTerms:
    named = said["locations"]
    weights = {location: int(named[location]) if isinstance(named, dict) else 1 for location in named}
    total, spent = sum(weights.values()), epsilon(said["epsilon"])
    window = duration(said["window"]) // grid.slot
    return OverTimeTerms(
        name=said["name"],
        shares={location: spent * weight / total for location, weight in weights.items()},
        answers=int(said.get("answers_per_window", 1)),
        threshold=int(said["threshold"]),
        window=window,
        mark_lifetime=window + max_lead,
    )


def _timed(said: Any) -> dict[str, Any]:
    instants = tuple(text for text in said["at"] if "T" in text.upper())
    daily = tuple(time.fromisoformat(text) for text in said["at"] if text not in instants)
    return {
        "name": said["name"],
        "instants": tuple(instant(text) for text in instants),
        "daily": daily,
        "zone": ZoneInfo(said["timezone"]) if daily else None,
        "horizon": duration(said["reporting_horizon"]),
        "epsilon": epsilon(said["epsilon"]),
    }


def _day(at: int) -> date:
    """The day of an instant in UTC, pulled in to where a margin can be added."""
    years = timedelta(days=365)
    low, high = datetime.combine(_FIRST_DAY, time()) - years, datetime.combine(_LAST_DAY, time()) + years
    first, last = instant(f"{low.isoformat()}Z"), instant(f"{high.isoformat()}Z")
    return moment(min(max(at, first), last)).date()
