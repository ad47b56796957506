"""What the examples of all answers in the published schemas have in common: one town, its slots and its noon."""

from __future__ import annotations

from typing import Final, NamedTuple

from monitor.records.output_records import OutputRecord
from monitor.time.instants import HOUR, parse_instant
from monitor.time.slot_grid import SlotGrid

SOURCE: Final = "town"
GRID: Final = SlotGrid(parse_instant("2026-01-05T00:00:00Z"), HOUR)
NOON: Final = GRID.start(12)
STATION: Final = "station-central"
MUSEUM: Final = "museum"
REGISTRY: Final = "4a44dc15364204a80fe80e9039455cc1608281820fe2b24f1e5233ade6af1dd5"
"""The digest of all locations."""


class AnswerExample(NamedTuple):
    """An example of an answer: its name, what it shows, and its record."""

    name: str
    summary: str
    record: OutputRecord
