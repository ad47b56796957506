"""The recount's arithmetic, compared with sets of people and ticks that are written out one by one."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.tools.audit import rolling_payments
from monitor.tools.audit.at_times import TimedAnswer
from monitor.tools.audit.counts import add_up, count_people, find_present
from monitor.tools.audit.findings import Findings
from monitor.tools.audit.hot_spots import Drawing
from monitor.tools.audit.judge import Judge
from monitor.tools.audit.over_time import Answer
from monitor.tools.audit.payments import Charge, NoisyAnswers, Payer, find_most_in_a_period, find_most_paid
from monitor.tools.audit.published_costs import Cost
from monitor.tools.audit.rolling_payments import PaidCheck
from monitor.tools.audit.terms import AuditTerms, read_terms
from monitor.tools.audit.visits import AcceptedVisit, Visits
from tests.tools.audit.conftest import Tiny

RANGES = st.lists(st.tuples(st.integers(0, 3), st.integers(-9, 9), st.integers(1, 6)), max_size=12)
EPSILONS = st.fractions(min_value=Fraction(1, 9), max_value=9, max_denominator=9)
HOUR = 3_600_000_000


@given(RANGES)
def test_each_person_counts_once_per_tick(ranges: list[tuple[int, int, int]]) -> None:
    """The count of a tick is the number of distinct people with a visit in it."""
    people: dict[int, list[tuple[int, int]]] = {}
    for person, first, length in ranges:
        people.setdefault(person, []).append((first, first + length))
    steps = add_up(people.values())
    for tick in range(-12, 18):
        there = {person for person, first, length in ranges if first <= tick < first + length}
        assert steps.at(tick) == len(there)


@given(st.lists(st.tuples(EPSILONS, RANGES), max_size=5))
def test_worst_period_decides_the_payment(answers: list[tuple[Fraction, list[tuple[int, int, int]]]]) -> None:
    """The most that a person pays is the sum over the worst period, in which each answer is paid once."""
    for person in range(4):
        charges = [
            Charge(number, epsilon, first, first + length)
            for number, (epsilon, ranges) in enumerate(answers)
            for who, first, length in ranges
            if who == person
        ]
        expected = max(
            sum(
                (
                    epsilon
                    for epsilon, ranges in answers
                    if any(who == person and low <= at < low + length for who, low, length in ranges)
                ),
                Fraction(0),
            )
            for at in range(-9, 16)
        )
        assert find_most_in_a_period(charges) == expected


def test_costs_add_exactly() -> None:
    """Costs of very different sizes are added without rounding."""
    tiny, huge = Fraction(1, 10**30 + 1), Fraction(10**30)
    assert find_most_in_a_period([Charge("tiny", tiny, 0, 1), Charge("huge", huge, 0, 1)]) == tiny + huge


VISITS = st.lists(
    st.builds(
        lambda person, row, arrived, stay, late: (person, row, arrived, arrived + stay, late),
        st.integers(0, 2),
        st.integers(0, 1),
        st.integers(0, 12),  # half hours
        st.integers(0, 5),
        st.integers(0, 5),
    ),
    max_size=8,
)


def build_visits(terms: AuditTerms, drawn: list[tuple[int, int, int, int, int]]) -> Visits:
    """Return visits from (person, row, arrived, left, report after arrival), the latter three in half hours."""
    visits = []
    for person, row, arrived, left, late in drawn:
        start, end = (terms.grid.origin + half * HOUR // 2 for half in (arrived, left))
        last = max(arrived // 2, -(-left // 2) - 1)
        visits.append(AcceptedVisit(person, row, (arrived + late) // 2, start, end, last))
    return Visits(visits, [])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=VISITS, answers=st.lists(st.integers(0, 8), max_size=4), hours=st.integers(1, 5))
def test_charges_follow_from_the_counts(
    tiny: Tiny, drawn: list[tuple[int, int, int, int, int]], answers: list[int], hours: int
) -> None:
    """Each answer counts and charges exactly the visits that the definition states, in every period."""
    terms = read_tiny_terms(tiny, hours)
    visits, (walk,), (night,), (busiest,) = build_visits(terms, drawn), terms.over_time, terms.at_times, terms.hot_spots
    time = terms.grid.origin + 5 * HOUR // 2
    noisy = NoisyAnswers(terms)
    noisy.add_over_time(walk, [Answer("park", tick, Fraction(1), tick) for tick in answers])
    noisy.add_at_times(night.epsilon, [TimedAnswer(time, 1, 3, 3)])
    noisy.add_hot_spots(busiest.epsilon, [Drawing(time, 4, 4)])
    there = [visit for visit in visits.accepted if visit.arrived <= time < visit.left]
    most = Fraction(0)
    for person in range(3):
        for start in range(-2 * hours, 24):
            begin = terms.grid.origin + start * HOUR // 2 + 1
            end = begin + terms.period
            paid = Fraction(0)
            for tick in answers:
                paid += any(
                    (visit.person, visit.row) == (person, 0)
                    and visit.current <= tick
                    and visit.last >= tick - walk.window + 1
                    and terms.grid.start(visit.last) < end
                    and terms.grid.start(visit.last + 1) > begin
                    for visit in visits.accepted
                )
            if begin <= time < end:
                rows = {visit.row for visit in there if visit.person == person and visit.current <= 3}
                paid += night.epsilon * (1 in rows)
                rows = {visit.row for visit in there if visit.person == person and visit.current <= 4}
                paid += busiest.epsilon * len(rows)
            most = max(most, paid)
    assert find_most_paid([Payer(noisy, visits)]) == most
    counts, presence = count_people(visits, terms, walk)["park"], find_present(visits, terms, night)
    for tick in range(9):
        inside = {v.person for v in visits.accepted if v.row == 0 and v.current <= tick < v.last + walk.window}
        assert counts.at(tick) == len(inside)
    for row, tick in ((0, 2), (0, 4), (1, 3), (1, 4)):  # these ticks ask about the time
        assert presence.count(time, row, tick) == len({v.person for v in there if v.row == row and v.current <= tick})


def read_tiny_terms(tiny: Tiny, hours: int) -> AuditTerms:
    """Return the terms of the tiny run with hot spots, and a period of some hours."""
    if not (tiny.folder / "config.yaml").exists():
        tiny.watch_busiest()
        tiny.write()
    path: Path = tiny.folder / "config.yaml"
    return replace(read_terms(path), period=hours * HOUR)


def test_stated_most_never_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The published "at most ε" still covers answers that the follower has forgotten."""
    costs = [Cost("walk", Fraction(2), 0, 10), Cost("walk", Fraction(1), 20, 30)]
    monkeypatch.setattr(rolling_payments, "list_costs", lambda _judge: list(costs))
    judge = cast("Judge", None)  # only `list_costs` reads it
    check = PaidCheck([judge], [None], Findings())
    check.take_published(Fraction(3))
    assert check.most_spent == 2
    del costs[0]
    check.take_published(Fraction(3))
    assert check.most_spent == 2
