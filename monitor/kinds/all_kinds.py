"""The table of all kinds of monitors (docs/architecture.md, section 1).

It loads what the service and the commands need. A reader of records needs `all_answers` alone.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, NamedTuple

from pydantic import Field

from monitor.kinds.at_times.decide import AtTimesDecider
from monitor.kinds.at_times.keys_and_parameters import AtTimesMonitor
from monitor.kinds.at_times.words import AtTimesWords
from monitor.kinds.base.decider import MonitorDecider
from monitor.kinds.base.keys_and_parameters import ConfiguredMonitor
from monitor.kinds.base.words import Words
from monitor.kinds.dwell.decide import DwellDecider
from monitor.kinds.dwell.keys_and_parameters import DwellMonitor
from monitor.kinds.dwell.words import DwellWords
from monitor.kinds.hot_spots.decide import HotSpotsDecider
from monitor.kinds.hot_spots.keys_and_parameters import HotSpotsMonitor
from monitor.kinds.hot_spots.words import HotSpotsWords
from monitor.kinds.over_time.decide import OverTimeDecider
from monitor.kinds.over_time.keys_and_parameters import OverTimeMonitor
from monitor.kinds.over_time.words import OverTimeWords
from monitor.kinds.timing import Timing
from monitor.kinds.upper_bound.decide import UpperBoundDecider
from monitor.kinds.upper_bound.keys_and_parameters import UpperBoundMonitor
from monitor.kinds.upper_bound.words import UpperBoundWords

AnyMonitor = Annotated[
    OverTimeMonitor | AtTimesMonitor | HotSpotsMonitor | DwellMonitor | UpperBoundMonitor, Field(discriminator="kind")
]
"""One monitor of the configuration."""


class Kind(NamedTuple):
    """The classes of one kind: its keys in the configuration, its decisions, and what is said about it."""

    keys: type[ConfiguredMonitor]
    decider: type[MonitorDecider[Any]]
    words: type[Words[Any]]


KINDS: Final[dict[str, Kind]] = {
    "over_time": Kind(OverTimeMonitor, OverTimeDecider, OverTimeWords),
    "at_times": Kind(AtTimesMonitor, AtTimesDecider, AtTimesWords),
    "hot_spots": Kind(HotSpotsMonitor, HotSpotsDecider, HotSpotsWords),
    "dwell": Kind(DwellMonitor, DwellDecider, DwellWords),
    "upper_bound": Kind(UpperBoundMonitor, UpperBoundDecider, UpperBoundWords),
}
"""All kinds, in the order in which a tick answers them."""


def find_words(monitor: ConfiguredMonitor, timing: Timing, locations: int) -> Words[Any]:
    """Return what is said about a monitor. `locations`: the number of locations of the registry."""
    return KINDS[monitor.kind].words(monitor, timing, locations)
