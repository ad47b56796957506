"""The list of all kinds of monitors. Only this module names them all (docs/architecture.md, section 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field

from monitor.kinds.at_times.keys import AtTimesMonitor
from monitor.kinds.at_times.words import AtTimesWords
from monitor.kinds.configured_monitor import ConfiguredMonitor
from monitor.kinds.dwell.keys import DwellMonitor
from monitor.kinds.dwell.words import DwellWords
from monitor.kinds.hot_spots.keys import HotSpotsMonitor
from monitor.kinds.hot_spots.words import HotSpotsWords
from monitor.kinds.over_time.keys import OverTimeMonitor
from monitor.kinds.over_time.words import OverTimeWords
from monitor.kinds.timing import Timing
from monitor.kinds.words import Words

AnyMonitor = Annotated[OverTimeMonitor | AtTimesMonitor | HotSpotsMonitor | DwellMonitor, Field(discriminator="kind")]
"""One monitor of the configuration."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of monitor: its keys in the configuration, and what is said about it."""

    keys: type[ConfiguredMonitor]
    words: type[Words[Any]]


KINDS: Final = {
    "over_time": Kind(OverTimeMonitor, OverTimeWords),
    "at_times": Kind(AtTimesMonitor, AtTimesWords),
    "hot_spots": Kind(HotSpotsMonitor, HotSpotsWords),
    "dwell": Kind(DwellMonitor, DwellWords),
}
"""All kinds by name, in the order in which a tick answers them."""


def find_words(monitor: ConfiguredMonitor, timing: Timing, locations: int) -> Words[Any]:
    """Return what is said about a monitor. `locations`: the number of locations of the registry."""
    return KINDS[monitor.kind].words(monitor, timing, locations)
