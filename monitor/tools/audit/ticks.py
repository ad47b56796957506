"""The ticks of records, and the order in which records are judged."""

from __future__ import annotations

from collections.abc import Callable

from monitor.tools.audit.terms import Grid


class TickOrder:
    """The order in which records are judged: by tick, then by partition and offset.

    A record without a tick, or with an earlier one, stays after its predecessor in its partition. `is_ahead` returns
    whether a tick is far ahead of the clock: such a tick does not count.
    """

    def __init__(self, grid: Grid, is_ahead: Callable[[int], bool]) -> None:
        self._grid = grid
        self._is_ahead = is_ahead
        self._newest: dict[int, int] = {}

    def find(self, partition: int, value: object) -> int:
        """Return the tick of the next record of a partition in this order."""
        tick, newest = read_tick(value, self._grid), self._newest.get(partition, -1 << 62)
        if tick is not None and not self._is_ahead(tick):
            newest = self._newest[partition] = max(tick, newest)
        return newest


def read_tick(value: object, grid: Grid) -> int | None:
    """Return the tick of a record's value; None if it has none, or one whose as_of cannot be written as a time."""
    tick = value.get("tick") if isinstance(value, dict) else None
    return tick if isinstance(tick, int) and not isinstance(tick, bool) and grid.has(tick) else None


def format_ticks(first: int, last: int) -> str:
    """Return a range of ticks in words."""
    return f"tick {first}" if first == last else f"ticks {first} to {last}"
