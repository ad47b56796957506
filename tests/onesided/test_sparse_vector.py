"""Algorithm 2: the exact losses of `step` and `answer_all` by enumeration, its mutants, and invalid input."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from fractions import Fraction
from itertools import combinations, product
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.errors import BudgetError, CountsError, EpsilonError, ExactnessError, SelectionError
from monitor.onesided.mechanisms import Monotone
from monitor.onesided.sparse_vector import SparseVectorRule, answer_all, step
from monitor.privacy.at_times import AtTimesRule
from monitor.privacy.at_times import step as at_times_step
from monitor.privacy.one_sided_noise import Noise, OneSidedNoise, SeededEntropy
from monitor.privacy.over_time import Mark, OverTimeRule
from monitor.privacy.over_time import step as over_time_step
from tests.privacy import laws
from tests.privacy.exact_loss import Law, Mechanism, one_sided, worst_ratio
from tests.privacy.laws import Draws

Pairs = list[tuple[Any, Any]]
Answering = Callable[[int, int, int], tuple[Hashable, int]]
"""(charged before, count, drawn) ↦ (answer, charged after)."""

ONE = Fraction(1)
QUERIES, MOST_PEOPLE, THRESHOLD = 4, 2, 2
ENDED = "ended"
CAP = 4
"""Noisy counts beyond it are one outcome, because the law is memoryless and their ratio is the same."""


def real(rule: SparseVectorRule) -> Answering:
    def answering(charged: int, count: int, drawn: int) -> tuple[Hashable, int]:
        if charged == rule.answers:
            return ENDED, charged
        answer = step(rule, charged, THRESHOLD, count, drawn)
        noisy = answer.noisy_count
        return (None if noisy is None else max(min(noisy, CAP), -CAP)), answer.charged

    return answering


def mechanism_of(answering: Answering, draws: Draws) -> Mechanism:
    def law(charged: int, _: int, count: int) -> Law:
        chances: dict[Hashable, tuple[Fraction, Any]] = {}
        for drawn, chance in draws:
            outcome, after = answering(charged, count, drawn)
            chances[outcome] = (chances.get(outcome, (Fraction(0), after))[0] + chance, after)
        return chances

    return law


def streams(memberships: int, sign: int) -> Iterator[list[Pairs]]:
    """Return queries of which a chosen few may change by one person towards D'; the adversary chooses each count."""
    for changing in combinations(range(QUERIES), min(memberships, QUERIES)):
        yield [
            [
                (count, count - sign * taken)
                for count, taken in product(range(MOST_PEOPLE + 1), (0, 1) if query in changing else (0,))
                if count - sign * taken >= 0
            ]
            for query in range(QUERIES)
        ]


def worst_of(answering: Answering, draws: Draws, memberships: int, sign: int = 1) -> Any:
    mechanism = mechanism_of(answering, draws)
    return max(worst_ratio(mechanism, 0, choices) for choices in streams(memberships, sign))


@pytest.mark.promise(14)
@pytest.mark.parametrize("answers", [1, 2, 3])
@pytest.mark.parametrize("memberships", [None, 1, 2])
@pytest.mark.parametrize("direction", ["decreasing", "increasing"])
@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(9, 10)])
def test_worst_loss_is_exactly_epsilon(
    answers: int,
    memberships: int | None,
    direction: Monotone,
    q: Fraction,
) -> None:
    """Four adaptive queries have the worst ratio q^-min(c, m) = e^ε, and free answers add nothing."""
    rule = SparseVectorRule(ONE, answers, memberships, direction)
    changing = QUERIES if memberships is None else memberships
    assert rule.noise_epsilon == ONE / min(answers, changing)
    sign = 1 if direction == "decreasing" else -1
    most_drawn = CAP + MOST_PEOPLE + 2
    worst = worst_of(real(rule), one_sided(q, most_drawn), changing, sign)
    assert worst == q ** -min(answers, changing)


