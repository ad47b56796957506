"""The terms of a run: the parts of the configuration that the recount needs (docs/interface.md, section 3).

Environment variables are not read: their values must be in the file.
"""

from __future__ import annotations

import csv
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import yaml

from monitor.audit.parsing import (
    EARLIEST,
    LATEST,
    AuditError,
    parse_duration,
    parse_epsilon,
    parse_instant,
)

_FIRST_DAY: Final = date(1970, 1, 1)
_DAYS: Final = (date(2200, 1, 1) - _FIRST_DAY).days  # daily times outside these days are left out
_SECOND: Final = 1_000_000
_DAY: Final = 24 * 3600 * _SECOND


@dataclass(frozen=True, slots=True)
class Grid:
    """Slot s covers [origin + s·slot, origin + (s+1)·slot) (docs/interface.md, section 1)."""

    origin: int
    slot: int

    def find_slot(self, at: int) -> int:
        """Return the slot of an instant."""
        return (at - self.origin) // self.slot

    def start(self, slot: int) -> int:
        """Return the first instant of a slot."""
        return self.origin + slot * self.slot

    def as_of(self, tick: int) -> int:
        """Return the instant at which tick t closes slot t."""
        return self.origin + (tick + 1) * self.slot

    def has(self, tick: int) -> bool:
        """Return whether the as_of of a tick is an instant that can be written as a time."""
        return EARLIEST <= self.as_of(tick) <= LATEST


@dataclass(frozen=True)
class OverTimeTerms:
    """A monitor of kind `over_time`: ε_l by location (`shares`), k, T (people), W and W + F (slots)."""

    name: str
    shares: dict[str, Fraction]
    answers: int
    threshold: int
    window: int
    mark_lifetime: int


