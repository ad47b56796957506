"""The counts that follow the input, and the ε computed from the output alone, against independent computations."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.tools.audit.counts import add_up
from monitor.tools.audit.findings import Findings
from monitor.tools.audit.history import History
from monitor.tools.audit.judge import Judge
from monitor.tools.audit.over_time import Answer
from monitor.tools.audit.published_costs import find_most_spent, list_costs
from monitor.tools.audit.rolling import RollingCount
from monitor.tools.audit.sequence import TickSequence
from monitor.tools.audit.terms import read_terms
from tests.tools.audit.conftest import Tiny

RANGES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(1, 6)), max_size=20)


@given(RANGES, st.integers(0, 25), RANGES)
def test_rolling_count_equals_full_count(
    early: list[tuple[int, int, int]], forgotten: int, late: list[tuple[int, int, int]]
) -> None:
    """In any order of visits, and after forgetting earlier ticks, each tick has the count of all visits at once."""
    rolling = RollingCount()
    visits: dict[int, list[tuple[int, int]]] = {}
    for drawn in (early, late):
        for person, first, length in drawn:
            visits.setdefault(person, []).append((first, first + length))
            rolling.add(person, first, first + length)
        if drawn is early:
            rolling.forget(forgotten)
    steps = add_up(visits.values())
    for tick in range(forgotten, 30):
        assert rolling.at(tick) == steps.at(tick)
        assert len(set(rolling.list_people_at(tick))) == steps.at(tick)


@given(RANGES)
def test_forgotten_people_need_no_memory(drawn: list[tuple[int, int, int]]) -> None:
    """Nobody is kept who is in no later count."""
    rolling = RollingCount()
    for person, first, length in drawn:
        rolling.add(person, first, first + length)
    rolling.forget(30)
    assert len(rolling) == 0
    assert rolling.at(30) == 0


@pytest.mark.parametrize(("spacing", "expected"), [(4, 4), (5, 4), (8, 2), (16, 1)])
def test_spending_is_the_worst_case(tiny: Tiny, spacing: int, expected: int) -> None:
    """Answers as dense as pauses allow cost what docs/rules.md, section 6 states, and rarer ones less.

    W = 3, F = 1, and a period of 12 hours touches 13 slots: N = 16 ticks.
    """
    tiny.write()
    terms, findings = read_terms(tiny.folder / "config.yaml"), Findings()
    judge = Judge(terms, None, History.create(TickSequence(findings, every_tick=False), whole=True), findings)
    judge.over_time["walk"].answers = [Answer("park", tick, Fraction(1), tick) for tick in range(0, 400, spacing)]
    assert find_most_spent(list_costs(judge)) == find_most_spent(list_costs(judge), "walk") == expected
    assert find_most_spent(list_costs(judge), "night") == 0
