"""What one person paid (docs/rules.md, section 6): whom each noisy answer charged, and the most within any period.

A noisy answer charges everyone with a visit in its count. It belongs to a period if such a visit's last slot touches
the period; one about a designated time τ, if τ lies in it. Periods may begin at any instant. Hot spots charge everyone
who was anywhere at τ, since ε pays for the noisy counts of all locations, of which the highest are named.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np

from monitor.tools.audit.at_times import TimedAnswer
from monitor.tools.audit.counts import Presence, joined
from monitor.tools.audit.hot_spots import Drawn
from monitor.tools.audit.over_time import Answer
from monitor.tools.audit.terms import AuditTerms, OverTimeTerms
from monitor.tools.audit.visits import Ints, Visits

_INT64: Final = 2**62


class Charges(NamedTuple):
    """What some answers at one ε charge: person by person, the periods' beginnings [first, end) that pay it."""

    epsilon: Fraction
    person: Ints
    first: Ints
    end: Ints


def over_time_charges(
    visits: Visits, terms: AuditTerms, monitor: OverTimeTerms, answer: Answer, reported_until: int
) -> Charges:
    """Whom one answer charges: those with a visit in its window that was reported in a slot up to `reported_until`."""
    entries = visits.at(terms.rows[answer.location])
    counted = (visits.current[entries] <= reported_until) & (visits.last[entries] > answer.tick - monitor.window)
    entries = entries[counted]
    starts = terms.grid.origin + visits.last[entries] * terms.grid.slot
    person, first, end = joined(visits.person[entries], starts - terms.period + 1, starts + terms.grid.slot)
    return Charges(answer.epsilon, person, first, end)


def at_times_charges(
    presence: Presence, terms: AuditTerms, epsilon: Fraction, answer: TimedAnswer, reported_until: int
) -> Charges:
    """Whom one answer charges: those who were there at τ, reported in a slot up to `reported_until`."""
    return _timed_charges(presence.people(answer.time, answer.row, reported_until), terms, epsilon, answer.time)


def hot_spots_charges(
    presence: Presence, terms: AuditTerms, epsilon: Fraction, drawn: Drawn, reported_until: int
) -> Charges:
    """Whom one drawing charges, named or not: everyone who was anywhere at τ, once for each location."""
    people = [presence.people(drawn.time, row, reported_until) for row in presence.rows.get(drawn.time, ())]
    return _timed_charges(np.concatenate([np.empty(0, np.int64), *people]), terms, epsilon, drawn.time)


def _timed_charges(person: Ints, terms: AuditTerms, epsilon: Fraction, time: int) -> Charges:
    ones = np.ones(person.size, np.int64)
    return Charges(epsilon, person, ones * (time - terms.period + 1), ones * (time + 1))


def most_paid(charges: Sequence[Charges]) -> Fraction:
    """The most that any one person paid within any period, exactly."""
    charges = [charge for charge in charges if charge.person.size]
    if not charges:
        return Fraction(0)
    unit = math.lcm(*{charge.epsilon.denominator for charge in charges})
    costs = [int(charge.epsilon * unit) for charge in charges]
    fits = sum(cost * charge.person.size for cost, charge in zip(costs, charges, strict=True)) < _INT64
    cost = np.repeat(np.array(costs, np.int64 if fits else object), [charge.person.size for charge in charges])
    person = np.concatenate([charge.person for charge in charges])
    at = np.concatenate([charge.first for charge in charges] + [charge.end for charge in charges])
    change = np.concatenate([cost, -cost])
    begins = np.repeat([1, 0], person.size)
    order = np.lexsort((begins, at, np.concatenate([person, person])))
    return Fraction(int(np.cumsum(change[order]).max()), unit)
