"""A town over time: the visits that its people report, in order of report. Memory does not grow with time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from monitor.contracts.instants import DAY, HOUR, SECOND
from monitor.errors import UsageError
from monitor.tools.town.draws import Indices, Ints
from monitor.tools.town.epidemic import CHUNK, EpidemicParameters, Outbreak
from monitor.tools.town.people import populate
from monitor.tools.town.places import Atlas, Place
from monitor.tools.town.routine import DAY_SECONDS, Routine, Stays

_REPORTERS: Final = 1024  # the number of people whose past days are computed at once
_UPLOAD: Final = 4 * HOUR // SECOND  # all visits of a day are uploaded within this many seconds after midnight
_MONDAY: Final = 3  # the epoch was a Thursday


class SimulatedVisit(NamedTuple):
    """A stay at a public place and the time of its report; instants in microseconds."""

    person_id: str
    location_id: str
    arrived_at: int
    left_at: int
    reported_at: int


@dataclass(frozen=True, slots=True)
class VisitBatch:
    """Visits in order of `reported_at`, as arrays of one shape.

    `day`: the day of the town, from 0, of the reports (in `report_batches`) or of the visits (in `list_daily_batches`).
    `person`: numbers from 0. `place`: indices into the town's places. The other arrays are instants in microseconds. A
    day without reports has an empty batch.
    """

    day: int
    person: Ints
    place: Indices
    arrived_at: Ints
    left_at: Ints
    reported_at: Ints

    def __len__(self) -> int:
        return len(self.person)


class Town:
    """A simulated town with an epidemic. The same arguments give the same visits.

    Args:
        seed: decides all random draws.
        people: the number of people.
        places: the public places (`make_places` or `make_places_from_ids`). Each station has a district.
        start_us: the instant of a midnight of the town, in microseconds, without a fraction of a second.
        days: the number of simulated days.
        epidemic: the parameters of the outbreak.

    Raises:
        UsageError: there are no people, days or places, or the start has a fraction of a second.
    """

    def __init__(
        self,
        seed: int,
        people: int,
        places: Sequence[Place],
        start_us: int,
        days: int,
        epidemic: EpidemicParameters | None = None,
    ) -> None:
        if people < 1 or days < 1 or not places:
            raise UsageError(f"a town of {people} people and {len(places)} places for {days} days: expected 1 or more")
        if start_us % SECOND:
            raise UsageError("the town's start has a fraction of a second: expected whole seconds")
        self.places = tuple(places)
        self.people = people
        self.days = days
        self._start = start_us
        self._width = max(6, len(str(people - 1)))
        self._parameters = epidemic or EpidemicParameters()
        atlas = Atlas(self.places)
        # At noon in the town, the UTC date equals the town's date, in any time zone from UTC-11 to UTC+12.
        weekday = ((start_us + DAY // 2) // DAY + _MONDAY) % 7
        self._routine = Routine(populate(seed, people, atlas), atlas, weekday)

    def format_person_id(self, person: int) -> str:
        """Return the id of a person by number: `p-000017`."""
        return f"p-{person:0{self._width}d}"

    def list_reports(self) -> Iterator[SimulatedVisit]:
        """Yield the visits of infected people in order of report. Each person's last 14 days are reported at once."""
        return (visit for batch in self.report_batches() for visit in self._list_visits(batch))

    def report_batches(self) -> Iterator[VisitBatch]:
        """Yield the visits of `reports` as arrays, at least one batch per day, in order of day."""
        outbreak = Outbreak(self._routine, self._parameters)
        for day in range(self.days):
            reporters = outbreak.find_reported(day)
            for first in range(0, max(1, len(reporters)), _REPORTERS):
                yield self._collect_past(outbreak, reporters[first : first + _REPORTERS], day)
            outbreak.spread(day)

    def list_daily_batches(self) -> Iterator[VisitBatch]:
        """Yield everyone's visits, for load tests. The visits of a day are reported within four hours after its end."""
        outbreak = Outbreak(self._routine, self._parameters)
        for day in range(self.days):
            outbreak.spread(day)
            for first in range(0, self.people, CHUNK):
                persons = np.arange(first, min(first + CHUNK, self.people))
                uploaded = (day + 1) * DAY_SECONDS + persons * _UPLOAD // self.people
                yield self._make_batch(day, persons, uploaded, outbreak.find_stays(persons, day))

    def _collect_past(self, outbreak: Outbreak, reporters: Ints, day: int) -> VisitBatch:
        """Return the visits of these people in the last `reported_days` days before their report."""
        reported = outbreak.reported_at[reporters]
        span = self._parameters.reported_days
        days = [outbreak.find_stays(reporters, past) for past in range(max(0, day - span), day + 1)]
        row, start, end, place = (
            np.concatenate([getattr(stays, name) for stays in days]) for name in ("row", "start", "end", "place")
        )
        order = np.lexsort((start, row))
        stays = Stays(row[order], place[order], start[order], end[order])
        known = (stays.end <= reported[stays.row]) & (stays.start >= reported[stays.row] - span * DAY_SECONDS)
        return self._make_batch(day, reporters, reported, stays.where(known))

    def _make_batch(self, day: int, persons: Ints, reported: Ints, stays: Stays) -> VisitBatch:
        arrived, left, known = (
            self._start + seconds * SECOND for seconds in (stays.start, stays.end, reported[stays.row])
        )
        return VisitBatch(day, persons[stays.row], stays.place, arrived, left, known)

    def _list_visits(self, batch: VisitBatch) -> Iterator[SimulatedVisit]:
        ids = [place.location_id for place in self.places]
        columns = (batch.person, batch.place, batch.arrived_at, batch.left_at, batch.reported_at)
        for person, place, arrived, left, reported in zip(*(column.tolist() for column in columns), strict=True):
            yield SimulatedVisit(self.format_person_id(person), ids[place], arrived, left, reported)
