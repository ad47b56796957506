"""The exact privacy loss of a mechanism on tiny streams, by exhaustive enumeration (docs/rules.md, section 8).

A mechanism maps (state, tick, input) to a law: outcome → (chance, next state), with chances that are exact fractions.
The adversary picks, tick by tick, one of the input pairs (under D, under its P-neighbour D') that the tick allows;
outcomes are what the public sees. The worst ratio Pr[D]/Pr[D'] over all streams and all outcome sequences is found node
by node, as a sequence's chance is the product of its ticks' chances given the states so far. It bounds every set of
outcomes, too.

Decisions never see q = e^-ε, only draws. So an enumeration at a rational q is exact, and a loss of n answers' ε is a
ratio of exactly q^-n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

Law = Mapping[Hashable, tuple[Fraction, Any]]
Mechanism = Callable[[Any, int, Any], Law]
Choices = Sequence[Sequence[tuple[Any, Any]]]


def _worst_ratio(mechanism: Mechanism, start: Hashable, choices: Choices) -> Fraction | float:
    law = cache(mechanism)

    @cache
    def worst(tick: int, state: Hashable, neighbour: Hashable) -> Fraction | float:
        if tick == len(choices):
            return Fraction(1)
        ratios: list[Fraction | float] = []
        for given, given_neighbour in choices[tick]:
            other = law(neighbour, tick, given_neighbour)
            for outcome, (chance, after) in law(state, tick, given).items():
                if chance == 0:
                    continue
                chance_neighbour, after_neighbour = other.get(outcome, (Fraction(0), None))
                if chance_neighbour == 0:
                    return math.inf
                ratios.append(chance / chance_neighbour * worst(tick + 1, after, after_neighbour))
        return max(ratios)

    return worst(0, start, start)


@pytest.fixture(scope="session")
def worst_ratio() -> Callable[[Mechanism, Hashable, Choices], Fraction | float]:
    """The greatest Pr[D]/Pr[D'] of a mechanism over all choices, exact; inf where D' rules an outcome out."""
    return _worst_ratio


def _one_sided(q: Fraction, cap: int) -> tuple[tuple[int, Fraction], ...]:
    """Draws 0 to cap with their chances; the last stands for itself and all beyond: P[G ≥ cap] = q^cap.

    Nothing is lost by taking the tail together if every z ≥ cap counts as one outcome: beyond max(count, threshold) a
    noisy count's ratio is the same for every z, and so that of their union, as the law is memoryless.
    """
    return (*((draw, (1 - q) * q**draw) for draw in range(cap)), (cap, q**cap))


@pytest.fixture(scope="session")
def one_sided() -> Callable[[Fraction, int], tuple[tuple[int, Fraction], ...]]:
    """The draws 0 to a cap of geometric noise at q = e^-ε with their exact chances, the tail taken together."""
    return _one_sided
