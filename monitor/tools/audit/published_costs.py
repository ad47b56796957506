"""The ε that published answers may have cost one person, computed from the output alone.

A recount of the visits gives what people paid. This module gives the most that anyone can have paid: the ε of somebody
who was at every place, but at a designated time at one place (docs/rules.md, section 6). It needs no input, so anyone
can compute it.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from monitor.tools.audit.judge import Judge
from monitor.tools.audit.terms import AuditTerms


class Cost(NamedTuple):
    """An ε that a person may pay in each period that begins at an instant in [first, end)."""

    monitor: str
    epsilon: Fraction
    first: int
    end: int


def list_costs(judge: Judge) -> list[Cost]:
    """Return the costs of the noisy answers that a judge has taken."""
    terms = judge.terms
    costs: list[Cost] = []
    for windowed in terms.over_time:
        for answer in judge.over_time[windowed.name].answers:
            oldest = terms.grid.start(answer.tick - windowed.window + 1)
            newest = terms.grid.start(answer.last_report + terms.max_lead + 1)
            costs.append(Cost(windowed.name, answer.epsilon, oldest - terms.period + 1, newest))
    for timed in terms.at_times:
        check = judge.at_times[timed.name]
        costs += _list_time_costs(terms, timed.name, timed.epsilon, {answer.time for answer in check.answers})
        if timed.at_least is not None:
            drawn = {drawing.time for drawing in check.lower_bounds.answers}
            costs += _list_time_costs(terms, timed.name, timed.at_least, drawn)
    for ranked in terms.hot_spots:
        drawn = {drawing.time for drawing in judge.hot_spots[ranked.name].answers}
        costs += _list_time_costs(terms, ranked.name, ranked.epsilon, drawn)
    for stated in terms.dwell:
        drawn = {drawing.time for drawing in judge.dwell[stated.name].answers}
        costs += _list_time_costs(terms, stated.name, stated.epsilon, drawn)
    return costs


def _list_time_costs(terms: AuditTerms, monitor: str, epsilon: Fraction, times: Iterable[int]) -> list[Cost]:
    return [Cost(monitor, epsilon, time - terms.period + 1, time + 1) for time in times]


def find_most_spent(costs: Iterable[Cost], monitor: str | None = None) -> Fraction:
    """Return the largest sum of costs in one period, of one monitor or of all."""
    events = [
        (at, change)
        for cost in costs
        if monitor in (None, cost.monitor)
        for at, change in ((cost.first, cost.epsilon), (cost.end, -cost.epsilon))
    ]
    spent = most = Fraction(0)
    for _at, change in sorted(events):  # ends come before beginnings, because they are negative
        spent += change
        most = max(most, spent)
    return most
