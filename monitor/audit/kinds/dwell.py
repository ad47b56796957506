"""The audit of dwell times: totals as near to the recount as their noise (docs/rules.md, rule 14)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final, NamedTuple

from monitor.audit.kinds.base.designated_times import DrawnCheck, DrawnOnce, TimedCounts, TimedMonitor, parse_timed
from monitor.audit.kinds.base.monitor import Check, Scope
from monitor.audit.parse_values import parse_duration
from monitor.audit.record_fields import FormError, Positive, Whole
from monitor.audit.shared_terms import SharedTerms
from monitor.audit.visits import AcceptedVisit

_SECOND: Final = 1_000_000
_FURTHEST: Final = 45
"""Noise beyond 45 times its scale has a probability of about e^-45 per total, so it is an error."""


class Dwell(DrawnOnce, frozen=True, kw_only=True):
    """The dwell times at a designated time. All numbers are null if the status is unknown."""

    noise: str
    longest_visit_seconds: Positive
    visits_per_person: Positive
    visit_seconds: Whole | None
    spare_seconds: Whole | None
    visits: float | None
    mean_seconds: float | None


class MeasuredVisit(NamedTuple):
    """A visit that covers a designated time. `current` is the slot of its report, and `length` is in seconds."""

    person: int
    row: int
    current: int
    length: int


class Lengths(TimedCounts):
    """The visits that cover each designated time, with their lengths."""

    def __init__(self, monitor: DwellMonitor, terms: SharedTerms) -> None:
        super().__init__(monitor, terms)
        self._longest = monitor.longest
        self._visits: dict[int, list[MeasuredVisit]] = {}

    def add_at(self, time: int, visit: AcceptedVisit) -> None:
        """Add a visit that covers τ, with its length in seconds, at most `longest_visit`."""
        length = min((visit.left - visit.arrived) // _SECOND, self._longest)
        measured = MeasuredVisit(visit.person, visit.row, visit.current, length)
        self._visits.setdefault(time, []).append(measured)

    def list_reported(self, time: int, tick: int) -> list[MeasuredVisit]:
        """Return the visits that cover τ and are reported before the tick's as_of."""
        return [visit for visit in self._visits.get(time, ()) if visit.current <= tick]

    def __len__(self) -> int:
        """Return the number of visits at all designated times."""
        return sum(map(len, self._visits.values()))

    def forget_before(self, time: int) -> None:
        """Forget the designated times before an instant."""
        self._visits = {at: visits for at, visits in self._visits.items() if at >= time}


@dataclass(frozen=True)
class DwellMonitor(TimedMonitor[Lengths]):
    """A monitor of kind `dwell`. It counts at most `longest` seconds of a visit, and `per_person` visits per person."""

    kind = "dwell"
    answers = Dwell
    public = frozenset({"epsilon", "registry"})
    charged = ("dwell",)
    own_oracles: ClassVar = {"dwell": "dwell times are as close to the recount as their noise"}

    longest: int
    per_person: int

    @classmethod
    def parse(cls, keys: Any, terms: SharedTerms) -> DwellMonitor:
        """Parse the keys of a monitor."""
        del terms
        longest = parse_duration(keys["longest_visit"]) // _SECOND
        return cls(**parse_timed(keys), longest=longest, per_person=int(keys.get("visits_per_person", 1)))

    def create_counts(self, terms: SharedTerms) -> Lengths:
        """Create an empty recount."""
        return Lengths(self, terms)

    def create_check(self, scope: Scope, counts: Lengths | None) -> Check:
        """Create the check."""
        return DwellCheck(self, scope, counts)


class DwellCheck(DrawnCheck):
    """The check of one monitor's dwell times."""

    def __init__(self, monitor: DwellMonitor, scope: Scope, lengths: Lengths | None) -> None:
        facts = {"longest_visit_seconds": monitor.longest, "visits_per_person": monitor.per_person}
        super().__init__(monitor, scope, {"noise": "two_sided", **facts})
        self._monitor, self._lengths = monitor, lengths

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
        if self._lengths is None or not self._lengths.whole:
            return
        longest = self._monitor.longest
        lengths = self._select_lengths(self._lengths.list_reported(form.time, form.tick))
        exact = sum(lengths), sum(longest - length for length in lengths)
        furthest = math.ceil(_FURTHEST * 2 * self._monitor.per_person * longest / float(self._monitor.epsilon))
        noisy = form.visit_seconds or 0, form.spare_seconds or 0
        if any(abs(total - true) > furthest for total, true in zip(noisy, exact, strict=True)):
            self._findings.add(self._monitor.kind, f"{where}: a total is further from the recount than its noise")

    def _select_lengths(self, reported: Sequence[MeasuredVisit]) -> list[int]:
        """Return the lengths that count, in seconds: each person's longest at the first locations in the registry."""
        by_person: dict[int, dict[int, int]] = {}
        for visit in reported:
            own = by_person.setdefault(visit.person, {})
            own[visit.row] = max(visit.length, own.get(visit.row, 0))
        return [own[row] for own in by_person.values() for row in sorted(own)[: self._monitor.per_person]]
