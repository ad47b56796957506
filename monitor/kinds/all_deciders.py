"""The deciders of all kinds. They are apart from the list of all kinds, because only the service loads them."""

from __future__ import annotations

from typing import Any, Final

from monitor.kinds.at_times.decide import AtTimesDecider
from monitor.kinds.base.decide import MonitorDecider
from monitor.kinds.dwell.decide import DwellDecider
from monitor.kinds.hot_spots.decide import HotSpotsDecider
from monitor.kinds.over_time.decide import OverTimeDecider
from monitor.kinds.upper_bound.decide import UpperBoundDecider

DECIDERS: Final[dict[str, type[MonitorDecider[Any]]]] = {
    "over_time": OverTimeDecider,
    "at_times": AtTimesDecider,
    "hot_spots": HotSpotsDecider,
    "dwell": DwellDecider,
    "upper_bound": UpperBoundDecider,
}
"""The decider of each kind."""
