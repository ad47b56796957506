"""Check dwell times: one record per designated time, drawn at the last tick, as close to the recount as its noise."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any, Final

from monitor.tools.audit.counts import designated_times, select
from monitor.tools.audit.findings import DWELL, FORM, TICKS, Findings
from monitor.tools.audit.hot_spots import Drawing
from monitor.tools.audit.records import PublishedRecord, check_envelope, check_facts
from monitor.tools.audit.terms import AuditTerms, DwellTerms
from monitor.tools.audit.text import format_utc, parse_instant
from monitor.tools.audit.visits import Visits

_SECOND: Final = 1_000_000
_FURTHEST: Final = 45
"""Noise beyond 45 times its scale has a chance of about e^-45 per total, so it is an error rather than chance."""

_NUMBERS: Final = ("visit_seconds", "spare_seconds", "visits", "mean_seconds")


class DwellCheck:
    """The check of one monitor's records.

    `answers` lists the drawings, `statuses` counts the records by status. Totals are not compared if input has expired
    (`whole_input`), because then the recount may lack visits.
    """

    safe = 0
    noisy = 0

    def __init__(  # by name
        self,
        terms: AuditTerms,
        monitor: DwellTerms,
        visits: Visits,
        findings: Findings,
        *,
        every_tick: bool,
        whole_input: bool,
    ) -> None:
        self._terms = terms
        self._monitor = monitor
        self._findings = findings
        self._every_tick = every_tick
        self._whole_input = whole_input
        self._answered: set[int] = set()
        self._lengths = _find_lengths(visits, terms, monitor)
        self.answers: list[Drawing] = []
        self.statuses: Counter[str] = Counter()

    def take(self, record: PublishedRecord) -> None:
        """Check the next record.

        Raises:
            KeyError, TypeError, ValueError: a field is missing, or is not in the form of docs/interface.md.
        """
        value, tick = record.value, int(record.value["tick"])
        time, where = parse_instant(value["time"]), f"{self._monitor.name}/{value['time']}, tick {tick}"
        if not self._monitor.between(time, time + 1) or tick != self._monitor.ticks(time, self._terms.grid)[1]:
            self._findings.add(TICKS, f"{where}: the time is not designated, or this is not the last tick about it")
            return
        if time in self._answered:
            self._findings.add(TICKS, f"{where}: the time is answered a second time")
        self._answered.add(time)
        self.statuses[value["status"]] += 1
        self._check_form(record, time, tick)
        if value["status"] == "complete":
            self.answers.append(Drawing(time, tick, tick + (record.late_slots or 0)))
            self._check_numbers(value, self.answers[-1], where)
        elif value["status"] != "unknown" or any(value[name] is not None for name in _NUMBERS):
            self._findings.add(FORM, f"{where}: expected complete, or unknown without numbers")

    def finish(self, first: int, last: int) -> None:
        """Check that every designated time whose last tick is in the range was answered."""
        if not self._every_tick:
            return
        grid, horizon = self._terms.grid, self._monitor.horizon
        for time in self._monitor.between(grid.as_of(first) - horizon, grid.as_of(last + 1) - horizon):
            if time not in self._answered:
                tick = self._monitor.ticks(time, grid)[1]
                self._findings.add(TICKS, f"{self._monitor.name}/{format_utc(time)}: tick {tick} is missing")

    def _check_form(self, record: PublishedRecord, time: int, tick: int) -> None:
        terms, monitor = self._terms, self._monitor
        check_envelope(record, terms, f"{monitor.name}/{format_utc(time)}", tick, self._findings)
        facts = {
            "kind": "dwell",
            "final": True,
            "registry": terms.digest,
            "locations": len(terms.locations),
            "noise": "two_sided",
            "epsilon": str(monitor.epsilon),
            "longest_visit_seconds": monitor.longest,
            "visits_per_person": monitor.per_person,
        }
        check_facts(record, facts, self._findings)

    def _check_numbers(self, value: Any, drawn: Drawing, where: str) -> None:
        """Check that the estimates follow from the totals, and that the totals are near those of the recount."""
        longest = self._monitor.longest
        above, below = value["visit_seconds"], value["spare_seconds"]
        both = above + below
        mean = Fraction(longest * min(max(above, 0), both), both) if both > 0 else None
        estimates = both / longest, None if mean is None else float(mean)
        if (value["visits"], value["mean_seconds"]) != estimates:
            self._findings.add(FORM, f"{where}: the estimates do not follow from the totals")
        if not self._whole_input:
            return
        lengths = self._count(drawn)
        exact = sum(lengths), sum(longest - length for length in lengths)
        scale = 2 * self._monitor.per_person * longest / float(self._monitor.epsilon)
        if any(
            abs(noisy - true) > math.ceil(_FURTHEST * scale) for noisy, true in zip((above, below), exact, strict=True)
        ):
            self._findings.add(DWELL, f"{where}: a total is further from the recount than its noise")

    def _count(self, drawn: Drawing) -> list[int]:
        """Return the lengths that count: of each person the first visits in the order of the registry."""
        by_person: dict[int, dict[int, int]] = {}
        for person, row, current, length in self._lengths.get(drawn.time, ()):
            if current <= drawn.last_report:
                own = by_person.setdefault(person, {})
                own[row] = max(length, own.get(row, 0))
        return [own[row] for own in by_person.values() for row in sorted(own)[: self._monitor.per_person]]


def _find_lengths(visits: Visits, terms: AuditTerms, monitor: DwellTerms) -> dict[int, list[tuple[int, int, int, int]]]:
    """Return (person, row, slot of the report, length in seconds) of the visits that cover each designated time."""
    times = designated_times(visits, monitor)
    lengths: dict[int, list[tuple[int, int, int, int]]] = {}
    for visit in visits.accepted:
        length = min((visit.left - visit.arrived) // _SECOND, monitor.longest)
        oldest = terms.grid.as_of(visit.current) - monitor.horizon
        for time in select(times, max(visit.arrived, oldest), visit.left):
            lengths.setdefault(time, []).append((visit.person, visit.row, visit.current, length))
    return lengths
