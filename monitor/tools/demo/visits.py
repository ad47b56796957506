"""The demo's visits: what a simulated town reports, and a few that are none."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from monitor.public.instants import DAY, format_instant
from monitor.tools.town import EpidemicParameters, SimulatedVisit, Town, places_of

PEOPLE: Final = 6_000

# An outbreak that is under way when the demo begins, for whatever seed, and does not fill the whole town by its end.
_EPIDEMIC: Final = EpidemicParameters(initially_infected_per_10_000=150, infections_per_contact_hour=0.008)

_HEADER: Final = ("person_id", "location_id", "arrived_at", "left_at", "reported_at")
_BAD_ONES: Final = 5


def write_visits(path: Path, seed: int, locations: Sequence[str], start: int, days: int) -> int:
    """Write a town's reported visits as a replay file (docs/interface.md, section 2), bad ones among them.

    `start` is an instant, a midnight. Returns how many lines it wrote.
    """
    town = Town(seed, PEOPLE, places_of(locations), start, days, _EPIDEMIC)
    visits = list(town.reports())
    rows = [_row(visit) for visit in visits]
    every = len(visits) // (_BAD_ONES + 1)
    for number, row in reversed(list(enumerate(_bad(visits[:: max(1, every)], start), start=1))):
        rows.insert(number * every, row)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([_HEADER, *rows])
    return len(rows)


def _row(visit: SimulatedVisit) -> tuple[str, ...]:
    times = (format_instant(time) for time in (visit.arrived_at, visit.left_at, visit.reported_at))
    return (visit.person_id, visit.location_id, *times)


def _bad(examples: Sequence[SimulatedVisit], start: int) -> Iterator[tuple[str, ...]]:
    """Visits with one fault each, like good ones otherwise; fewer where there are fewer examples."""
    faults: tuple[dict[str, str], ...] = (
        {"location_id": "lighthouse"},
        {"left_at": format_instant(start - DAY)},
        {"arrived_at": "yesterday, around noon"},
        {"person_id": ""},
        {"arrived_at": "2199-01-01T00:00:00Z", "left_at": "2199-01-01T01:00:00Z"},
    )
    for visit, fault in zip(examples, faults, strict=False):
        yield tuple((dict(zip(_HEADER, _row(visit), strict=True)) | fault).values())
