"""Designated times: the instants τ about which a monitor gives answers (Algorithm 4, hot spots)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from monitor.public.instants import DAY, parse_instant, to_datetime, to_instant

# Daily times are limited to 1970 to 2199. This public bound limits the cost of a visit that claims to last millennia.
_FIRST_DAY: Final = date(1970, 1, 1)
_LAST_DAY: Final = date(2199, 12, 31)
_FIRST: Final = to_instant(datetime(1970, 1, 1, tzinfo=UTC))
_LAST: Final = to_instant(datetime(2200, 1, 1, tzinfo=UTC))
_MARGIN: Final = timedelta(days=2)  # more than any offset from UTC
_MICROSECOND: Final = timedelta(microseconds=1)
_AHEAD: Final = 32 * DAY  # as the clock advances, the table is rebuilt about once a month


@dataclass(frozen=True, slots=True)
class _Table:
    """All designated times in [low, high). It is immutable, so threads may share it."""

    low: int
    high: int
    times: NDArray[np.int64]


@dataclass(slots=True)
class Schedule:
    """All designated times of one monitor: single instants, and times of day in a time zone (default UTC).

    When the zone's clocks change, a time of day that occurs twice counts only the first time, and one that is skipped
    is moved by the length of the gap, as in `datetime`.
    """

    instants: tuple[int, ...]
    daily: tuple[time, ...] = ()
    zone: ZoneInfo | None = None
    _table: _Table | None = field(init=False, repr=False, compare=False, default=None)

    @classmethod
    def of(cls, at: tuple[str, ...], timezone: str | None) -> Schedule:
        """Parse the times of the configuration: `18:00` (daily, in `timezone`) or RFC 3339 instants."""
        daily = tuple(time.fromisoformat(text) for text in at if "T" not in text.upper())
        instants = tuple(sorted(parse_instant(text) for text in at if "T" in text.upper()))
        return cls(instants, daily, ZoneInfo(timezone) if timezone and daily else None)

    def between(self, low: int, high: int) -> NDArray[np.int64]:
        """Return the designated times in [low, high), sorted and distinct; shape (n,), microseconds."""
        table = self._table_for(low, high).times
        first, last = np.searchsorted(table, (low, high))
        return table[first:last]

    def digest(self) -> str:
        """Return SHA-256 of all designated times, in hexadecimal.

        It depends on the time zone data of the image: under other rules, the same times of day are different instants.
        """
        return hashlib.sha256(self._build_table(_FIRST, _LAST).times.astype("<i8").tobytes()).hexdigest()

    def _table_for(self, low: int, high: int) -> _Table:
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
        days = (last - first).days + 1
        daily = [self._daily_from(datetime.combine(first, at), days) for at in self.daily]
        return _Table(low, high, np.unique(np.concatenate([np.array(self.instants, np.int64), *daily])))

    def _daily_from(self, wall: datetime, days: int) -> NDArray[np.int64]:
        """Return the instants of a time of day on consecutive days: the local time minus the offset on each day."""
        zone = self.zone or UTC
        walls = (wall + timedelta(days=n) for n in range(days))
        offsets = ((zone.utcoffset(local) or timedelta()) // _MICROSECOND for local in walls)
        begin = to_instant(wall.replace(tzinfo=UTC))
        return begin + DAY * np.arange(days) - np.fromiter(offsets, np.int64, days)
