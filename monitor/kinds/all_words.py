"""What is said about all kinds. It is apart from the list of all kinds, because only operators' commands load it."""

from __future__ import annotations

from typing import Any, Final

from monitor.kinds.at_times.words import AtTimesWords
from monitor.kinds.base.keys import ConfiguredMonitor
from monitor.kinds.base.words import Words
from monitor.kinds.dwell.words import DwellWords
from monitor.kinds.hot_spots.words import HotSpotsWords
from monitor.kinds.over_time.words import OverTimeWords
from monitor.kinds.timing import Timing
from monitor.kinds.upper_bound.words import UpperBoundWords

WORDS: Final[dict[str, type[Words[Any]]]] = {
    "over_time": OverTimeWords,
    "at_times": AtTimesWords,
    "hot_spots": HotSpotsWords,
    "dwell": DwellWords,
    "upper_bound": UpperBoundWords,
}
"""The words of each kind, in the order of `KINDS`."""


def find_words(monitor: ConfiguredMonitor, timing: Timing, locations: int) -> Words[Any]:
    """Return what is said about a monitor. `locations`: the number of locations of the registry."""
    return WORDS[monitor.kind](monitor, timing, locations)
