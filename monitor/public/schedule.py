"""Designated times: the instants τ at which an `at_times` monitor asks who was where (Algorithm 4)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from monitor.public.instants import DAY, parse_instant, to_datetime, to_instant

# Daily times exist from 1970 to 2199: a public bound, so that a visit that claims to last for millennia costs nothing.
_FIRST_DAY: Final = date(1970, 1, 1)
_LAST_DAY: Final = date(2199, 12, 31)
_FIRST: Final = to_instant(datetime(1970, 1, 1, tzinfo=UTC))
_LAST: Final = to_instant(datetime(2200, 1, 1, tzinfo=UTC))
_MARGIN: Final = timedelta(days=2)  # more than any offset from UTC
_TICK: Final = timedelta(microseconds=1)
_AHEAD: Final = 32 * DAY  # so that a clock that moves on remakes the table once a month


@dataclass(frozen=True, slots=True)
class _Table:
    """All designated times in [low, high), made once; replaced as a whole, so that threads may share it."""

    low: int
    high: int
    times: NDArray[np.int64]


@dataclass(slots=True)
class Schedule:
    """All designated times of one monitor: single instants, and times of day in a time zone (UTC without one).

    Where clocks change, a time of day that comes twice counts once (the first), and one that is skipped moves by the
    length of the gap, as `datetime` has it.
    """

    instants: tuple[int, ...]
    daily: tuple[time, ...] = ()
    zone: ZoneInfo | None = None
    _table: _Table | None = field(init=False, repr=False, compare=False, default=None)

    @classmethod
    def of(cls, at: tuple[str, ...], timezone: str | None) -> Schedule:
        """Read them as the configuration writes them: `18:00` (daily, in `timezone`) or instants of RFC 3339."""
        daily = tuple(time.fromisoformat(text) for text in at if "T" not in text.upper())
        instants = tuple(sorted(parse_instant(text) for text in at if "T" in text.upper()))
        return cls(instants, daily, ZoneInfo(timezone) if timezone and daily else None)

    def between(self, low: int, high: int) -> NDArray[np.int64]:
        """The designated times in [low, high), sorted, without repeats; shape (n,), microseconds."""
        table = self._covering(low, high).times
        first, last = np.searchsorted(table, (low, high))
        return table[first:last]

    def covered(self, arrived_at: int, left_at: int) -> bool:
        """Whether a visit [arrived_at, left_at) covers any of them."""
        return self.between(arrived_at, left_at).size > 0

    def digest(self) -> str:
        """SHA-256 of all the designated times there are, in hexadecimal.

        What an image says of a zone's clocks is in it: under other rules the same names mean other instants.
        """
        return hashlib.sha256(self._made(_FIRST, _LAST).times.astype("<i8").tobytes()).hexdigest()

    def _covering(self, low: int, high: int) -> _Table:
        low, high = max(low, _FIRST), min(high, _LAST)
        table = self._table
        if table is not None:
            if table.low <= low and high <= table.high:
                return table
            low, high = min(low, table.low), max(high, table.high)
        table = self._made(low, max(low, high + _AHEAD))
        self._table = table
        return table

    def _made(self, low: int, high: int) -> _Table:
        first = max(_FIRST_DAY, (to_datetime(low) - _MARGIN).date())
        last = min(_LAST_DAY, (to_datetime(high) + _MARGIN).date())
        days = (last - first).days + 1
        found = [self._daily_from(datetime.combine(first, at), days) for at in self.daily]
        return _Table(low, high, np.unique(np.concatenate([np.array(self.instants, np.int64), *found])))

    def _daily_from(self, wall: datetime, days: int) -> NDArray[np.int64]:
        """The instants of one time of day on consecutive days: what the wall shows, less the zone's offset then."""
        zone = self.zone or UTC
        walls = (wall + timedelta(days=n) for n in range(days))
        offsets = ((zone.utcoffset(each) or timedelta()) // _TICK for each in walls)
        begin = to_instant(wall.replace(tzinfo=UTC))
        return begin + DAY * np.arange(days) - np.fromiter(offsets, np.int64, days)
