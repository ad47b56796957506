"""The answers of all kinds (docs/architecture.md, section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from monitor.kinds.at_times.record import AT_TIMES, AtTimesSnapshot
from monitor.kinds.base.record_of_designated_times import TotalSnapshot
from monitor.kinds.dwell.record import DWELL, DwellSnapshot
from monitor.kinds.hot_spots.record import HOT_SPOTS, HotSpotsSnapshot
from monitor.kinds.over_time.record import OVER_TIME, OverTimeAlert
from monitor.kinds.upper_bound.record import UPPER_BOUND, UpperBoundAlert

Answer = OverTimeAlert | AtTimesSnapshot | TotalSnapshot | UpperBoundAlert
"""The value of a record with answers."""

TOTALS: Final[Mapping[str, type[TotalSnapshot]]] = {HOT_SPOTS: HotSpotsSnapshot, DWELL: DwellSnapshot}
"""The answers about all places together, each drawn once for its designated time, by ce_type."""

ANSWERS: Final[Mapping[str, type[Answer]]] = {
    OVER_TIME: OverTimeAlert,
    AT_TIMES: AtTimesSnapshot,
    **TOTALS,
    UPPER_BOUND: UpperBoundAlert,
}
"""All answers, by ce_type."""
