"""The answers of Algorithm 3, its pauses, and their ends."""

from __future__ import annotations

import math
import random
import time
from fractions import Fraction

import pytest

from monitor.errors import EpsilonError, PrivacyError
from monitor.privacy.over_time import (
    Mark,
    OverTimeRule,
    compute_p_value,
    extend_marks,
    find_next_answer_tick,
    may_answer,
    select_running_marks,
    step,
)

ONE = Fraction(1)
RULE = OverTimeRule(ONE, answers=1, threshold=5, window=3, max_lead=2)  # W + F = 5
TWICE = OverTimeRule(ONE, answers=2, threshold=5, window=3, max_lead=2)


def statuses(rule: OverTimeRule, ticks: range, count: int | None, lost_tick: int | None = None) -> str:
    """Return s, z, p or u for each tick, at one count, with noise that never reaches the threshold."""
    marks: tuple[Mark, ...] = ()
    letters = ""
    for tick in ticks:
        answer = step(rule, marks, tick, count, 0, lost_tick=lost_tick)
        marks = answer.marks
        letters += {"safe": "s", "noisy_count": "z", "paused": "p", "unknown": "u"}[answer.status]
    return letters


@pytest.mark.promise(19)
def test_noisy_answer_pauses_its_location() -> None:
    """
    With W = 3 and F = 2 a noisy answer pauses the location for four ticks.

        tick    0  1  2  3  4  5
        answer  z  p  p  p  p  z
    """
    assert statuses(RULE, range(6), count=5) == "zppppz"


def test_two_answers_per_window_cost_half() -> None:
    """
    W + F = 5 consecutive ticks have at most two answers.

        tick    0  1  2  3  4  5  6  7  8  9
        answer  z  z  p  p  p  z  z  p  p  p
    """
    assert TWICE.answer_epsilon == Fraction(1, 2)
    assert statuses(TWICE, range(10), count=9) == "zzpppzzppp"


@pytest.mark.promise(14)
def test_safe_is_free() -> None:
    """Answers below the threshold leave no marks."""
    assert statuses(RULE, range(9), count=4) == "sssssssss"


def test_count_at_threshold_is_noisy() -> None:
    """A noisy count z < T is safe, and z = T is not; noise counts like people."""
    assert step(RULE, (), 7, 2, 2).status == "safe"
    answer = step(RULE, (), 7, 2, 3)
    assert (answer.status, answer.noisy_count, answer.resumes_at) == ("noisy_count", 5, None)
    assert answer.marks == (Mark(tick=7, noisy_count=5, epsilon=ONE, until=11),)


@pytest.mark.promise(5, 14)
def test_incomplete_input_is_unknown_and_free() -> None:
    """An incomplete input is unknown and leaves no mark, also with noise that would reach the threshold."""
    answer = step(RULE, (), 7, None, 99)
    assert (answer.status, answer.noisy_count, answer.marks) == ("unknown", None, ())


@pytest.mark.promise(19)
def test_paused_beats_unknown() -> None:
    """A paused location stays paused with an incomplete input: a pause depends only on answers and the clock."""
    marks = (Mark(2, 6, ONE, 6),)
    answer = step(RULE, marks, 4, None, 0)
    assert (answer.status, answer.resumes_at, answer.marks) == ("paused", 7, marks)


def test_pause_ends_with_enough_marks() -> None:
    """
    With k = 2 and both marks running, the pause lasts until the first mark ends.

        tick    0  1  2  3  4  5  6  7
        first   x  x  x  x  x
        second        x  x  x  x  x
        may     -        .  .  yes
    """
    marks = (Mark(0, 6, Fraction(1, 2), 4), Mark(2, 6, Fraction(1, 2), 6))
    assert find_next_answer_tick(TWICE, marks, 3) == 5
    assert [may_answer(TWICE, marks, tick) for tick in (3, 4, 5)] == [False, False, True]
    assert select_running_marks(marks, 5) == marks[1:]


@pytest.mark.promise(34)
def test_marks_ahead_of_the_clock_run() -> None:
    """After the public clock jumped back, an answer of a later tick still charges (docs/rules.md, rule 5)."""
    answer = step(RULE, (Mark(40, 6, ONE, 44),), 10, 0, 0)
    assert (answer.status, answer.resumes_at) == ("paused", 45)


@pytest.mark.promise(34)
def test_marks_ahead_of_the_clock_pause_further_answers() -> None:
    """A place is paused up to the tick of its latest answer, also if a second answer would be allowed."""
    marks = (Mark(40, 6, Fraction(1, 2), 44),)
    assert [step(TWICE, marks, tick, 0, 0).status for tick in (10, 40, 41)] == ["paused", "paused", "safe"]
    assert step(TWICE, marks, 10, 0, 0).resumes_at == 41
    assert step(TWICE, marks, 41, 0, 0).counted_since == 40


