"""Check hot spots and dwell times: one record per designated time, drawn at the last tick about it.

Hot spots name the right number of locations in the right order, with upper bounds. Dwell times are totals as near to
the recount as their noise (docs/rules.md, rule 14).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any, Final

from monitor.audit.configuration import DwellTerms, HotSpotsTerms
from monitor.audit.findings import DWELL, FORM, NOISY, TICKS
from monitor.audit.monitor_checks import Check, Prove, Scope
from monitor.audit.parsing import format_utc
from monitor.audit.records import Dwell, FormError, HotSpots, Record
from monitor.audit.recount import MeasuredVisit

_FURTHEST: Final = 45
"""Noise beyond 45 times its scale has a probability of about e^-45 per total, so it is an error."""


class DrawnCheck(Check):
    """The check of one monitor's records. A subclass checks what they draw."""

    def __init__(self, monitor: HotSpotsTerms | DwellTerms, scope: Scope, facts: Mapping[str, Any]) -> None:
        super().__init__(scope)
        self._drawn_by = monitor
        self._facts = {
            "final": True,
            "registry": self._terms.digest,
            "locations": len(self._terms.locations),
            "epsilon": monitor.epsilon,
            **facts,
        }

    def take(self, record: Record) -> Prove | None:
        """Check the next record."""
        form, monitor = record.form, self._drawn_by
        key = f"{monitor.name}/{format_utc(form.time)}"
        where = f"{key}, tick {form.tick}"
        if form.time not in monitor.find_final_times(form.tick, self._terms.grid):
            self._findings.add(TICKS, f"{where}: the time is not designated, or this is not the last tick about it")
            return None
        if (monitor.name, form.time) in self._history.answered:
            self._findings.add(TICKS, f"{where}: the time is answered a second time")
        self._history.answered.add((monitor.name, form.time))
        for text in self._find_wrong(form):
            self._findings.add(FORM, f"{where}: {text}")
        self.statuses[form.status] += 1
        self._check_facts(record, key)
        if form.status == "unknown":
            return lambda: None
        self._payments.charge_time(self._terms, record.kind, monitor.name, form.time, monitor.epsilon, form.tick)
        return partial(self._prove, form, where)

    def list_facts(self, form: Any) -> dict[str, Any]:
        """Return the fields that follow from the configuration."""
        del form
        return self._facts

    @abstractmethod
    def _find_wrong(self, form: Any) -> Iterator[str]:
        """Yield the errors in what was drawn, from the output alone. Raise FormError for another form."""

    @abstractmethod
    def _prove(self, form: Any, where: str) -> None:
        """Compare what was drawn with the recount."""


class HotSpotsCheck(DrawnCheck):
    """The check of one monitor's hot spots."""

    def __init__(self, monitor: HotSpotsTerms, scope: Scope) -> None:
        super().__init__(monitor, scope, {"top": monitor.top})
        self._monitor = monitor

    def _find_wrong(self, form: HotSpots) -> Iterator[str]:
        if form.status == "complete":
            self.noisy += len(form.hot_spots)
            yield from self._find_misnamed(form)
        elif form.hot_spots:
            yield "the status is unknown, but locations are named"

    def _find_misnamed(self, form: HotSpots) -> Iterator[str]:
        """Yield errors unless min(top, locations) locations are named once, by falling count, then registry order."""
        rows, name = self._terms.rows, self._terms.name_location
        expected = min(self._monitor.top, len(self._terms.locations))
        if len(form.hot_spots) != expected:
            yield f"{len(form.hot_spots)} locations are named, expected {expected}"
        for location, times in Counter(spot.location_id for spot in form.hot_spots).items():
            if location not in rows:
                yield "a location is not in the registry"
            if times > 1:
                yield f"{name(location)} is named {times} times"
        order = [
            (-spot.noisy_count, rows.get(spot.location_id, len(rows)), spot.location_id) for spot in form.hot_spots
        ]
        for before, after in pairwise(order):
            if before[:2] > after[:2]:
                yield f"{name(after[2])} comes after {name(before[2])}, expected before it"

    def _prove(self, form: HotSpots, where: str) -> None:
        """Find locations whose count exceeds their noisy count, or the lowest published one if they have none."""
        if self._recount is None:
            return
        rows, presence = self._terms.rows, self._recount.presence[self._monitor.name]
        bounds = {rows[spot.location_id]: spot.noisy_count for spot in form.hot_spots if spot.location_id in rows}
        least = min(((count, -row) for row, count in bounds.items()), default=None)
        for row in presence.list_rows_at(form.time):
            people = presence.count(form.time, row, form.tick)
            location = f"{where}: {self._terms.locations[row]}"
            if people > bounds.get(row, people):
                self._findings.add(NOISY, f"{location}: there were more people than the noisy count")
            elif row not in bounds and least is not None and (people, -row) > least:
                text = "is not named, and there were more people than the last noisy count allows"
                self._findings.add(NOISY, f"{location} {text}")


class DwellCheck(DrawnCheck):
    """The check of one monitor's dwell times."""

    def __init__(self, monitor: DwellTerms, scope: Scope) -> None:
        facts = {"longest_visit_seconds": monitor.longest, "visits_per_person": monitor.per_person}
        super().__init__(monitor, scope, {"noise": "two_sided", **facts})
        self._monitor = monitor

    def _find_wrong(self, form: Dwell) -> Iterator[str]:
        numbers = form.visit_seconds, form.spare_seconds, form.visits
        if form.status == "unknown":
            if numbers != (None, None, None) or form.mean_seconds is not None:
                raise FormError("expected no numbers if the status is unknown")
        elif form.visit_seconds is None or form.spare_seconds is None:
            raise FormError("expected numbers if the status is complete")
        elif (form.visits, form.mean_seconds) != self._estimate(form.visit_seconds, form.spare_seconds):
            yield "the estimates do not follow from the totals"

    def _estimate(self, above: int, below: int) -> tuple[float, float | None]:
        """Return the estimates that follow from the totals: the number of visits, and their mean length in seconds."""
        longest, both = self._monitor.longest, above + below
        mean = Fraction(longest * min(max(above, 0), both), both) if both > 0 else None
        return both / longest, None if mean is None else float(mean)

    def _prove(self, form: Dwell, where: str) -> None:
        if self._recount is None or not self._recount.whole:
            return
        longest = self._monitor.longest
        visits = self._recount.lengths[self._monitor.name].get(form.time, ())
        lengths = self._select_lengths([visit for visit in visits if visit.current <= form.tick])
        exact = sum(lengths), sum(longest - length for length in lengths)
        furthest = math.ceil(_FURTHEST * 2 * self._monitor.per_person * longest / float(self._monitor.epsilon))
        noisy = form.visit_seconds or 0, form.spare_seconds or 0
        if any(abs(total - true) > furthest for total, true in zip(noisy, exact, strict=True)):
            self._findings.add(DWELL, f"{where}: a total is further from the recount than its noise")

    def _select_lengths(self, reported: Sequence[MeasuredVisit]) -> list[int]:
        """Return the lengths that count, in seconds: each person's longest at the first locations in the registry."""
        by_person: dict[int, dict[int, int]] = {}
        for visit in reported:
            own = by_person.setdefault(visit.person, {})
            own[visit.row] = max(visit.length, own.get(visit.row, 0))
        return [own[row] for own in by_person.values() for row in sorted(own)[: self._monitor.per_person]]
