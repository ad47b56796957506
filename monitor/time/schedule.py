"""Designated times: the instants τ about which a monitor gives answers (Algorithm 4, hot spots)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from monitor.time.instants import DAY, parse_instant, to_datetime, to_instant
from monitor.time.times_of_day import WEEK_DAYS, TimeOfDay, read_time_of_day

# Times of day are limited to 1970 to 2199. This public bound limits the cost of a visit that claims to last millennia.
_FIRST_DAY: Final = date(1970, 1, 1)
_LAST_DAY: Final = date(2199, 12, 31)
_FIRST: Final = to_instant(datetime(1970, 1, 1, tzinfo=UTC))
_LAST: Final = to_instant(datetime(2200, 1, 1, tzinfo=UTC))
_MARGIN: Final = timedelta(days=2)  # more than any offset from UTC
_MICROSECOND: Final = timedelta(microseconds=1)
_AHEAD: Final = 32 * DAY  # as the clock advances, the table is rebuilt about once per month
_BLOCK_DAYS: Final = 3_653  # the days for which offsets are found, and digests computed, at a time
_PROBE: Final = timedelta(hours=12)
_START: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - a local time in any zone


@dataclass(frozen=True, slots=True)
class _Table:
    """All designated times in [low, high). It is immutable, so threads may share it."""

    low: int
    high: int
    times: NDArray[np.int64]


@dataclass(slots=True)
class Schedule:
    """All designated times of one monitor: single instants, and times of day in a time zone (default UTC).

    A day of the week is that of the date in the zone.

    When the zone's clocks change, a time of day that occurs twice is evaluated once, the first time, and one that is
    skipped is moved by the length of the gap, as in `datetime`.
    """

    instants: tuple[int, ...]
    times_of_day: tuple[TimeOfDay, ...] = ()
    zone: ZoneInfo | None = None
    _table: _Table | None = field(init=False, repr=False, compare=False, default=None)
    _digest: str | None = field(init=False, repr=False, compare=False, default=None)

    @classmethod
    def of(cls, at: tuple[str, ...], timezone: str | None) -> Schedule:
        """Parse the times of the configuration: times of day (in `timezone`) and RFC 3339 instants."""
        read = [(text, read_time_of_day(text)) for text in at]
        times_of_day = tuple(one for _, one in read if one is not None)
        instants = tuple(sorted(parse_instant(text) for text, one in read if one is None))
        return cls(instants, times_of_day, ZoneInfo(timezone) if timezone and times_of_day else None)

    def find_between(self, low: int, high: int) -> NDArray[np.int64]:
        """Return the designated times in [low, high), sorted and distinct; shape (n,), microseconds."""
        table = self._find_table(low, high).times
        first, last = np.searchsorted(table, (low, high))
        return table[first:last]

    def digest(self) -> str:
        """Return SHA-256 of all designated times, in hexadecimal.

        It depends on the installed time zone data: under other rules, the same times of day are different instants.
        """
        if self._digest is None:
            state = hashlib.sha256()
            for times in self._split_blocks():
                state.update(times.astype("<i8").tobytes())
            self._digest = state.hexdigest()
        return self._digest

    def _split_blocks(self) -> Iterator[NDArray[np.int64]]:
        """Yield all designated times, ascending, in parts. All of them at once can need hundreds of megabytes."""
        rest = np.array(self.instants, np.int64)
        for first in range(0, (_LAST_DAY - _FIRST_DAY).days + 1, _BLOCK_DAYS):
            begin = _FIRST_DAY + timedelta(days=first)
            days = min(_BLOCK_DAYS, (_LAST_DAY - begin).days + 1)
            times = self._merge(rest, begin, days)
            # No time of a later day is earlier than this, because every offset is smaller than the margin.
            settled = np.searchsorted(times, _FIRST + (first + days) * DAY - _MARGIN // _MICROSECOND)
            yield times[:settled]
            rest = times[settled:]
        yield rest

    def _find_table(self, low: int, high: int) -> _Table:
        low, high = max(low, _FIRST), min(high, _LAST)
        table = self._table
        if table is not None:
            if table.low <= low and high <= table.high:
                return table
            low, high = min(low, table.low), max(high, table.high)
        table = self._build_table(low, max(low, high + _AHEAD))
        self._table = table
        return table

    def _build_table(self, low: int, high: int) -> _Table:
        first = max(_FIRST_DAY, (to_datetime(low) - _MARGIN).date())
        last = min(_LAST_DAY, (to_datetime(high) + _MARGIN).date())
        return _Table(low, high, self._merge(np.array(self.instants, np.int64), first, (last - first).days + 1))

    def _merge(self, instants: NDArray[np.int64], first: date, days: int) -> NDArray[np.int64]:
        """Return the instants and the times of day of consecutive days, ascending and distinct.

        A stable sort is fast, because its input is almost sorted. `numpy.unique` puts every time into a hash table.
        """
        midnight = datetime.combine(first, time(), UTC)
        starts = to_instant(midnight) + DAY * np.arange(days)
        sorted_by_clock = sorted(self.times_of_day)
        clocks = [to_instant(datetime.combine(first, one.at, UTC)) - to_instant(midnight) for one in sorted_by_clock]
        week = np.array([[day in one.days for one in sorted_by_clock] for day in WEEK_DAYS], bool)
        occurs = week[(first.weekday() + np.arange(days)) % len(WEEK_DAYS)]
        walls = (starts[:, None] + np.array(clocks, np.int64))[occurs]
        times = np.concatenate([instants, walls - _find_offsets(self.zone or UTC, walls)])
        times.sort(kind="stable")
        return times[np.diff(times, prepend=times[:1] - 1) > 0]


def _find_offsets(zone: tzinfo, walls: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the offsets from UTC (µs) of ascending local times, each given as the instant with the same digits in UTC.

    A `datetime` and its `utcoffset` take microseconds. For 66 times of day in 230 years, that would be half a minute at
    each start. So the few changes of the offset are found once for each block of days, and times are looked up in bulk.
    """
    offsets = np.empty_like(walls)
    first, last = (walls[[0, -1]] - _FIRST) // (_BLOCK_DAYS * DAY) if walls.size else (0, -1)
    for block in range(first, last + 1):
        begin, end = np.searchsorted(walls, _FIRST + _BLOCK_DAYS * DAY * np.array([block, block + 1]))
        starts, values = _find_steps(zone, block)
        steps = np.append(np.searchsorted(walls[begin:end], starts), end - begin)
        offsets[begin:end] = np.repeat(values, np.diff(steps))
    return offsets


