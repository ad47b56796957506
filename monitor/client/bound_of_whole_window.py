"""What is certain about the whole window of a place whose count starts afresh after a noisy count.

Such a count has only the people who were reported since the latest noisy count whose mark runs (`counted_since`). Those
who were reported before are in that count, or in an earlier one that it continues.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from msgspec import UNSET

from monitor.kinds.over_time.record import OverTimeAlert
from monitor.time.instants import parse_instant


def find_window_bound(alert: OverTimeAlert, alarms: Iterable[OverTimeAlert], slot: int) -> int | None:
    """Return a certain upper bound of the people in the whole window of an answer; None if none is known.

    It is the sum of the answer's own bound and of the noisy counts before it, as far as a visit that one of them
    counted can be in the window. One that was not read, or whose own window began later because `window` was shorter
    then, leaves no bound.

    Args:
        alert: the answer.
        alarms: the records of the noisy counts about the place that are known.
        slot: the length of a slot, in microseconds.
    """
    bound, last = alert.upper_bound, alert
    alarm_at = {one.as_of: one for one in alarms}
    while bound is not None and last.counted_since is not UNSET:
        if _has_ended(last, alert, slot):
            return bound
        before = alarm_at.get(last.counted_since)
        if before is None or parse_instant(before.window_start) > parse_instant(alert.window_start):
            return None
        bound, last = bound + (before.upper_bound or 0), before
    return bound


def _has_ended(alarm: OverTimeAlert, alert: OverTimeAlert, slot: int) -> bool:
    """Return whether the mark since which an alarm counts no longer runs at a later answer.

    No visit that was reported before is then in the window. The later answer repeats a mark that was lengthened.
    """
    since = parse_instant(cast("str", alarm.counted_since))
    running = {mark.tick for mark in alert.answers}
    starts = (mark for mark in alarm.answers if parse_instant(alarm.as_of) - (alarm.tick - mark.tick) * slot == since)
    return any(mark.until < alert.tick and mark.tick not in running for mark in starts)
