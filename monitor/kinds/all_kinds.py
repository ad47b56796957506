"""The list of all kinds of monitors, with their keys in the configuration (docs/architecture.md, section 1)."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from monitor.kinds.at_times.keys import AtTimesMonitor
from monitor.kinds.base.keys import ConfiguredMonitor
from monitor.kinds.dwell.keys import DwellMonitor
from monitor.kinds.hot_spots.keys import HotSpotsMonitor
from monitor.kinds.over_time.keys import OverTimeMonitor
from monitor.kinds.upper_bound.keys import UpperBoundMonitor

AnyMonitor = Annotated[
    OverTimeMonitor | AtTimesMonitor | HotSpotsMonitor | DwellMonitor | UpperBoundMonitor, Field(discriminator="kind")
]
"""One monitor of the configuration."""

KINDS: Final[dict[str, type[ConfiguredMonitor]]] = {
    "over_time": OverTimeMonitor,
    "at_times": AtTimesMonitor,
    "hot_spots": HotSpotsMonitor,
    "dwell": DwellMonitor,
    "upper_bound": UpperBoundMonitor,
}
"""The keys of each kind, in the order in which a tick answers the kinds."""
