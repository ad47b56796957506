"""What became of each visit, recounted (docs/interface.md, section 1: fate)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from monitor.tools.audit.counts import designated
from monitor.tools.audit.terms import AuditTerms
from monitor.tools.audit.visits import Visits

Flags = NDArray[np.bool_]


def fates_of(visits: Visits, terms: AuditTerms, last_tick: int) -> dict[str, int]:
    """Visits by fate, of those reported before the last tick's as_of.

    A visit reported in slot c is in the counts of tick c and later ones: what these can ask about is applied.
    """
    once = np.zeros(visits.row.size, np.bool_)
    still = np.zeros(visits.row.size, np.bool_)
    for asked, answerable in (_over_time(visits, terms), _timed(visits, terms)):
        once |= asked
        still |= answerable
    reported = visits.current <= last_tick
    return {
        "applied": _number(still & reported),
        "not_watched": _number(~once & reported),
        "expired": _number(once & ~still & reported),
        "dead_letter": _number(visits.dead <= last_tick),
    }


def _over_time(visits: Visits, terms: AuditTerms) -> tuple[Flags, Flags]:
    widest = np.zeros(len(terms.locations), np.int64)
    for monitor in terms.over_time:
        for location in monitor.shares:
            row = terms.rows[location]
            widest[row] = max(widest[row], monitor.window)
    window = widest[visits.row]
    return window > 0, (window > 0) & (visits.last > visits.current - window)


def _timed(visits: Visits, terms: AuditTerms) -> tuple[Flags, Flags]:
    once = np.zeros(visits.row.size, np.bool_)
    still = np.zeros(visits.row.size, np.bool_)
    for monitor in terms.timed:
        times = designated(visits, monitor)
        end = np.searchsorted(times, visits.left)
        once |= np.searchsorted(times, visits.arrived) < end
        oldest = terms.grid.origin + (visits.current + 1) * terms.grid.slot - monitor.horizon
        still |= np.searchsorted(times, np.maximum(visits.arrived, oldest)) < end
    return once, still


def _number(flags: Flags) -> int:
    return int(np.count_nonzero(flags))
