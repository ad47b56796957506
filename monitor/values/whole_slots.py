"""The problems of a duration that does not fit the slots."""

from __future__ import annotations

from monitor.errors import Problem
from monitor.time.instants import format_duration


def report_not_whole(key: str, duration: int, slot: int) -> Problem:
    """Return the problem of a duration that is no whole number of slots (both in microseconds)."""
    below = duration // slot * slot
    near = [format_duration(length) for length in (below, below + slot) if length > 0]
    return Problem(
        key,
        format_duration(duration),
        f"a whole number of slots of {format_duration(slot)}",
        f"Set it to {' or '.join(near)}.",
    )


def report_too_short(key: str, duration: int, slot: int) -> Problem:
    """Return the problem of a duration that is shorter than a slot (both in microseconds)."""
    least = format_duration(slot)
    return Problem(key, format_duration(duration), f"at least one slot ({least})", f"Set it to {least} or more.")
