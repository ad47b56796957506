"""The exact privacy loss of a mechanism on tiny streams, by exhaustive enumeration (docs/rules.md, section 8).

A mechanism maps (state, tick, input) to a law: outcome → (chance, next state). The chances are exact fractions.
At each tick the adversary picks one of the input pairs (under D, under its P-neighbour D') that the tick allows.
Outcomes are what the public sees. The worst ratio Pr[D]/Pr[D'] over all streams and all sequences of outcomes is
computed node by node, because the chance of a sequence is the product of the chances of its ticks, given the states so
far. It also bounds every set of outcomes.

Decisions depend on draws only, never on q = e^-ε. So an enumeration at a rational q is exact, and a loss of the ε of n
answers is a ratio of exactly q^-n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

Law = Mapping[Hashable, tuple[Fraction, Any]]
Mechanism = Callable[[Any, int, Any], Law]
Choices = Sequence[Sequence[tuple[Any, Any]]]


def worst_ratio(mechanism: Mechanism, start: Hashable, choices: Choices) -> Fraction | float:
    """Return the greatest Pr[D]/Pr[D'] of a mechanism over all choices, exactly.

    It is inf if an outcome is impossible under D'.
    """
    law = cache(mechanism)

    @cache
    def worst(tick: int, state: Hashable, neighbour: Hashable) -> Fraction | float:
        if tick == len(choices):
            return Fraction(1)
        ratios: list[Fraction | float] = []
        for given, given_neighbour in choices[tick]:
            neighbour_law = law(neighbour, tick, given_neighbour)
            for outcome, (chance, after) in law(state, tick, given).items():
                if chance == 0:
                    continue
                chance_neighbour, after_neighbour = neighbour_law.get(outcome, (Fraction(0), None))
                if chance_neighbour == 0:
                    return math.inf
                ratios.append(chance / chance_neighbour * worst(tick + 1, after, after_neighbour))
        return max(ratios)

    return worst(0, start, start)


def one_sided(q: Fraction, cap: int) -> tuple[tuple[int, Fraction], ...]:
    """Return the draws 0 to `cap` of geometric noise at q = e^-ε with their exact chances.

    The last draw represents `cap` and every larger draw: P[G ≥ cap] = q^cap. This is exact if every z ≥ cap counts as
    one outcome. The law is memoryless, so all noisy counts above max(count, threshold) have the same ratio, and their
    union has it too.
    """
    return (*((draw, (1 - q) * q**draw) for draw in range(cap)), (cap, q**cap))
