"""Check, tick by tick, that no person paid more ε than stated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from monitor.tools.audit.at_least import Bounded
from monitor.tools.audit.at_times import TimedAnswer
from monitor.tools.audit.bench import Bench
from monitor.tools.audit.findings import PAID, Findings
from monitor.tools.audit.hot_spots import Drawing
from monitor.tools.audit.payments import charge_all, most_in_a_period
from monitor.tools.audit.rolling import RollingRecount
from monitor.tools.audit.spending import Cost, list_costs, most_spent
from monitor.tools.audit.terms import AtTimesTerms, HotSpotsTerms


class PaidCheck:
    """The ε that the published answers may have cost, and, if there is input, what the people who were there paid.

    Each larger sum is one finding.
    """

    def __init__(self, benches: Sequence[Bench], recounts: Sequence[RollingRecount | None], findings: Findings) -> None:
        self._benches = benches
        self._recounts = [recount for recount in recounts if recount is not None]
        self._findings = findings
        self._worst = {"spent": Fraction(0), "paid": Fraction(0)}
        self._costs: list[Cost] = []
        self._most = Fraction(0)

    @property
    def most(self) -> Fraction:
        """The most that one person may have paid for all published answers within one period, also long ago."""
        return self._most

    def spent(self, monitor: str) -> Fraction:
        """Return the most that one person may have paid for a monitor's published answers within one period."""
        return most_spent(self._costs, monitor)

    def take_published(self, may_pay: Fraction) -> None:
        """Check the answers taken so far from the output alone."""
        costs = [cost for bench in self._benches for cost in list_costs(bench)]
        if costs == self._costs:
            return
        self._costs = costs
        spent = most_spent(costs)
        self._most = max(self._most, spent)  # answers that no later one can meet in a period are forgotten
        self._compare("spent", spent, may_pay, "the published answers may have cost one person")

    def prove(self, tick: int, may_pay: Fraction) -> None:
        """Check what the people paid whom an answer of this tick charges."""
        people = {
            person
            for bench, recount in zip(self._benches, self._recounts, strict=True)
            for person in _charged(bench, recount, tick)
        }
        if not people:
            return
        answers = [bench.answers() for bench in self._benches]
        paid = max(
            most_in_a_period(charge_all(answers, [recount.own.get(person, []) for recount in self._recounts]))
            for person in people
        )
        self._compare("paid", paid, may_pay, "one person paid")

    def _compare(self, what: str, epsilon: Fraction, may_pay: Fraction, words: str) -> None:
        if self._findings.muted:  # a sum that is not reported must not hide a later one
            return
        if epsilon > may_pay and epsilon > self._worst[what]:
            self._findings.add(PAID, f"{words} ε = {epsilon} within a period, more than the stated {may_pay}")
        self._worst[what] = max(self._worst[what], epsilon)


def _charged(bench: Bench, recount: RollingRecount, tick: int) -> Iterator[int]:
    """Yield the people in the counts of a tick's noisy answers."""
    for windowed in bench.terms.over_time:
        for answer in bench.over_time[windowed.name].answers:
            if answer.tick == tick:
                yield from recount.counts_of(windowed)[answer.location].people_at(tick)
    monitors: list[AtTimesTerms | HotSpotsTerms] = [*bench.terms.at_times, *bench.terms.hot_spots]
    for monitor in monitors:
        presence = recount.presence_of(monitor)
        for time in _times_drawn(bench, monitor, tick):
            for row in presence.rows_at(time):
                yield from presence.people_at(time, row)
    for stated in bench.terms.dwell:
        for totals in bench.dwell[stated.name].answers:
            if totals.tick == tick:
                yield from (length[0] for length in recount.lengths_of(stated).get(totals.time, ()))


def _times_drawn(bench: Bench, monitor: AtTimesTerms | HotSpotsTerms, tick: int) -> set[int]:
    """Return the designated times about which something was drawn at a tick."""
    drawn: list[TimedAnswer | Bounded | Drawing] = []
    if isinstance(monitor, AtTimesTerms):
        check = bench.at_times[monitor.name]
        drawn += [*check.answers, *check.lower_bounds.answers]
    else:
        drawn += bench.hot_spots[monitor.name].answers
    return {answer.time for answer in drawn if answer.tick == tick}
