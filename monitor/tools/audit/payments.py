"""Compute the most that one person paid within any period (docs/rules.md, section 6).

A noisy answer charges every person with a visit in its count. The charge falls in a period if the last slot of such a
visit touches the period. For an answer about a designated time τ, it falls in the periods that contain τ. Periods may
begin at any instant. Hot spots charge every person who was anywhere at τ, because their ε pays for the noisy counts of
all locations. Lower bounds charge every visit without consent in their shard, because they hide that consent is
missing. Dwell times charge every person who was anywhere at τ, once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import count
from typing import NamedTuple

from monitor.tools.audit.at_least import BoundsDrawing
from monitor.tools.audit.at_times import TimedAnswer
from monitor.tools.audit.counts import select
from monitor.tools.audit.hot_spots import Drawing
from monitor.tools.audit.over_time import Answer
from monitor.tools.audit.terms import AuditTerms, OverTimeTerms
from monitor.tools.audit.visits import AcceptedVisit, Visits


class Charge(NamedTuple):
    """The ε that one visit pays for an answer, in every period that begins at an instant in [first, end).

    A person pays for the same `answer` once per period, even if it charges several of their visits.
    """

    answer: Hashable
    epsilon: Fraction
    first: int
    end: int


class _PricedAnswer(NamedTuple):
    """A noisy answer of a tick, and its ε. It counts visits reported up to the slot `last_report`."""

    number: int
    epsilon: Fraction
    tick: int
    last_report: int


@dataclass
class NoisyAnswers:
    """All noisy answers of a run, indexed by location or designated time."""

    terms: AuditTerms
    _numbers: Iterator[int] = field(default_factory=count)
    _over_time: dict[int, list[tuple[int, list[_PricedAnswer]]]] = field(default_factory=dict)
    _at_times: dict[tuple[int, int], list[_PricedAnswer]] = field(default_factory=dict)
    _hot_spots: dict[int, list[_PricedAnswer]] = field(default_factory=dict)
    _dwell: dict[int, list[_PricedAnswer]] = field(default_factory=dict)
    _at_least: dict[tuple[int, int], list[_PricedAnswer]] = field(default_factory=dict)

    def add_over_time(self, monitor: OverTimeTerms, answers: Iterable[Answer]) -> None:
        """Add the answers of a monitor of kind `over_time`."""
        by_row: dict[int, list[_PricedAnswer]] = {}
        for answer in answers:
            priced = _PricedAnswer(next(self._numbers), answer.epsilon, answer.tick, answer.last_report)
            by_row.setdefault(self.terms.rows[answer.location], []).append(priced)
        for row, priced_answers in by_row.items():
            priced_answers.sort(key=lambda priced: priced.tick)
            self._over_time.setdefault(row, []).append((monitor.window, priced_answers))

    def add_at_times(self, epsilon: Fraction, answers: Iterable[TimedAnswer]) -> None:
        """Add the answers of a monitor of kind `at_times`."""
        for answer in answers:
            priced = _PricedAnswer(next(self._numbers), epsilon, answer.tick, answer.last_report)
            self._at_times.setdefault((answer.time, answer.row), []).append(priced)

    def add_hot_spots(self, epsilon: Fraction, drawings: Iterable[Drawing]) -> None:
        """Add the drawings of a monitor of kind `hot_spots`."""
        for drawing in drawings:
            priced = _PricedAnswer(next(self._numbers), epsilon, drawing.tick, drawing.last_report)
            self._hot_spots.setdefault(drawing.time, []).append(priced)

    def add_dwell(self, epsilon: Fraction, drawings: Iterable[Drawing]) -> None:
        """Add the drawings of a monitor of kind `dwell`."""
        for drawing in drawings:
            priced = _PricedAnswer(next(self._numbers), epsilon, drawing.tick, drawing.last_report)
            self._dwell.setdefault(drawing.time, []).append(priced)

    def add_at_least(self, epsilon: Fraction, drawings: Iterable[BoundsDrawing]) -> None:
        """Add the lower bounds of a monitor of kind `at_times`."""
        for drawn in drawings:
            priced = _PricedAnswer(next(self._numbers), epsilon, drawn.tick, drawn.last_report)
            self._at_least.setdefault((drawn.time, drawn.shard), []).append(priced)

    @cached_property
    def _times(self) -> list[int]:
        timed = {time for time, _ in (*self._at_times, *self._at_least)}
        return sorted(timed | set(self._hot_spots) | set(self._dwell))

    def find_charges(self, visits: Iterable[AcceptedVisit]) -> Iterator[Charge]:
        """Yield the charges of these visits."""
        for visit in visits:
            yield from self._find_window_charges(visit)
            for time in select(self._times, visit.arrived, visit.left):
                yield from self._find_time_charges(visit, time)

    def _find_window_charges(self, visit: AcceptedVisit) -> Iterator[Charge]:
        grid, period = self.terms.grid, self.terms.period
        for window, answers in self._over_time.get(visit.row, ()):
            place = bisect_left(answers, visit.current, key=lambda answer: answer.tick)
            while place < len(answers) and answers[place].tick < visit.last + window:
                if visit.current <= answers[place].last_report:
                    first, end = grid.start(visit.last) - period + 1, grid.start(visit.last + 1)
                    yield Charge(answers[place].number, answers[place].epsilon, first, end)
                place += 1

    def _find_time_charges(self, visit: AcceptedVisit, time: int) -> Iterator[Charge]:
        first, end = time - self.terms.period + 1, time + 1
        for answer in self._at_times.get((time, visit.row), ()):
            if visit.current <= answer.last_report:
                yield Charge(answer.number, answer.epsilon, first, end)
        for drawing in self._hot_spots.get(time, ()):
            if visit.current <= drawing.last_report:
                yield Charge((drawing.number, visit.row), drawing.epsilon, first, end)
        for totals in self._dwell.get(time, ()):
            if visit.current <= totals.last_report:
                yield Charge(totals.number, totals.epsilon, first, end)
        for drawn in () if visit.consent else self._at_least.get((time, self.terms.shard[visit.row]), ()):
            if visit.current <= drawn.last_report:
                yield Charge((drawn.number, visit.row), drawn.epsilon, first, end)


class Payer(NamedTuple):
    """The noisy answers of one configuration, and the visits that they charge."""

    answers: NoisyAnswers
    visits: Visits


def find_most_paid(payers: Sequence[Payer]) -> Fraction:
    """Return the most that any one person paid within any period, exactly, for the answers of all configurations."""
    by_person: dict[int, list[list[AcceptedVisit]]] = {}
    for number, payer in enumerate(payers):
        for visit in payer.visits.accepted:
            by_person.setdefault(visit.person, [[] for _ in payers])[number].append(visit)
    all_answers = [payer.answers for payer in payers]
    return max((find_most_in_a_period(charge_all(all_answers, own)) for own in by_person.values()), default=Fraction(0))


def charge_all(all_answers: Sequence[NoisyAnswers], visits: Sequence[Iterable[AcceptedVisit]]) -> Iterator[Charge]:
    """Yield the charges of one person's visits. `visits` has, for each configuration, those that it accepts."""
    for number, (answers, own) in enumerate(zip(all_answers, visits, strict=True)):
        yield from (charge._replace(answer=(number, charge.answer)) for charge in answers.find_charges(own))


def find_most_in_a_period(charges: Iterable[Charge]) -> Fraction:
    """Return the most that one person pays in any period, given all their charges."""
    begins_and_ends = [
        (at, begins, charge) for charge in charges for at, begins in ((charge.first, True), (charge.end, False))
    ]
    visits_charged: Counter[Hashable] = Counter()
    paid = most = Fraction(0)
    for _at, begins, charge in sorted(begins_and_ends, key=lambda event: event[:2]):  # ends come before beginnings
        if begins:
            visits_charged[charge.answer] += 1
            if visits_charged[charge.answer] == 1:
                paid += charge.epsilon
                most = max(most, paid)
        else:
            visits_charged[charge.answer] -= 1
            if visits_charged[charge.answer] == 0:
                paid -= charge.epsilon
    return most
