"""Check the hot spots: the right number of locations in the right order, with upper bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

from monitor.tools.audit.check import Prove, Scope
from monitor.tools.audit.drawn import Drawing, DrawnCheck
from monitor.tools.audit.fields import Fields
from monitor.tools.audit.findings import FORM, NOISY
from monitor.tools.audit.terms import HotSpotsTerms


class HotSpotsCheck(DrawnCheck):
    """The check of one monitor's records."""

    def __init__(self, monitor: HotSpotsTerms, scope: Scope) -> None:
        super().__init__(monitor, scope)
        self._monitor = monitor

    def _list_facts(self) -> dict[str, object]:
        return {"top": self._monitor.top}

    def _read(self, fields: Fields, drawing: Drawing) -> Prove:
        named = [
            (spot.read_text("location_id"), spot.read_whole("noisy_count", 0))
            for spot in fields.read_objects("hot_spots")
        ]
        if drawing.status == "complete":
            self._charge("hot_spots", drawing)
            self.noisy += len(named)
            self._add(FORM, drawing, self._find_misnamed(named))
        elif named:
            self._findings.add(FORM, f"{drawing.where}: the status is unknown, but locations are named")
        return partial(self._prove, drawing, named)

    def _prove(self, drawing: Drawing, named: list[tuple[str, int]]) -> None:
        if drawing.status == "complete":
            self._add(NOISY, drawing, self._find_exceeded(drawing, named))

    def _find_misnamed(self, named: list[tuple[str, int]]) -> Iterator[str]:
        """Yield errors unless min(top, locations) locations are named once, by falling count, then registry order."""
        rows, expected = self._terms.rows, min(self._monitor.top, len(self._terms.locations))
        if len(named) != expected:
            yield f"{len(named)} locations are named, expected {expected}"
        for location, times in Counter(location for location, _ in named).items():
            if location not in rows:
                yield "a location is not in the registry"
            if times > 1:
                yield f"{self._terms.name_location(location)} is named {times} times"
        order = [(-count, rows.get(location, len(rows)), location) for location, count in named]
        for before, after in pairwise(order):
            if before[:2] > after[:2]:
                name = self._terms.name_location
                yield f"{name(after[2])} comes after {name(before[2])}, expected before it"

    def _find_exceeded(self, drawing: Drawing, named: list[tuple[str, int]]) -> Iterator[str]:
        """Yield the locations whose count exceeds their noisy count, or the lowest published one if they have none."""
        if self._recount is None:
            return
        rows, presence = self._terms.rows, self._recount.presence[self._monitor.name]
        bounds = {rows[location]: count for location, count in named if location in rows}
        least = min(((count, -row) for row, count in bounds.items()), default=None)
        for row in presence.list_rows_at(drawing.time):
            people = presence.count(drawing.time, row, drawing.tick)
            location = self._terms.locations[row]
            if people > bounds.get(row, people):
                yield f"{location}: there were more people than the noisy count"
            elif row not in bounds and least is not None and (people, -row) > least:
                yield f"{location} is not named, and there were more people than the last noisy count allows"
