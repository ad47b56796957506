"""Check dwell times: one record per designated time, drawn at its last tick, as near to the recount as its noise."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from monitor.tools.audit.counts import find_designated_times, select
from monitor.tools.audit.fields import Fields, FormError
from monitor.tools.audit.findings import DWELL, FORM, TICKS, Findings
from monitor.tools.audit.history import History
from monitor.tools.audit.hot_spots import Drawing, is_due, read_subject
from monitor.tools.audit.records import PublishedRecord, check_envelope, check_facts
from monitor.tools.audit.terms import AuditTerms, DwellTerms
from monitor.tools.audit.text import format_utc
from monitor.tools.audit.visits import AcceptedVisit, Visits

_SECOND: Final = 1_000_000
_FURTHEST: Final = 45
"""Noise beyond 45 times its scale has a probability of about e^-45 per total, so it is an error."""

MeasuredVisit = tuple[int, int, int, int]
"""A visit that covers a designated time: its person, row, slot of the report, and length in seconds."""

_NUMBERS: Final = ("visit_seconds", "spare_seconds", "visits", "mean_seconds")


@dataclass(frozen=True, slots=True)
class _Lengths:
    """The dwell times of one designated time. `where` identifies the record.

    `totals` has the seconds of the visits and the spare seconds, None if the status is "unknown". `estimates` has the
    number of visits, and their mean length in seconds, which is None if the totals are too small.
    """

    time: int
    tick: int
    where: str
    status: str
    totals: tuple[int, int] | None
    estimates: tuple[float, float | None] | None


class DwellCheck:
    """The check of one monitor's records (docs/rules.md, rule 14).

    `answers` lists the drawings, and `statuses` counts the records by status. While `whole_input` is False, totals are
    not compared, because the recount may lack visits. `lengths` is None if there is no input to compare with.
    """

    safe = 0
    noisy = 0

    def __init__(
        self,
        terms: AuditTerms,
        monitor: DwellTerms,
        lengths: Mapping[int, Sequence[MeasuredVisit]] | None,
        history: History,
        findings: Findings,
    ) -> None:
        self._terms = terms
        self._monitor = monitor
        self._findings = findings
        self._every_tick = history.sequence.every_tick
        self._answered = history.answered
        self._lengths = lengths
        self.whole_input = True
        self.answers: list[Drawing] = []
        self.statuses: Counter[str] = Counter()

    def take(self, record: PublishedRecord) -> bool:
        """Check the next record. Return whether it can be compared with the recount.

        Raises:
            FormError: a field is missing, or is not in the form of docs/interface.md.
        """
        fields = Fields(record.value)
        time, tick = read_subject(fields, self._terms.grid)
        where = f"{self._monitor.name}/{format_utc(time)}, tick {tick}"
        if not is_due(self._monitor, time, tick, self._terms.grid):
            self._findings.add(TICKS, f"{where}: the time is not designated, or this is not the last tick about it")
            return False
        if (self._monitor.name, time) in self._answered:
            self._findings.add(TICKS, f"{where}: the time is answered a second time")
        self._answered.add((self._monitor.name, time))
        lengths = self._read(fields)
        self.statuses[lengths.status] += 1
        self._check_form(record, time, tick)
        if lengths.totals is not None:
            self.answers.append(Drawing(time, tick, tick))
            if lengths.estimates != self._estimate(*lengths.totals):
                self._findings.add(FORM, f"{where}: the estimates do not follow from the totals")
        return True

    def _read(self, fields: Fields) -> _Lengths:
        time, tick = read_subject(fields, self._terms.grid)
        where = f"{self._monitor.name}/{format_utc(time)}, tick {tick}"
        status = fields.read_choice("status", "complete", "unknown")
        if status == "unknown":
            if any(fields.get(name) is not None for name in _NUMBERS):
                raise FormError("expected no numbers if the status is unknown")
            return _Lengths(time, tick, where, status, None, None)
        fields.get("mean_seconds")
        return _Lengths(
            time,
            tick,
            where,
            status,
            (fields.read_whole("visit_seconds"), fields.read_whole("spare_seconds")),
            (fields.read_number("visits"), fields.read_optional("mean_seconds", fields.read_number)),
        )

    def prove(self, record: PublishedRecord) -> None:
        """Check that the totals of a record that `take` has checked are near those of the recount."""
        read, longest = self._read(Fields(record.value)), self._monitor.longest
        if self._lengths is None or not self.whole_input or read.totals is None:
            return
        lengths = self._select_lengths(self._lengths.get(read.time, ()), read.tick)
        exact = sum(lengths), sum(longest - length for length in lengths)
        scale = 2 * self._monitor.per_person * longest / float(self._monitor.epsilon)
        if any(
            abs(noisy - true) > math.ceil(_FURTHEST * scale) for noisy, true in zip(read.totals, exact, strict=True)
        ):
            self._findings.add(DWELL, f"{read.where}: a total is further from the recount than its noise")

    def forget(self, tick: int) -> None:
        """Forget the drawings before a tick."""
        self.answers = [answer for answer in self.answers if answer.tick >= tick]

    def finish(self, first: int, last: int) -> None:
        """Check that every designated time whose last tick is in the range was answered."""
        if not self._every_tick:
            return
        grid, horizon = self._terms.grid, self._monitor.horizon
        for time in self._monitor.find_times(grid.as_of(first) - horizon, grid.as_of(last + 1) - horizon):
            if (self._monitor.name, time) not in self._answered:
                tick = self._monitor.find_ticks(time, grid)[1]
                self._findings.add(TICKS, f"{self._monitor.name}/{format_utc(time)}: tick {tick} is missing")

    def _check_form(self, record: PublishedRecord, time: int, tick: int) -> None:
        terms, monitor = self._terms, self._monitor
        key = f"{monitor.name}/{format_utc(time)}"
        check_envelope(record, terms, key, tick, self._findings)
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
        check_facts(record, key, tick, facts, self._findings)

    def _estimate(self, above: int, below: int) -> tuple[float, float | None]:
        """Return the estimates that follow from the totals: the number of visits, and their mean length in seconds."""
        longest, both = self._monitor.longest, above + below
        mean = Fraction(longest * min(max(above, 0), both), both) if both > 0 else None
        return both / longest, None if mean is None else float(mean)

    def _select_lengths(self, reported: Sequence[MeasuredVisit], last_report: int) -> list[int]:
        """Return the lengths that count, in seconds: each person's longest at the first places, in registry order."""
        by_person: dict[int, dict[int, int]] = {}
        for person, row, current, length in reported:
            if current <= last_report:
                own = by_person.setdefault(person, {})
                own[row] = max(length, own.get(row, 0))
        return [own[row] for own in by_person.values() for row in sorted(own)[: self._monitor.per_person]]


def measure(visit: AcceptedVisit, monitor: DwellTerms) -> MeasuredVisit:
    """Return a visit with its length in seconds, at most `longest_visit`."""
    return visit.person, visit.row, visit.current, min((visit.left - visit.arrived) // _SECOND, monitor.longest)


def measure_visits(visits: Visits, terms: AuditTerms, monitor: DwellTerms) -> dict[int, list[MeasuredVisit]]:
    """Return the visits that cover each designated time, with their lengths."""
    times = find_designated_times(visits, monitor)
    lengths: dict[int, list[MeasuredVisit]] = {}
    for visit in visits.accepted:
        oldest = terms.grid.as_of(visit.current) - monitor.horizon
        for time in select(times, max(visit.arrived, oldest), visit.left):
            lengths.setdefault(time, []).append(measure(visit, monitor))
    return lengths
