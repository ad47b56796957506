"""The recount's arithmetic in bulk against the same written out, one by one."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from monitor.tools.audit.counts import joined
from monitor.tools.audit.payments import Charges, most_paid

INTERVALS = st.lists(st.tuples(st.integers(0, 3), st.integers(-9, 9), st.integers(1, 6)), max_size=12)


@given(INTERVALS)
def test_united_intervals_hold_the_same_points_each_once(intervals: list[tuple[int, int, int]]) -> None:
    group, first, length = np.array(intervals, np.int64).reshape(-1, 3).T.copy()
    united = list(zip(*(column.tolist() for column in joined(group, first, first + length)), strict=True))
    points = [(who, at) for who, low, high in united for at in range(low, high)]
    assert len(points) == len(set(points))
    assert set(points) == {(who, at) for who, low, many in intervals for at in range(low, low + many)}
    assert all(before[0] != after[0] or before[2] < after[1] for before, after in pairwise(united))


@given(
    st.lists(st.tuples(st.fractions(min_value=Fraction(1, 9), max_value=9, max_denominator=9), INTERVALS), max_size=5)
)
def test_the_most_that_anyone_paid_is_that_of_the_worst_beginning(
    answers: list[tuple[Fraction, list[tuple[int, int, int]]]],
) -> None:
    charges = []
    for epsilon, intervals in answers:
        group, first, length = np.array(intervals, np.int64).reshape(-1, 3).T.copy()
        charges.append(Charges(epsilon, *joined(group, first, first + length)))
    expected = max(
        sum(
            (
                epsilon
                for epsilon, intervals in answers
                if any(one == who and low <= at < low + many for one, low, many in intervals)
            ),
            Fraction(0),
        )
        for who in range(4)
        for at in range(-9, 16)
    )
    assert most_paid(charges) == expected


def test_costs_of_any_size_are_added_exactly() -> None:
    one = np.zeros(1, np.int64)
    tiny, huge = Fraction(1, 10**30 + 1), Fraction(10**30)
    assert most_paid([Charges(tiny, one, one, one + 1), Charges(huge, one, one, one + 1)]) == tiny + huge
