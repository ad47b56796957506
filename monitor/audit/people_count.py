"""The number of distinct people at a location, tick by tick, and since a slot of stamps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

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
