"""The demo's visits: the reports of a simulated town, and a few invalid visits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from monitor.operate.convert.files import VISITS_HEADER, format_csv_line, open_atomically
from monitor.operate.simulated_town import Town
from monitor.time.instants import DAY, format_instant

POPULATION: Final = 160_000
PEAK: Final = 1.0
"""Reports grow until the last day, so the demo ends in an outbreak."""


def write_visits(path: Path, seed: int, locations: Sequence[str], start: int, days: int) -> int:
    """Write a town's reported visits, and five invalid ones, as a replay file (docs/interface.md, section 2).

    `start` is the instant of a midnight. Return the number of visits written.
    """
    rows = [
        dict(zip(VISITS_HEADER, (f"p-{person:06}", locations[place], *map(format_instant, times)), strict=True))
        for visits in Town(seed, POPULATION, len(locations), start, days, peak=PEAK).list_reports()
        for person, place, *times in zip(
            *(column.tolist() for column in (visits.person, visits.place)),
            *(column.tolist() for column in (visits.arrived_at, visits.left_at, visits.reported_at)),
            strict=True,
        )
    ]
    faults: tuple[dict[str, str], ...] = (
        {"location_id": "lighthouse"},
        {"left_at": format_instant(start - DAY)},
        {"arrived_at": "yesterday, around noon"},
        {"person_id": ""},
        {"arrived_at": "2199-01-01T00:00:00Z", "left_at": "2199-01-01T01:00:00Z"},
    )
    step = max(1, len(rows) // (len(faults) + 1))
    for number, fault in reversed(list(enumerate(faults[: len(rows) // 2], start=1))):
        rows.insert(number * step, rows[min(number * step, len(rows) - 1)] | fault)
    with open_atomically(path) as file:
        for row in (VISITS_HEADER, *(tuple(row.values()) for row in rows)):
            file.write(format_csv_line(row))
    return len(rows)