@dataclass(frozen=True)
class TimedTerms:
    """The common part of monitors of designated times: ε per time, and the horizon in microseconds."""

    name: str
    instants: tuple[int, ...]
    daily: tuple[time, ...]
    zone: ZoneInfo | None
    horizon: int
    epsilon: Fraction

    def find_times(self, low: int, high: int) -> list[int]:
        """Return the designated times τ with low ≤ τ < high, sorted.

        If a time of day occurs twice because the clocks change, the first one counts.
        """
        times = {at for at in self.instants if low <= at < high}
        if self.daily and low < high:
            for day in range(max(0, low // _DAY - 1), min(_DAYS, high // _DAY + 2)):
                times.update(at for at in _find_times_of_day(day, self.daily, self.zone) if low <= at < high)
        return sorted(times)

    def find_final_times(self, tick: int, grid: Grid) -> list[int]:
        """Return the designated times τ about which a tick is the last one, sorted."""
        return self.find_times(grid.as_of(tick) - self.horizon, grid.as_of(tick + 1) - self.horizon)


@dataclass(frozen=True)
class AtTimesTerms(TimedTerms):
    """A monitor of kind `at_times`: T people, and the ε of lower bounds (None without them)."""

    threshold: int
    at_least: Fraction | None = None


@dataclass(frozen=True)
class HotSpotsTerms(TimedTerms):
    """A monitor of kind `hot_spots`: at most `top` locations are named."""

    top: int


@dataclass(frozen=True)
class DwellTerms(TimedTerms):
    """A monitor of kind `dwell`. It counts at most `longest` seconds of a visit, and `per_person` visits per person."""

    longest: int
    per_person: int


@dataclass(frozen=True)
class AuditTerms:
    """The terms of all monitors. Durations are in microseconds, `accept_ahead` and `max_lead` (F) in slots.

    `public_key`: the key that signs the answers; empty if they are not verified.
    """

    service: str
    shards: int
    grid: Grid
    accept_ahead: int
    max_lead: int
    default_stay: int
    may_pay: Fraction
    period: int
    locations: tuple[str, ...]
    over_time: tuple[OverTimeTerms, ...]
    at_times: tuple[AtTimesTerms, ...]
    hot_spots: tuple[HotSpotsTerms, ...]
    dwell: tuple[DwellTerms, ...] = ()
    public_key: str = ""

    @property
    def timed(self) -> tuple[TimedTerms, ...]:
        """All monitors of designated times."""
        return (*self.at_times, *self.hot_spots, *self.dwell)

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each location: its position in the registry."""
        return {location: row for row, location in enumerate(self.locations)}

    def name_location(self, location: str) -> str:
        """Return a location for a finding. A text that the registry does not have may be about a person."""
        return location if location in self.rows else "(not in the registry)"

    @cached_property
    def shard(self) -> tuple[int, ...]:
        """The shard of each row: the first 8 bytes of SHA-256 of the id, big-endian, mod shards."""
        return tuple(hash_text(location) % self.shards for location in self.locations)

    @cached_property
    def shard_sizes(self) -> Counter[int]:
        """The number of locations in each shard."""
        return Counter(self.shard)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all location ids in file order, each followed by a newline."""
        digest = hashlib.sha256()
        for location in self.locations:
            digest.update(location.encode() + b"\n")
        return digest.hexdigest()


def hash_text(text: str) -> int:
    """Return the number that selects a shard or a partition: the first 8 bytes of SHA-256, big-endian."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:16], 16)


class _Texts(yaml.SafeLoader):
    """A YAML loader that keeps all scalars as strings, so that no value becomes a float or a base-60 number."""

    yaml_implicit_resolvers = {"<": yaml.SafeLoader.yaml_implicit_resolvers["<"]}  # noqa: RUF012  # as PyYAML declares it


def read_terms(path: Path) -> AuditTerms:
    """Read a configuration and the registry that it names.

    Raises:
        AuditError: a file or a key is missing, or is not in the form of docs/interface.md.
    """
    with _explain_errors(path):
        config = _read_yaml(path)
        terms = _parse_terms(config, _read_locations(path.parent / config["locations"]["file"]))
        for monitor in terms.over_time:
            if not monitor.shares.keys() <= terms.rows.keys():
                raise ValueError(f"{monitor.name} watches a location that the registry does not have")
        return terms


def find_registry_file(path: Path) -> Path:
    """Return the path of the registry that a configuration names.

    Raises:
        AuditError: the configuration cannot be read, or names none.
    """
    with _explain_errors(path):
        return path.parent / str(_read_yaml(path)["locations"]["file"])


def require_one_grid(configs: Sequence[AuditTerms]) -> None:
    """Check that all configurations have the same slots. Raise AuditError if not."""
    if len({terms.grid for terms in configs}) > 1:
        raise AuditError("the configurations differ in clock.slot or clock.origin: audit each separately")


def _read_yaml(path: Path) -> Any:
    return _Texts(path.read_text(encoding="utf-8")).get_single_data()


@contextmanager
def _explain_errors(path: Path) -> Iterator[None]:
    """Turn the errors of a wrong configuration into AuditError."""
    try:
        yield
    except ZoneInfoNotFoundError as error:  # a KeyError too
        raise AuditError(f"{path}: timezone: {error.args[0]}; run `location-monitor check`") from error
    except KeyError as error:
        raise AuditError(f"{path}: the configuration has no key {error}; run `location-monitor check`") from None
    except (OSError, ValueError, TypeError, AttributeError, ZeroDivisionError, yaml.YAMLError, csv.Error) as error:
        raise AuditError(f"{path}: cannot be read as a configuration: {error}") from error


def _read_locations(path: Path) -> tuple[str, ...]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.reader(file, strict=True) if row]
    if rows and rows[0].count("location_id") != 1:
        raise ValueError(f"{path.name}: the header has not exactly one column location_id")
    column = rows[0].index("location_id") if rows else 0
    return tuple(row[column] for row in rows[1:])


def _parse_terms(config: Any, locations: tuple[str, ...]) -> AuditTerms:
    clock, visits, privacy = config["clock"], config["visits"], config["privacy"]
    grid = Grid(parse_instant(clock["origin"]), parse_duration(clock["slot"]))
    accept_ahead, default_stay = parse_duration(visits["accept_ahead"]), parse_duration(visits["default_stay"])
    max_lead = accept_ahead // grid.slot - -default_stay // grid.slot
    monitors: dict[str, list[Any]] = {}
    for monitor in config["monitors"]:
        monitors.setdefault(monitor["kind"], []).append(monitor)
    return AuditTerms(
        service=config["service"]["name"],
        shards=int(config["service"].get("shards", 16)),
        grid=grid,
        accept_ahead=accept_ahead // grid.slot,
        max_lead=max_lead,
        default_stay=default_stay,
        may_pay=parse_epsilon(privacy["epsilon"]),
        period=parse_duration(privacy["period"]),
        locations=locations,
        over_time=tuple(_parse_over_time(monitor, grid, max_lead) for monitor in monitors.get("over_time", ())),
        at_times=tuple(map(_parse_at_times, monitors.get("at_times", ()))),
        hot_spots=tuple(
            HotSpotsTerms(**_parse_timed(monitor), top=int(monitor["top"])) for monitor in monitors.get("hot_spots", ())
        ),
        dwell=tuple(map(_parse_dwell, monitors.get("dwell", ()))),
        public_key=(config.get("signing") or {}).get("public_key") or "",
    )


def _parse_dwell(monitor: Any) -> DwellTerms:
    return DwellTerms(
        **_parse_timed(monitor),
        longest=parse_duration(monitor["longest_visit"]) // _SECOND,
        per_person=int(monitor.get("visits_per_person", 1)),
    )


def _parse_over_time(monitor: Any, grid: Grid, max_lead: int) -> OverTimeTerms:
    named = monitor["locations"]
    weights = {location: int(named[location]) if isinstance(named, dict) else 1 for location in named}
    total, spent = sum(weights.values()), parse_epsilon(monitor["epsilon"])
    window = parse_duration(monitor["window"]) // grid.slot
    return OverTimeTerms(
        name=monitor["name"],
        shares={location: spent * weight / total for location, weight in weights.items()},
        answers=int(monitor.get("answers_per_window", 1)),
        threshold=int(monitor["threshold"]),
        window=window,
        mark_lifetime=window + max_lead,
    )


def _parse_at_times(monitor: Any) -> AtTimesTerms:
    bounds = monitor.get("at_least")
    at_least = None if bounds is None else parse_epsilon(bounds["epsilon"])
    return AtTimesTerms(**_parse_timed(monitor), threshold=int(monitor["threshold"]), at_least=at_least)


def _parse_timed(monitor: Any) -> dict[str, Any]:
    instants = tuple(text for text in monitor["at"] if "T" in text.upper())
    daily = tuple(time.fromisoformat(text) for text in monitor["at"] if text not in instants)
    return {
        "name": monitor["name"],
        "instants": tuple(parse_instant(text) for text in instants),
        "daily": daily,
        "zone": ZoneInfo(monitor["timezone"]) if daily else None,
        "horizon": parse_duration(monitor["reporting_horizon"]),
        "epsilon": parse_epsilon(monitor["epsilon"]),
    }


@lru_cache(maxsize=65_536)
def _find_times_of_day(day: int, daily: tuple[time, ...], zone: ZoneInfo | None) -> tuple[int, ...]:
    """Return the instants of times of day on a day of their zone, given as days since 1970."""
    on_day = _FIRST_DAY + timedelta(days=day)
    return tuple(parse_instant(datetime.combine(on_day, at, zone).isoformat()) for at in daily)