def test_longer_window_lengthens_marks() -> None:
    """A mark runs until max(until, tick + W + F - 1) with the present W and F; a shorter window changes nothing."""
    long = OverTimeRule(ONE, 1, 5, window=9, max_lead=0)
    short = OverTimeRule(ONE, 1, 5, window=1, max_lead=0)
    marks = (Mark(2, 6, ONE, 6),)
    assert [mark.until for mark in extend_marks(long, marks)] == [10]
    assert extend_marks(short, marks) == marks
    paused = step(long, marks, 10, 0, 0)
    assert (paused.status, paused.resumes_at, paused.marks) == ("paused", 11, extend_marks(long, marks))
    assert step(short, marks, 6, 0, 0).status == "paused"
    assert step(short, marks, 7, 0, 0).status == "safe"


def test_smaller_epsilon_waits_for_marks() -> None:
    """Σ running + next ≤ the present ε_l: with 1/2 running, ε_l = 1/2 allows no answer, and ε_l = 1 one of 1/2."""
    marks = (Mark(2, 6, Fraction(1, 2), 6),)
    assert step(OverTimeRule(Fraction(1, 2), 1, 5, 3, 1), marks, 4, 9, 0).status == "paused"
    assert step(OverTimeRule(ONE, 2, 5, 3, 1), marks, 4, 9, 0).status == "noisy_count"
    assert step(OverTimeRule(ONE, 1, 5, 3, 1), marks, 4, 9, 0).status == "paused"


def test_lost_ledger_pauses_its_locations() -> None:
    """
    With the ledger lost at tick 2, nothing is answered before tick 2 + W + F = 7.

        tick    0  1  2  3  4  5  6  7  8
        answer  p  p  p  p  p  p  p  s  s
    """
    assert statuses(RULE, range(9), count=0, lost_tick=2) == "pppppppss"
    assert find_next_answer_tick(RULE, (), 3, lost_tick=2) == 7
    assert step(RULE, (), 3, None, 0, lost_tick=2).resumes_at == 7
    assert not may_answer(RULE, (), 6, lost_tick=2)
    assert may_answer(RULE, (), 7, lost_tick=2)


def test_idle_location_answers_next_tick() -> None:
    """Without running marks, the location may answer at the next tick."""
    assert find_next_answer_tick(RULE, (), 3) == 4


@pytest.mark.parametrize("seed", range(200))
def test_next_answer_tick_is_the_first(seed: int) -> None:
    """The next answer is at the first later tick that may answer, for any marks, also with a lost ledger."""
    numbers = random.Random(seed)
    rule = OverTimeRule(ONE, numbers.randint(1, 4), 5, numbers.randint(1, 9), numbers.randint(0, 2))
    marks = tuple(
        Mark(tick, 5, Fraction(1, numbers.randint(1, 6)), tick + numbers.randint(0, 12))
        for tick in range(10)
        if numbers.random() < 0.7
    )
    lost_tick = numbers.choice([None, 3, 8])
    next_tick = find_next_answer_tick(rule, marks, 9, lost_tick)
    assert next_tick == next(tick for tick in range(10, 60) if may_answer(rule, marks, tick, lost_tick))


def test_thousands_of_marks_are_fast() -> None:
    """A location with 10,000 running marks is decided in less than 2 s of CPU time."""
    k = 10_000
    rule = OverTimeRule(ONE, k, 5, 20_160, 0)
    marks = tuple(Mark(tick, 5, rule.answer_epsilon, tick + rule.mark_lifetime - 1) for tick in range(k))
    began = time.process_time()
    answer = step(rule, marks, k, 3, 0)
    assert (answer.status, answer.resumes_at) == ("paused", rule.mark_lifetime)
    assert time.process_time() - began < 2


@pytest.mark.promise(4)
def test_p_value_is_the_tail_chance() -> None:
    """With T - 1 people, G must reach z - T + 1."""
    assert compute_p_value(ONE, threshold=5, noisy_count=5) == pytest.approx(math.exp(-1))
    assert compute_p_value(Fraction(1, 2), threshold=5, noisy_count=14) == pytest.approx(math.exp(-5))


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ((1, 0, 5, 3, 0), "answers_per_window"),
        ((1, 1, 0, 3, 0), "threshold"),
        ((1, 1, 5, 0, 0), "window"),
        ((1, 1, 5, 3, -1), "accept_ahead"),
    ],
)
def test_invalid_rules_are_refused(values: tuple[int, int, int, int, int], key: str) -> None:
    """An invalid rule is refused, and the error names the key, its value, and the expected value."""
    with pytest.raises(PrivacyError, match=f"{key} is .*expected at least"):
        OverTimeRule(Fraction(values[0]), *values[1:])


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(-1), Fraction(1, 10**12)])
def test_undrawable_epsilon_is_refused(epsilon: Fraction) -> None:
    """The ε of one answer decides: 10^-12 divided by two answers is too small."""
    with pytest.raises(EpsilonError, match=r"ε of one answer is .*at least 1/1000000000000"):
        OverTimeRule(epsilon, answers=2, threshold=5, window=3, max_lead=0)


@pytest.mark.promise(3, 22)
@pytest.mark.parametrize(("count", "noise"), [(-1, 0), (3, -1)])
def test_negative_count_or_noise_is_refused(count: int, noise: int) -> None:
    """A negative count or noise would make "safe" false, so it is refused; the message does not contain the count."""
    with pytest.raises(PrivacyError, match="negative") as raised:
        step(RULE, (), 0, count, noise)
    assert not any(character.isdigit() for character in str(raised.value).replace("0 or more", ""))
