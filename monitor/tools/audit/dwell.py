"""Check dwell times: totals as near to the recount as their noise (docs/rules.md, rule 14)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Final

from monitor.tools.audit.check import Prove, Scope
from monitor.tools.audit.drawn import Drawing, DrawnCheck
from monitor.tools.audit.fields import Fields, FormError
from monitor.tools.audit.findings import DWELL, FORM
from monitor.tools.audit.recount import MeasuredVisit
from monitor.tools.audit.terms import DwellTerms

_FURTHEST: Final = 45
"""Noise beyond 45 times its scale has a probability of about e^-45 per total, so it is an error."""

_NUMBERS: Final = ("visit_seconds", "spare_seconds", "visits", "mean_seconds")


class DwellCheck(DrawnCheck):
    """The check of one monitor's records."""

    def __init__(self, monitor: DwellTerms, scope: Scope) -> None:
        super().__init__(monitor, scope)
        self._monitor = monitor

    def _list_facts(self) -> dict[str, object]:
        monitor = self._monitor
        return {
            "noise": "two_sided",
            "longest_visit_seconds": monitor.longest,
            "visits_per_person": monitor.per_person,
        }

    def _read(self, fields: Fields, drawing: Drawing) -> Prove:
        if drawing.status == "unknown":
            if any(fields.get(name) is not None for name in _NUMBERS):
                raise FormError("expected no numbers if the status is unknown")
            return lambda: None
        fields.get("mean_seconds")
        totals = fields.read_whole("visit_seconds"), fields.read_whole("spare_seconds")
        estimates = fields.read_number("visits"), fields.read_optional("mean_seconds", fields.read_number)
        self._charge("dwell", drawing)
        if estimates != self._estimate(*totals):
            self._findings.add(FORM, f"{drawing.where}: the estimates do not follow from the totals")
        return partial(self._prove, drawing, totals)

    def _prove(self, drawing: Drawing, totals: tuple[int, int]) -> None:
        if self._recount is None or not self._recount.whole:
            return
        longest = self._monitor.longest
        visits = self._recount.lengths[self._monitor.name].get(drawing.time, ())
        lengths = self._select_lengths([visit for visit in visits if visit.current <= drawing.tick])
        exact = sum(lengths), sum(longest - length for length in lengths)
        scale = 2 * self._monitor.per_person * longest / float(self._monitor.epsilon)
        if any(abs(noisy - true) > math.ceil(_FURTHEST * scale) for noisy, true in zip(totals, exact, strict=True)):
            self._findings.add(DWELL, f"{drawing.where}: a total is further from the recount than its noise")

    def _estimate(self, above: int, below: int) -> tuple[float, float | None]:
        """Return the estimates that follow from the totals: the number of visits, and their mean length in seconds."""
        longest, both = self._monitor.longest, above + below
        mean = Fraction(longest * min(max(above, 0), both), both) if both > 0 else None
        return both / longest, None if mean is None else float(mean)

    def _select_lengths(self, reported: Sequence[MeasuredVisit]) -> list[int]:
        """Return the lengths that count, in seconds: each person's longest at the first locations in the registry."""
        by_person: dict[int, dict[int, int]] = {}
        for visit in reported:
            own = by_person.setdefault(visit.person, {})
            own[visit.row] = max(visit.length, own.get(visit.row, 0))
        return [own[row] for own in by_person.values() for row in sorted(own)[: self._monitor.per_person]]
