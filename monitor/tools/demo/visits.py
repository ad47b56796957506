"""The demo's visits: the reports of a simulated town, and a few invalid visits."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from monitor.contracts.instants import DAY, format_instant
from monitor.tools.town import EpidemicParameters, SimulatedVisit, Town, make_places_from_ids

POPULATION: Final = 6_000

# For any seed, the outbreak has begun before the demo and has not reached the whole town at its end.
_EPIDEMIC: Final = EpidemicParameters(initially_infected_per_10_000=150, infections_per_contact_hour=0.008)

_HEADER: Final = ("person_id", "location_id", "arrived_at", "left_at", "reported_at")
_INVALID_VISITS: Final = 5


def write_visits(path: Path, seed: int, locations: Sequence[str], start: int, days: int) -> int:
    """Write a town's reported visits, and some invalid ones, as a replay file (docs/interface.md, section 2).

    `start` is the instant of a midnight. Return the number of visits written.
    """
    town = Town(seed, POPULATION, make_places_from_ids(locations), start, days, _EPIDEMIC)
    visits = list(town.list_reports())
    rows = [_format_row(visit) for visit in visits]
    step = len(visits) // (_INVALID_VISITS + 1)
    for number, row in reversed(list(enumerate(_make_invalid_rows(visits[:: max(1, step)], start), start=1))):
        rows.insert(number * step, row)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([_HEADER, *rows])
    return len(rows)


def _format_row(visit: SimulatedVisit) -> tuple[str, ...]:
    times = (format_instant(time) for time in (visit.arrived_at, visit.left_at, visit.reported_at))
    return (visit.person_id, visit.location_id, *times)


def _make_invalid_rows(examples: Sequence[SimulatedVisit], start: int) -> Iterator[tuple[str, ...]]:
    """Yield a copy of each example with one fault, until there are no more faults."""
    faults: tuple[dict[str, str], ...] = (
        {"location_id": "lighthouse"},
        {"left_at": format_instant(start - DAY)},
        {"arrived_at": "yesterday, around noon"},
        {"person_id": ""},
        {"arrived_at": "2199-01-01T00:00:00Z", "left_at": "2199-01-01T01:00:00Z"},
    )
    for visit, fault in zip(examples, faults, strict=False):
        yield tuple((dict(zip(_HEADER, _format_row(visit), strict=True)) | fault).values())