@pytest.mark.parametrize(("answers", "memberships"), [(1, None), (2, None), (2, 1), (3, 2)])
@pytest.mark.parametrize(("direction", "sign"), [("decreasing", 1), ("increasing", -1)])
def test_all_answers_cost_epsilon(answers: int, memberships: int | None, direction: Monotone, sign: int) -> None:
    """The answers to two or three queries have the worst ratio q^-min(c, m) = e^ε, for q at the noise of one answer."""
    queries = max(answers, 2)
    changing = queries if memberships is None else memberships
    rule, q = SparseVectorRule(ONE, answers, memberships, direction), Fraction(1, 2)

    def publish(counts: tuple[int, ...], noise: Noise) -> tuple[int | None, ...]:
        answered = answer_all(rule, counts, [THRESHOLD] * queries, noise)
        return tuple(None if z is None else max(min(z, 3), -1) for z in answered)

    law = laws.laws_of(publish, laws.one_sided(4), q, ONE / min(answers, changing))
    losses = [
        laws.worst(law(counts), law(tuple(f - sign * t for f, t in zip(counts, taken, strict=True))))
        for counts, taken in product(product((1, 2), repeat=queries), product((0, 1), repeat=queries))
        if 0 < sum(taken) <= changing
    ]
    assert max(losses) == q ** -min(answers, changing)


def test_only_charged_answers_count() -> None:
    """With c = 1 a person in all four counts costs no more than one charged answer."""
    q = Fraction(1, 2)
    assert worst_of(real(SparseVectorRule(ONE, 1)), one_sided(q, 8), QUERIES) == q**-1


@pytest.mark.parametrize("direction", ["decreasing", "increasing"])
def test_free_answers_are_true(direction: Monotone) -> None:
    """For every count and draw a free answer is true: below the threshold, or not below it."""
    rule = SparseVectorRule(ONE, 1, None, direction)
    for count, drawn in product(range(6), range(6)):
        answer = step(rule, 0, 3, count, drawn)
        if answer.noisy_count is None:
            assert (count < 3) == (direction == "decreasing")
            assert answer.charged == 0
        else:
            assert answer.noisy_count == (count + drawn if direction == "decreasing" else count - drawn)
            assert answer.charged == 1


class TestMutants:
    """Mutants, including the paper's text taken literally and the program of its authors."""

    q = Fraction(1, 2)

    @pytest.mark.parametrize("answers", [1, 2])
    def test_ending_after_c_plus_1_answers(self, answers: int) -> None:
        """The printed loop of Algorithm 2 gives c + 1 noisy counts at ε/c each."""
        literal = real(SparseVectorRule(ONE, answers + 1))
        assert worst_of(literal, one_sided(self.q, 8), QUERIES) == self.q ** -(answers + 1)

    def test_free_below_for_increasing_query(self) -> None:
        """For increasing queries, "below-the-threshold answers in the same way" is not free for four queries."""

        def literal(charged: int, count: int, drawn: int) -> tuple[Hashable, int]:
            return ("below" if count - drawn < THRESHOLD else "above"), charged

        worst = worst_of(literal, one_sided(self.q, 8), QUERIES, sign=-1)
        assert worst > self.q ** -(QUERIES - 1)

    def test_second_draw_after_early_below(self) -> None:
        """The authors' program has a cheap draw at ε/2c that decides "below", "far above", or a second draw.

        A second draw follows only if the first was above the threshold, so one answer depends on both: it costs 3/2·ε/c
        but is charged as ε/c. Without the early "below" (a second draw unless far above) it costs ε/c again.
        In exact fractions, with r = e^(-ε/2c), T = 2, "far" from 6 on.
        """
        r, far = Fraction(1, 2), 6

        def published(count: int, noisy: int, *, early: bool) -> Fraction:
            not_below = r ** max(THRESHOLD - count, 0) if early else Fraction(1)
            continues = not_below - r ** (far - count)
            return continues * (1 - r**2) * (r**2) ** (noisy - count)

        ratios = {
            early: max(
                published(f, z, early=early) / published(f - 1, z, early=early)
                for f, z in product((1, 2), range(THRESHOLD, far))
            )
            for early in (True, False)
        }
        assert ratios[True] == r**-3
        assert ratios[False] <= r**-2


