"""Recount the visits by fate (docs/interface.md, section 1)."""

from __future__ import annotations

from bisect import bisect_left

from monitor.tools.audit.counts import find_designated_times
from monitor.tools.audit.terms import AuditTerms
from monitor.tools.audit.visits import AcceptedVisit, Visits


def count_fates(visits: Visits, terms: AuditTerms, last_tick: int) -> dict[str, int]:
    """Count the visits that were reported before the last tick's as_of, by fate.

    A visit reported in slot c counts from tick c on. It is applied if tick c or a later tick has a window or designated
    time that contains it, and expired if only earlier ticks do.
    """
    fates = {"applied": 0, "not_watched": 0, "expired": 0}
    widest = _find_widest_windows(terms)
    timed = [(find_designated_times(visits, monitor), monitor.horizon) for monitor in terms.timed]
    for visit in visits.accepted:
        if visit.current > last_tick:
            continue
        window = widest.get(visit.row)
        watched, applied = window is not None, window is not None and visit.last > visit.current - window
        for times, horizon in timed:
            oldest = terms.grid.as_of(visit.current) - horizon
            watched = watched or _covers_any(times, visit.arrived, visit)
            applied = applied or _covers_any(times, max(visit.arrived, oldest), visit)
        fates["applied" if applied else "expired" if watched else "not_watched"] += 1
    return fates | {"dead_letter": sum(slot <= last_tick for slot in visits.dead)}


def _find_widest_windows(terms: AuditTerms) -> dict[int, int]:
    """Return the widest window over each watched location, by row."""
    widest: dict[int, int] = {}
    for monitor in terms.over_time:
        for location in monitor.shares:
            row = terms.rows[location]
            widest[row] = max(widest.get(row, 0), monitor.window)
    return widest


def _covers_any(times: list[int], since: int, visit: AcceptedVisit) -> bool:
    """Return whether the visit covers any of these times at or after an instant."""
    place = bisect_left(times, since)
    return place < len(times) and times[place] < visit.left
