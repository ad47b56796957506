"""Algorithm 4's worst privacy loss, enumerated on the real decision code; and that its mutants are caught."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.privacy.at_times import AtTimesRule, step
from monitor.privacy.noise import Noise

Law = Mapping[Hashable, tuple[Fraction, Any]]
Mechanism = Callable[[Any, int, Any], Law]
Pairs = list[tuple[Any, Any]]
WorstRatio = Callable[[Mechanism, Hashable, Sequence[Pairs]], Fraction | float]
OneSided = Callable[[Fraction, int], tuple[tuple[int, Fraction], ...]]
Counts = tuple[int, ...]
Said = tuple[int | None, ...]
"""For each location the noisy count published at this tick, None for none."""

EPSILON = Fraction(1)
PEOPLE, PLACES, TICKS = 2, 3, 6
THRESHOLDS = (1, 2, 3)
UNKNOWN = "unknown"


class Scripted:
    """Noise that follows a script of choices and notes what else it might have drawn: a tree is walked by replaying."""

    secure = False

    def __init__(self, q: Fraction, draws: tuple[tuple[int, Fraction], ...], script: tuple[int, ...]) -> None:
        self._q, self._draws, self._script = q, draws, script
        self.taken: list[int] = []
        self.alternatives: list[tuple[int, ...]] = []
        self.chance = Fraction(1)

    def _choose(self, options: Sequence[tuple[int, Fraction]]) -> int:
        depth = len(self.taken)
        chosen = self._script[depth] if depth < len(self._script) else 0
        if depth >= len(self._script):
            self.alternatives += [(*self.taken, other) for other in range(1, len(options))]
        self.taken.append(chosen)
        value, chance = options[chosen]
        self.chance *= chance
        return value

    def geometric(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        assert epsilon == EPSILON
        return np.array([self._choose(self._draws) for _ in range(size)], dtype=np.int64)

    def reaches(self, epsilon: Fraction, gaps: NDArray[np.int64]) -> NDArray[np.bool_]:
        assert epsilon == EPSILON
        options = [((1, self._q**gap), (0, 1 - self._q**gap)) for gap in gaps.tolist()]
        return np.array([self._choose(option) for option in options], dtype=np.bool_)


def all_runs(
    run: Callable[[Noise], Said], q: Fraction, draws: tuple[tuple[int, Fraction], ...]
) -> dict[Said, Fraction]:
    """Every outcome of a run with its exact chance."""
    outcomes: dict[Said, Fraction] = {}
    scripts: list[tuple[int, ...]] = [()]
    while scripts:
        noise = Scripted(q, draws, scripts.pop())
        said = run(noise)
        scripts += noise.alternatives
        outcomes[said] = outcomes.get(said, Fraction(0)) + noise.chance
    assert sum(outcomes.values()) == 1
    return outcomes


def mechanism_of(threshold: int, q: Fraction, law_q: Fraction, one_sided: OneSided) -> Mechanism:
    """The real `step` over the marks of a designated time; noisy counts from a cap on are one outcome.

    A tick without counts (None) is unknown: nothing is drawn, and what is marked stays so.
    """
    rule = AtTimesRule(EPSILON, threshold)
    cap = max(threshold, PEOPLE) + 1
    draws = one_sided(law_q, cap - threshold)

    @cache
    def decided(marked: tuple[bool, ...], counts: Counts) -> Law:
        def run(noise: Noise) -> Said:
            rows, noisy = step(rule, np.array(marked), np.array(counts, dtype=np.int64), noise)
            said: list[int | None] = [None] * PLACES
            for row, noisy_count in zip(rows.tolist(), noisy.tolist(), strict=True):
                said[row] = min(noisy_count, cap)
            return tuple(said)

        return {
            said: (chance, tuple(old or new is not None for old, new in zip(marked, said, strict=True)))
            for said, chance in all_runs(run, law_q, draws).items()
        }

    def law(marked: tuple[bool, ...], _: int, counts: Counts | None) -> Law:
        return {UNKNOWN: (Fraction(1), marked)} if counts is None else decided(marked, counts)

    return law


def counts_of(*places: int | None) -> Counts:
    """Distinct people at each place, of people who are each at one place or at none."""
    return tuple(places.count(place) for place in range(PLACES))


def pairs_at(place: int) -> Pairs:
    """Count pairs (under D, under D') at a tick: somebody was at this place, and D' lacks some of their reports.

    All combinations of: reports that D' lacks are in, others of the same person are in, another person is at any place
    or at none. And "unknown", as an adversary chooses.
    """
    pairs = set()
    for other, rest, gone in product((None, *range(PLACES)), (False, True), (False, True)):
        full, less = place if rest or gone else None, place if rest else None
        pairs.add((counts_of(other, full), counts_of(other, less)))
    return [*sorted(pairs), (None, None)]


def streams() -> list[list[Pairs]]:
    """For each place where that somebody may be, what an adversary chooses of at every tick.

    Every report of two people, each at one place at the designated time, comes in at any tick or never: these streams
    are among them, and so are such where people come and go, which no reports make.
    """
    return [[pairs_at(place)] * TICKS for place in range(PLACES)]


def enumerated() -> int:
    """How many streams these are, at one threshold."""
    return sum(math.prod(map(len, choices)) for choices in streams())


def worst_of(mechanism: Mechanism, start: Hashable, worst_ratio: WorstRatio) -> Fraction | float:
    return max(worst_ratio(mechanism, start, choices) for choices in streams())


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(9, 10)])
def test_worst_loss_is_exactly_epsilon(
    threshold: int, q: Fraction, worst_ratio: WorstRatio, one_sided: OneSided
) -> None:
    """
    However many ticks and locations are evaluated, one noisy answer at one place is all that a person can pay.

        tick       0  1  2  3  4  5
        counted       x  x  x  x  x
        answer     s  s  ?  z  .  .      "?" unknown, "." marked for good
    """
    assert worst_of(mechanism_of(threshold, q, q, one_sided), (False,) * PLACES, worst_ratio) == 1 / q


def test_stream_count_matches_theory_page(stated_streams: Callable[[str], int]) -> None:
    """Over all thresholds."""
    print(f"Algorithm 4: {enumerated()} streams at each of the thresholds {THRESHOLDS}")
    assert enumerated() * len(THRESHOLDS) == stated_streams("Algorithm 4, one visit")


@pytest.mark.parametrize(("threshold", "count"), list(product((1, 2, 3), (0, 1, 2))))
def test_law_is_count_plus_noise(threshold: int, count: int, one_sided: OneSided) -> None:
    """P[z] = (1 - q) q^(z - f) for each z ≥ max(f, T), and "safe" has the chance 1 - q^(T - f), or 0 for f ≥ T."""
    q, cap = Fraction(1, 3), max(threshold, PEOPLE) + 1
    law = mechanism_of(threshold, q, q, one_sided)((False, True, True), 0, (count, 0, 0))
    expected: dict[Hashable, Fraction] = {
        (z, None, None): (1 - q) * q ** (z - count) for z in range(max(threshold, count), cap)
    }
    expected[cap, None, None] = q ** (cap - count)
    if count < threshold:
        expected[None, None, None] = 1 - q ** (threshold - count)
    assert {said: chance for said, (chance, _) in law.items() if chance} == expected


def test_halved_noise_is_caught(worst_ratio: WorstRatio, one_sided: OneSided) -> None:
    """Draws at 2ε under answers that are booked at ε cost 2ε."""
    q = Fraction(1, 2)
    assert worst_of(mechanism_of(2, q, q**2, one_sided), (False,) * PLACES, worst_ratio) == q**-2


def test_second_answer_is_caught(worst_ratio: WorstRatio, one_sided: OneSided) -> None:
    """Without marks each tick's noisy answer charges anew."""
    q = Fraction(1, 2)
    real = mechanism_of(2, q, q, one_sided)
    unmarked = (False,) * PLACES

    def forgetful(_: tuple[bool, ...], tick: int, counts: Counts | None) -> Law:
        return {said: (chance, unmarked) for said, (chance, _) in real(unmarked, tick, counts).items()}

    assert worst_of(forgetful, unmarked, worst_ratio) == q**-TICKS


@pytest.mark.parametrize("skipped", ["empty", "unchanged"])
def test_skipped_locations_are_caught(skipped: str, worst_ratio: WorstRatio, one_sided: OneSided) -> None:
    """If locations without people, or without news, draw no noise, then any noisy answer proves a visit."""
    q = Fraction(1, 2)
    real = mechanism_of(2, q, q, one_sided)

    def skipping(state: tuple[tuple[bool, ...], Counts], tick: int, counts: Counts | None) -> Law:
        marked, before = state
        if counts is None:
            return {UNKNOWN: (Fraction(1), state)}
        silent = tuple(count == (0 if skipped == "empty" else old) for count, old in zip(counts, before, strict=True))
        law = real(tuple(old or quiet for old, quiet in zip(marked, silent, strict=True)), tick, counts)
        return {
            said: (chance, (tuple(old or new is not None for old, new in zip(marked, said, strict=True)), counts))
            for said, (chance, _) in law.items()
            if isinstance(said, tuple)
        }

    start = ((False,) * PLACES, (0,) * PLACES)
    assert worst_of(skipping, start, worst_ratio) == math.inf


def test_marked_locations_are_not_answered_again() -> None:
    """Even with as many people as may be: its budget for that time is spent."""
    marked, counts = np.array([True, False, True, False]), np.array([9, 0, 0, 5])
    always = Scripted(Fraction(1, 2), ((7, Fraction(1)),), ())
    rows, noisy = step(AtTimesRule(EPSILON, 2), marked, counts, always)
    assert rows.tolist() == [1, 3]
    assert noisy.tolist() == [2 + 7, 5 + 7]