def test_algorithm_4_is_an_instance() -> None:
    """For one tick, three locations and the same noise, both answer the same locations with the same noisy counts."""
    rule = SparseVectorRule(ONE, answers=3, memberships=1)
    assert rule.noise_epsilon == AtTimesRule(ONE, THRESHOLD).epsilon
    for counts, draws in product(product(range(3), repeat=3), product(range(4), repeat=3)):

        class Fixed:
            secure = False
            given = np.array(draws, dtype=np.int64)
            f = np.array(counts, dtype=np.int64)

            def reaches(self, _: Fraction, gaps: NDArray[np.int64]) -> NDArray[np.bool_]:
                return self.given >= gaps

            def geometric(self, _: Fraction, size: int) -> NDArray[np.int64]:
                if size == self.given.size:
                    return self.given
                above = self.f + self.given >= THRESHOLD
                return (self.given - np.maximum(THRESHOLD - self.f, 0))[above]

        expected = answer_all(rule, counts, [THRESHOLD] * 3, Fixed())
        if sum(z is not None for z in expected) == 3:
            continue  # `geometric` could not distinguish a first draw from a remainder
        rows, noisy = at_times_step(AtTimesRule(ONE, THRESHOLD), np.zeros(3, dtype=np.bool_), Fixed.f, Fixed())
        answers: list[int | None] = [None] * 3
        for row, z in zip(rows.tolist(), noisy.tolist(), strict=True):
            answers[row] = z
        assert tuple(answers) == expected


@pytest.mark.parametrize("answers", [1, 2, 3])
def test_algorithm_3_is_an_instance(answers: int) -> None:
    """Within W + F ticks both give the same answers for the same noise, and a pause where Algorithm 2 ends."""
    over_time = OverTimeRule(ONE, answers, THRESHOLD, window=4, max_lead=0)
    rule = SparseVectorRule(ONE, answers)
    assert over_time.answer_epsilon == rule.noise_epsilon
    for counts in product(range(3), repeat=3):
        marks: tuple[Mark, ...] = ()
        charged = 0
        for tick, count in enumerate(counts):
            outcome = over_time_step(over_time, marks, tick, count, noise=tick % 2)
            marks = outcome.marks
            if charged == answers:
                assert outcome.status == "paused"
                continue
            answer = step(rule, charged, THRESHOLD, count, tick % 2)
            charged = answer.charged
            assert answer.noisy_count == outcome.noisy_count


def test_last_charged_answer_ends_the_sequence() -> None:
    """Of three counts far above, with c = 2, the third is not answered, and a further step is an error."""
    rule, noise = SparseVectorRule(ONE, 2), OneSidedNoise(SeededEntropy(62))
    answers = answer_all(rule, [90, 90, 90], [5, 5, 5], noise)
    assert len(answers) == 2
    with pytest.raises(BudgetError, match="All 2 charged answers have been given") as caught:
        step(rule, 2, 5, 90, 0)
    assert (caught.value.requested, caught.value.remaining) == (Fraction(1, 2), Fraction(0))


def test_invalid_input_is_refused() -> None:
    """Invalid ε, c, memberships, counts and thresholds are refused."""
    rule, noise = SparseVectorRule(ONE, 1), OneSidedNoise(SeededEntropy(1))
    for epsilon in (0, -1, 0.5, float("inf")):
        with pytest.raises(EpsilonError):
            SparseVectorRule(cast("Fraction", epsilon), 1)
    with pytest.raises(SelectionError, match="answers is 0"):
        SparseVectorRule(ONE, 0)
    with pytest.raises(SelectionError, match="memberships is 0"):
        SparseVectorRule(ONE, 1, 0)
    with pytest.raises(CountsError, match="negative"):
        step(rule, 0, 5, -1, 0)
    with pytest.raises(CountsError, match="negative"):
        step(rule, 0, 5, 1, -1)
    with pytest.raises(CountsError, match="2 counts and 1 thresholds"):
        answer_all(rule, [1, 2], [5], noise)
    with pytest.raises(ExactnessError, match="Thresholds are of type float64"):
        answer_all(rule, [1, 2], cast("list[int]", [5.5, 5]), noise)
    with pytest.raises(CountsError, match="at least one entry"):
        answer_all(rule, [], [], noise)
