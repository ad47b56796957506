"""The worst privacy loss of Algorithm 4, by enumeration with the real decision code, and its mutants."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from monitor.privacy.at_times import AtTimesRule, step
from monitor.privacy.one_sided_noise import Noise
from tests.privacy.exact_loss import Law, Mechanism, one_sided, worst_ratio
from tests.privacy.laws import Given, laws_of

Pairs = list[tuple[Any, Any]]
Counts = tuple[int, ...]
Outcome = tuple[int | None, ...]
"""For each location the noisy count published at this tick, None for none."""

EPSILON = Fraction(1)
PEOPLE, PLACES, TICKS = 2, 3, 6
THRESHOLDS = (1, 2, 3)
UNKNOWN = "unknown"


def mechanism_of(threshold: int, q: Fraction, law_q: Fraction) -> Mechanism:
    """Return the real `step` over the marks of a designated time; noisy counts from a cap on are one outcome.

    A tick without counts (None) is unknown: nothing is drawn, and the marks do not change.
    """
    rule = AtTimesRule(EPSILON, threshold)
    cap = max(threshold, PEOPLE) + 1

    def publish(given: tuple[tuple[bool, ...], Counts], noise: Noise) -> Outcome:
        marked, counts = given
        rows, noisy = step(rule, np.array(marked), np.array(counts, dtype=np.int64), noise)
        outcome: list[int | None] = [None] * PLACES
        for row, noisy_count in zip(rows.tolist(), noisy.tolist(), strict=True):
            outcome[row] = min(noisy_count, cap)
        return tuple(outcome)

    law_of = laws_of(publish, lambda q: one_sided(q, cap - threshold), law_q, EPSILON)

    @cache
    def decide(marked: tuple[bool, ...], counts: Counts) -> Law:
        return {
            outcome: (chance, tuple(old or new is not None for old, new in zip(marked, outcome, strict=True)))
            for outcome, chance in law_of((marked, counts)).items()
            if isinstance(outcome, tuple)
        }

    def law(marked: tuple[bool, ...], _: int, counts: Counts | None) -> Law:
        return {UNKNOWN: (Fraction(1), marked)} if counts is None else decide(marked, counts)

    return law


def counts_of(*places: int | None) -> Counts:
    """Return the number of distinct people at each place, of people who are at one place or at no place."""
    return tuple(places.count(place) for place in range(PLACES))


def pairs_at(place: int) -> Pairs:
    """Return the count pairs (under D, D') at a tick: a person is at this place, D' lacks some of their reports.

    These are all combinations of: reports that D' lacks are present, other reports of the same person are present, and
    another person is at any place or at no place. The adversary may also choose "unknown".
    """
    pairs = set()
    for other, rest, gone in product((None, *range(PLACES)), (False, True), (False, True)):
        full, less = place if rest or gone else None, place if rest else None
        pairs.add((counts_of(other, full), counts_of(other, less)))
    return [*sorted(pairs), (None, None)]


def streams() -> list[list[Pairs]]:
    """Return, for each place of the person, the adversary's choices at every tick.

    They include all streams in which every report of two people, each at one place at the designated time, arrives at
    any tick or never. They also include streams in which people appear and disappear, which no reports produce.
    """
    return [[pairs_at(place)] * TICKS for place in range(PLACES)]


def count_streams() -> int:
    """Return the number of these streams, at one threshold."""
    return sum(math.prod(map(len, choices)) for choices in streams())


def worst_of(mechanism: Mechanism, start: Hashable) -> Fraction | float:
    return max(worst_ratio(mechanism, start, choices) for choices in streams())


@pytest.mark.promise(12)
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_worst_loss_is_exactly_epsilon(threshold: int) -> None:
    """
    A person pays for at most one noisy answer at one place, for any number of ticks and locations.

        tick       0  1  2  3  4  5
        counted       x  x  x  x  x
        answer     s  s  ?  z  .  .      "?" unknown, "." marked permanently
    """
    q = Fraction(1, 2)
    assert worst_of(mechanism_of(threshold, q, q), (False,) * PLACES) == 1 / q


def test_stream_count_matches_theory_page(stated_streams: Callable[[str], int]) -> None:
    """The number of streams over all thresholds is the one in tests/enumeration_sizes.txt."""
    print(f"Algorithm 4: {count_streams()} streams at each of the thresholds {THRESHOLDS}")
    assert count_streams() * len(THRESHOLDS) == stated_streams("Algorithm 4, one visit")


@pytest.mark.promise(4)
@pytest.mark.parametrize(("threshold", "count"), list(product((1, 2, 3), (0, 1, 2))))
def test_law_is_count_plus_noise(threshold: int, count: int) -> None:
    """P[z] = (1 - q) q^(z - f) for z ≥ max(f, T), and P["safe"] = 1 - q^(T - f), or 0 for f ≥ T."""
    q, cap = Fraction(1, 3), max(threshold, PEOPLE) + 1
    law = mechanism_of(threshold, q, q)((False, True, True), 0, (count, 0, 0))
    expected: dict[Hashable, Fraction] = {
        (z, None, None): (1 - q) * q ** (z - count) for z in range(max(threshold, count), cap)
    }
    expected[cap, None, None] = q ** (cap - count)
    if count < threshold:
        expected[None, None, None] = 1 - q ** (threshold - count)
    assert {outcome: chance for outcome, (chance, _) in law.items() if chance} == expected


@pytest.mark.promise(18)
@pytest.mark.parametrize("skipped", ["empty", "unchanged"])
def test_skipped_locations_are_caught(skipped: str) -> None:
    """If locations without people or without changes draw no noise, a noisy answer proves a visit."""
    q = Fraction(1, 2)
    real = mechanism_of(2, q, q)

    def skipping(state: tuple[tuple[bool, ...], Counts], tick: int, counts: Counts | None) -> Law:
        marked, before = state
        if counts is None:
            return {UNKNOWN: (Fraction(1), state)}
        silent = tuple(count == (0 if skipped == "empty" else old) for count, old in zip(counts, before, strict=True))
        law = real(tuple(old or quiet for old, quiet in zip(marked, silent, strict=True)), tick, counts)
        return {
            outcome: (chance, (tuple(old or new is not None for old, new in zip(marked, outcome, strict=True)), counts))
            for outcome, (chance, _) in law.items()
            if isinstance(outcome, tuple)
        }

    start = ((False,) * PLACES, (0,) * PLACES)
    assert worst_of(skipping, start) == math.inf


def test_marked_locations_are_not_answered_again() -> None:
    """A marked location has no second answer, for any number of people, because its budget is spent."""
    marked, counts = np.array([True, False, True, False]), np.array([9, 0, 0, 5])
    rows, noisy = step(AtTimesRule(EPSILON, 2), marked, counts, Given(2, 0, 7, 7))
    assert rows.tolist() == [1, 3]
    assert noisy.tolist() == [2 + 7, 5 + 7]
