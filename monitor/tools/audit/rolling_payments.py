"""Check, tick by tick, that no person paid more ε than stated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from monitor.tools.audit.at_least import BoundsDrawing
from monitor.tools.audit.at_times import TimedAnswer
from monitor.tools.audit.findings import PAID, Findings
from monitor.tools.audit.hot_spots import Drawing
from monitor.tools.audit.judge import Judge
from monitor.tools.audit.payments import charge_all, find_most_in_a_period
from monitor.tools.audit.published_costs import Cost, find_most_spent, list_costs
from monitor.tools.audit.rolling import RollingRecount
from monitor.tools.audit.terms import AtTimesTerms, HotSpotsTerms


class PaidCheck:
    """The check of the ε that the published answers may have cost one person, and, if there is input, did cost.

    A sum above the stated ε is a finding if it exceeds all earlier sums.
    """

    def __init__(self, judges: Sequence[Judge], recounts: Sequence[RollingRecount | None], findings: Findings) -> None:
        self._judges = judges
        self._recounts = [recount for recount in recounts if recount is not None]
        self._findings = findings
        self._worst = {"spent": Fraction(0), "paid": Fraction(0)}
        self._costs: list[Cost] = []
        self._most_spent = Fraction(0)

    @property
    def most_spent(self) -> Fraction:
        """The most ε that one person may have paid in any period so far, for all published answers."""
        return self._most_spent

    def find_most_spent(self, monitor: str) -> Fraction:
        """Return the most ε that one person may have paid in one period, for a monitor's published answers."""
        return find_most_spent(self._costs, monitor)

    def take_published(self, may_pay: Fraction) -> None:
        """Check the answers taken so far from the output alone."""
        costs = [cost for judge in self._judges for cost in list_costs(judge)]
        if costs == self._costs:
            return
        self._costs = costs
        spent = find_most_spent(costs)
        self._most_spent = max(self._most_spent, spent)  # `costs` lacks answers that were forgotten
        self._compare("spent", spent, may_pay, "the published answers may have cost one person")

    def prove(self, tick: int, may_pay: Fraction) -> None:
        """Check what was paid by the people whom an answer of this tick may charge."""
        people = {
            person
            for judge, recount in zip(self._judges, self._recounts, strict=True)
            for person in _find_charged_people(judge, recount, tick)
        }
        if not people:
            return
        answers = [judge.collect_answers() for judge in self._judges]
        paid = max(
            find_most_in_a_period(charge_all(answers, [recount.own.get(person, []) for recount in self._recounts]))
            for person in people
        )
        self._compare("paid", paid, may_pay, "one person paid")

    def _compare(self, what: str, epsilon: Fraction, may_pay: Fraction, words: str) -> None:
        if self._findings.muted:  # a sum that is not reported must not hide a later one
            return
        if epsilon > may_pay and epsilon > self._worst[what]:
            self._findings.add(PAID, f"{words} ε = {epsilon} within a period, more than the stated {may_pay}")
        self._worst[what] = max(self._worst[what], epsilon)


def _find_charged_people(judge: Judge, recount: RollingRecount, tick: int) -> Iterator[int]:
    """Yield the people whom the noisy answers of a tick may charge."""
    for windowed in judge.terms.over_time:
        for answer in judge.over_time[windowed.name].answers:
            if answer.tick == tick:
                yield from recount.find_counts(windowed)[answer.location].list_people_at(tick)
    monitors: list[AtTimesTerms | HotSpotsTerms] = [*judge.terms.at_times, *judge.terms.hot_spots]
    for monitor in monitors:
        presence = recount.find_presence(monitor)
        for time in _find_times_drawn(judge, monitor, tick):
            for row in presence.list_rows_at(time):
                yield from presence.list_people_at(time, row)
    for stated in judge.terms.dwell:
        for totals in judge.dwell[stated.name].answers:
            if totals.tick == tick:
                yield from (length[0] for length in recount.find_lengths(stated).get(totals.time, ()))


def _find_times_drawn(judge: Judge, monitor: AtTimesTerms | HotSpotsTerms, tick: int) -> set[int]:
    """Return the designated times about which something was drawn at a tick."""
    drawn: list[TimedAnswer | BoundsDrawing | Drawing] = []
    if isinstance(monitor, AtTimesTerms):
        check = judge.at_times[monitor.name]
        drawn += [*check.answers, *check.lower_bounds.answers]
    else:
        drawn += judge.hot_spots[monitor.name].answers
    return {answer.time for answer in drawn if answer.tick == tick}
