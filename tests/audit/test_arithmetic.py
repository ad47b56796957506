"""The recount's arithmetic, compared with sets of people and ticks that are written out one by one."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.audit.configuration import AuditTerms, read_terms
from monitor.audit.findings import Findings
from monitor.audit.kinds.at_times import AtTimesMonitor
from monitor.audit.kinds.base.places import FreshCount, PeopleCount
from monitor.audit.kinds.hot_spots import HotSpotsMonitor
from monitor.audit.kinds.over_time import OverTimeMonitor
from monitor.audit.recount_payments import Charge, Payments, find_most_in_a_period
from monitor.audit.recount_visits import Recount
from monitor.audit.visits import AcceptedVisit
from tests.audit.conftest import Tiny

pytestmark = pytest.mark.long

RANGES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(1, 6)), max_size=20)
EPSILONS = st.fractions(min_value=Fraction(1, 9), max_value=9, max_denominator=9)
HOUR = 3_600_000_000


@given(RANGES, st.integers(0, 25), RANGES, st.lists(st.integers(0, 30), max_size=9))
def test_each_person_counts_once_per_tick(
    early: list[tuple[int, int, int]], forgotten: int, late: list[tuple[int, int, int]], asked: list[int]
) -> None:
    """In any order of visits and ticks, and after forgetting ticks, a count is the number of distinct people.

    Nobody is kept who is in no later count.
    """
    count = PeopleCount()
    for drawn in (early, late):
        for person, first, length in drawn:
            count.add(person, first, first + length)
        if drawn is early:
            for tick in asked:
                count.at(tick)
            count.forget(forgotten)
    for tick in [*range(forgotten, 30), *(tick for tick in asked if tick >= forgotten)]:
        there = {person for person, first, length in [*early, *late] if first <= tick < first + length}
        assert count.at(tick) == len(there)
    count.forget(30)
    assert (len(count), count.at(30)) == (0, 0)


@given(RANGES, st.integers(0, 25), RANGES)
def test_fresh_count_has_later_reports(
    early: list[tuple[int, int, int]], forgotten: int, late: list[tuple[int, int, int]]
) -> None:
    """A fresh count is the number of distinct people with a report stamped after a tick that the present tick counts.

    Nothing is kept that is in no later count.
    """
    count = FreshCount()
    for drawn in (early, late):
        for person, stamped, length in drawn:
            count.add(person, stamped, stamped + length)
        if drawn is early:
            count.forget(forgotten)
    for tick, after in itertools.product(range(forgotten, 30), range(-1, 30)):
        since = {person for person, stamped, length in [*early, *late] if after < stamped <= tick < stamped + length}
        assert count.at(tick, after) == len(since)
    count.forget(30)
    assert len(count) == 0


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
            for at in range(30)
        )
        assert find_most_in_a_period(charges) == expected


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


def build_visits(terms: AuditTerms, drawn: list[tuple[int, int, int, int, int]]) -> list[AcceptedVisit]:
    """Return visits from (person, row, arrived, left, report after arrival), the latter three in half hours."""
    visits = []
    for person, row, arrived, left, late in drawn:
        start, end = (terms.grid.origin + half * HOUR // 2 for half in (arrived, left))
        current = (arrived + late) // 2
        last = min(max(arrived // 2, -(-left // 2) - 1), current + 1)  # cut at the end of slot c + F
        visits.append(AcceptedVisit(person, row, current, start, min(end, terms.grid.start(current + 2)), last))
    return visits


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=VISITS, answers=st.lists(st.integers(0, 8), max_size=4), hours=st.integers(1, 5))
def test_published_cost_bounds_payments(
    tiny: Tiny, drawn: list[tuple[int, int, int, int, int]], answers: list[int], hours: int
) -> None:
    """In every period the published answers cost at least what anyone pays who is at one place at a time.

    Each answer counts, and charges, exactly the visits that the definition states.
    """
    terms = read_tiny_terms(tiny, hours)
    visits, (walk, night, busiest) = build_visits(terms, drawn), terms.monitors
    assert isinstance(walk, OverTimeMonitor)
    assert isinstance(night, AtTimesMonitor)
    assert isinstance(busiest, HotSpotsMonitor)
    time, recount = terms.grid.origin + 5 * HOUR // 2, Recount(terms, b"")
    for visit in visits:
        recount.add(visit)
    payments = Payments(Findings())
    for tick in answers:
        payments.charge_window(terms, "walk", walk.window, Fraction(1), tick)
    payments.charge_time(terms, "at_times", "night", time, night.epsilon, 3)
    payments.charge_time(terms, "hot_spots", "busiest", time, busiest.epsilon, 4)
    there = [visit for visit in visits if visit.arrived <= time < visit.left]
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
                    for visit in visits
                )
            if begin <= time < end:
                rows = {visit.row for visit in there if visit.person == person and visit.current <= 3}
                paid += night.epsilon * (1 in rows)
                rows = {visit.row for visit in there if visit.person == person and visit.current <= 4}
                paid += busiest.epsilon * bool(rows)
            most = max(most, paid)
    assert payments.find_most_spent() >= most
    counts, presence = recount.monitors["walk"].people["park"], recount.monitors["night"]
    for tick in range(9):
        inside = {v.person for v in visits if v.row == 0 and v.current <= tick < v.last + walk.window}
        assert counts.at(tick) == len(inside)
    for row, tick in ((0, 2), (0, 4), (1, 3), (1, 4)):  # these ticks ask about the time
        assert presence.count(time, row, tick) == len({v.person for v in there if v.row == row and v.current <= tick})


def read_tiny_terms(tiny: Tiny, hours: int) -> AuditTerms:
    """Return the terms of the tiny run with hot spots, and a period of some hours."""
    if not (tiny.folder / "config.yaml").exists():
        tiny.watch_busiest()
        tiny.write()
    return replace(read_terms(tiny.folder / "config.yaml"), period=hours * HOUR)


@pytest.mark.parametrize(("spacing", "expected"), [(4, 4), (5, 4), (8, 2), (16, 1)])
def test_spending_is_the_worst_case(tiny: Tiny, spacing: int, expected: int) -> None:
    """Answers as dense as pauses allow cost what docs/rules.md, section 6 states, and rarer ones less.

    W = 3, F = 1, and a period of 12 hours touches 13 slots: N = 16 ticks. The sum still covers forgotten answers.
    """
    terms, payments = read_terms(tiny.write()[1]), Payments(Findings())
    for tick in range(0, 400, spacing):
        payments.charge_window(terms, "walk", 3, Fraction(1), tick)
    payments.check(Fraction(99))
    assert payments.most_spent == payments.find_most_spent("walk") == expected
    assert payments.find_most_spent("night") == 0
    payments.forget(399)
    payments.charge_window(terms, "walk", 3, Fraction(1), 400)
    payments.check(Fraction(99))
    assert payments.most_spent == expected
