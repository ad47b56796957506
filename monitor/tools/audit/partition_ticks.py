"""The ticks that each output partition answers, and those that are missing."""

from __future__ import annotations

from dataclasses import dataclass, field

from monitor.tools.audit.terms import Grid


@dataclass(slots=True)
class PartitionTicks:
    """The latest tick of each output partition, and the ticks that are missing before it.

    `missing` has ranges (first, last) of ticks by partition. A tick is missing if nobody decided it: a decided tick has
    answers, or an owner record that names it.
    """

    last: dict[int, int] = field(default_factory=dict)
    missing: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def take(self, partition: int | None, tick: int | None) -> range:
        """Add the tick of a record. Return the ticks that it shows to be missing."""
        if partition is None or tick is None:
            return range(0)
        last = self.last.get(partition, tick)
        self.last[partition] = max(tick, last)
        if tick <= last + 1:
            return range(0)
        self.missing.setdefault(partition, []).append((last + 1, tick - 1))
        return range(last + 1, tick)


def read_tick(value: object, grid: Grid) -> int | None:
    """Return the tick of a record's value; None if it has none, or one whose as_of cannot be written as a time."""
    tick = value.get("tick") if isinstance(value, dict) else None
    return tick if isinstance(tick, int) and not isinstance(tick, bool) and grid.has(tick) else None


def format_ticks(first: int, last: int) -> str:
    """Return a range of ticks in words."""
    return f"tick {first}" if first == last else f"ticks {first} to {last}"
