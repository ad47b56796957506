"""Write a simulated town to files: the reported visits, and the registry of its places."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.contracts.instants import DAY, SECOND
from monitor.tools.convert.files import (
    CONSENT_HEADER,
    REGISTRY_HEADER,
    VISITS_HEADER,
    consents,
    format_csv_line,
    open_atomically,
)
from monitor.tools.town import Place, Town, VisitBatch

Cells = NDArray[np.uint8]

_PEOPLE_PER_PLACE: Final = 25
_LEAST_PLACES: Final = 12
_NEWLINE: Final = ord("\n")
_COMMA: Final = ord(",")


@dataclass(frozen=True, slots=True)
class Written:
    """The numbers of visits written and of people reported. `reports` is 0 if the visits of all people are written."""

    visits: int
    reports: int


def default_place_count(people: int) -> int:
    """Return the default number of public places of a town with this number of people."""
    return max(_LEAST_PLACES, people // _PEOPLE_PER_PLACE)


def write_registry(path: Path, places: Iterable[Place]) -> None:
    """Write the registry of a town's places."""
    with open_atomically(path) as out:
        out.write(format_csv_line(REGISTRY_HEADER))
        for place in places:
            out.write(format_csv_line((place.location_id, place.name, f"{place.latitude}", f"{place.longitude}")))


def write_city(
    path: Path, town: Town, *, all_visits: bool, on_day: Callable[[int, int], None], consent: float | None = None
) -> Written:
    """Write a town's visits in order of report. Only one day is in memory at a time.

    Args:
        path: the file, gzipped if its name ends in `.gz`.
        town: the town.
        all_visits: write the visits of all people, reported daily, for load tests. Otherwise those of infected people.
        on_day: called with the numbers of days simulated and of visits written.
        consent: the share of people who consent to lower bounds; None writes no such column.
    """
    lines = LineFormatter(town, consent)
    visits = reports = 0
    with open_atomically(path) as out:
        out.write(format_csv_line(VISITS_HEADER if consent is None else CONSENT_HEADER))
        for batch in town.list_daily_batches() if all_visits else town.report_batches():
            on_day(batch.day, visits)
            out.write(lines.format(batch))
            visits += len(batch)
            reports += 0 if all_visits else len(np.unique(batch.person))
        on_day(town.days, visits)
    return Written(visits, reports)


class LineFormatter:
    """A formatter of visits as CSV. To be fast, it works on columns, padded with zero bytes that are then removed."""

    def __init__(self, town: Town, consent: float | None = None) -> None:
        self._person = np.frombuffer(town.format_person_id(0).encode(), np.uint8)
        self._digits = len(self._person) - len("p-")
        self._places = _to_cells([format_csv_line((place.location_id,))[:-1] + b"," for place in town.places])
        clock = np.arange(DAY // SECOND)
        texts = np.datetime_as_string(clock.astype("datetime64[s]"))
        self._clock = _to_cells([f"{text[10:]}Z".encode() for text in texts.tolist()])
        self._consent: Cells | None = None
        if consent is not None:
            answers = (consents(town.format_person_id(person), consent) for person in range(town.people))
            self._consent = _to_cells([b",true" if answer else b",false" for answer in answers])

    def format(self, batch: VisitBatch) -> bytes:
        """Return the lines of a batch."""
        rows = len(batch)
        if not rows:
            return b""
        comma, newline = (np.full((rows, 1), end, np.uint8) for end in (_COMMA, _NEWLINE))
        times = [self._format_times(column) for column in (batch.arrived_at, batch.left_at, batch.reported_at)]
        last = [] if self._consent is None else [self._consent[batch.person]]
        cells = np.hstack(
            [
                *(self._format_people(batch.person), comma, self._places[batch.place]),
                *(times[0], comma, times[1], comma, times[2]),
                *last,
                newline,
            ]
        )
        filled: Cells = cells[cells != 0]
        return filled.tobytes()

    def _format_people(self, persons: NDArray[np.int64]) -> Cells:
        cells = np.tile(self._person, (len(persons), 1))
        for digit in range(self._digits):
            cells[:, -1 - digit] = persons // 10**digit % 10 + ord("0")
        return cells

    def _format_times(self, instants: NDArray[np.int64]) -> Cells:
        day, second = np.divmod(instants // SECOND, DAY // SECOND)
        first = int(day.min())
        days = np.arange(first, int(day.max()) + 1).astype("datetime64[D]")
        dates = _to_cells([text.encode() for text in np.datetime_as_string(days).tolist()])
        return np.hstack([dates[day - first], self._clock[second]])


def _to_cells(texts: list[bytes]) -> Cells:
    """Return texts as rows of bytes, padded with zeros, shape (texts, longest)."""
    fixed = np.array(texts)
    return fixed.view(np.uint8).reshape(len(texts), fixed.itemsize)
