"""A simulated town as files: what is reported, and the registry of its places."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.public.instants import DAY, SECOND
from monitor.tools.town import Place, Town, VisitBatch
from simulators.files import REGISTRY_HEADER, VISITS_HEADER, line, writing

Cells = NDArray[np.uint8]

_PEOPLE_PER_PLACE: Final = 25
_LEAST_PLACES: Final = 12
_NEWLINE: Final = ord("\n")
_COMMA: Final = ord(",")


@dataclass(frozen=True, slots=True)
class Written:
    """What has been written: visits, and people whose visits they are (0 in a load file: everyone)."""

    visits: int
    reports: int


def default_places(people: int) -> int:
    """How many public places a town of so many people has."""
    return max(_LEAST_PLACES, people // _PEOPLE_PER_PLACE)


def write_registry(path: Path, places: Iterable[Place]) -> None:
    """Write the registry of a town's places."""
    with writing(path) as out:
        out.write(line(REGISTRY_HEADER))
        for place in places:
            out.write(line((place.location_id, place.name, f"{place.latitude}", f"{place.longitude}")))


def write_city(path: Path, town: Town, *, all_visits: bool, on_day: Callable[[int, int], None]) -> Written:
    """Write a town's visits as they are reported, a day in memory at a time.

    Args:
        path: the file, gzipped where its name ends in `.gz`.
        town: the town.
        all_visits: everyone's visits, reported daily (a load); else those of infected people.
        on_day: told how many days are done, and how many visits have been written.
    """
    lines = Lines(town)
    visits = reports = 0
    with writing(path) as out:
        out.write(line(VISITS_HEADER))
        for batch in town.daily_batches() if all_visits else town.report_batches():
            on_day(batch.day, visits)
            out.write(lines.of(batch))
            visits += len(batch)
            reports += 0 if all_visits else len(np.unique(batch.person))
        on_day(town.days, visits)
    return Written(visits, reports)


class Lines:
    """Turns batches of visits into lines of CSV, column by column: every row in cells of fixed width, empty cells 0."""

    def __init__(self, town: Town) -> None:
        self._person = np.frombuffer(town.person_id(0).encode(), np.uint8)
        self._digits = len(self._person) - len("p-")
        self._places = _table([line((place.location_id,))[:-1] + b"," for place in town.places])
        clock = np.arange(DAY // SECOND)
        texts = np.datetime_as_string(clock.astype("datetime64[s]"))
        self._clock = _table([f"{text[10:]}Z".encode() for text in texts.tolist()])

    def of(self, batch: VisitBatch) -> bytes:
        """The lines of a batch."""
        rows = len(batch)
        if not rows:
            return b""
        comma, newline = (np.full((rows, 1), end, np.uint8) for end in (_COMMA, _NEWLINE))
        times = [self._time(column) for column in (batch.arrived_at, batch.left_at, batch.reported_at)]
        cells = np.hstack(
            [self._people(batch.person), comma, self._places[batch.place]]
            + [part for time, end in zip(times, (comma, comma, newline), strict=True) for part in (time, end)]
        )
        filled: Cells = cells[cells != 0]
        return filled.tobytes()

    def _people(self, persons: NDArray[np.int64]) -> Cells:
        cells = np.tile(self._person, (len(persons), 1))
        for digit in range(self._digits):
            cells[:, -1 - digit] = persons // 10**digit % 10 + ord("0")
        return cells

    def _time(self, instants: NDArray[np.int64]) -> Cells:
        day, second = np.divmod(instants // SECOND, DAY // SECOND)
        first = int(day.min())
        days = np.arange(first, int(day.max()) + 1).astype("datetime64[D]")
        dates = _table([text.encode() for text in np.datetime_as_string(days).tolist()])
        return np.hstack([dates[day - first], self._clock[second]])


def _table(texts: list[bytes]) -> Cells:
    """Texts as rows of cells, shape (texts, longest)."""
    fixed = np.array(texts)
    return fixed.view(np.uint8).reshape(len(texts), fixed.itemsize)