@lru_cache(maxsize=1024)
def _find_steps(zone: tzinfo, block: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the local times in a block of days from which each offset applies, first its start, and these offsets.

    The offset is probed every 12 hours. Between two probes with different offsets, bisection finds the microsecond of
    each change. No zone of the time zone database changes its offset and changes it back within 12 hours.
    """
    probe = _START + block * _BLOCK_DAYS * timedelta(days=1)
    starts, values = [probe], [zone.utcoffset(probe)]
    for _ in range(2 * _BLOCK_DAYS):
        probe += _PROBE
        after = zone.utcoffset(probe)
        while values[-1] != after:
            starts.append(_find_change(zone, max(starts[-1], probe - _PROBE), probe))
            values.append(zone.utcoffset(starts[-1]))
    offsets = [(value or timedelta()) // _MICROSECOND for value in values]
    return np.array([to_instant(start.replace(tzinfo=UTC)) for start in starts], np.int64), np.array(offsets, np.int64)


def _find_change(zone: tzinfo, low: datetime, high: datetime) -> datetime:
    """Return a local time in (low, high] at which the offset changes from that at `low`. The offsets at both differ."""
    before = zone.utcoffset(low)
    while high - low > _MICROSECOND:
        middle = low + (high - low) // 2
        if zone.utcoffset(middle) == before:
            low = middle
        else:
            high = middle
    return high
