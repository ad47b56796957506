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
from functools import cache, lru_cache
from typing import Any

Law = Mapping[Hashable, tuple[Fraction, Any]]
Mechanism = Callable[[Any, int, Any], Law]
Choices = Sequence[Sequence[tuple[Any, Any]]]


def worst_ratio(mechanism: Mechanism, start: Hashable, choices: Choices) -> Fraction | float:
    """Return the greatest Pr[D]/Pr[D'] of a mechanism over all choices, exactly.

    It is inf if an outcome is impossible under D'. The mechanism must be a pure function: calls with the same one, one
    after the other, share its laws and the ratios of the ticks that they have in common at the end.
    """
    return _enumeration_of(mechanism).worst_ratio(start, tuple(map(tuple, choices)))


class _Enumeration:
    """The laws of one mechanism, and the worst ratios known so far.

    States and the rests of streams have numbers, because hashing them again and again would take most of the time.
    """

    def __init__(self, mechanism: Mechanism) -> None:
        self._mechanism = mechanism
        self._states: list[Hashable] = []
        self._state_numbers: dict[Hashable, int] = {}
        self._rest_numbers: dict[tuple[Any, ...], int] = {}
        self._law = cache(self._find_law)
        self._branches = cache(self._find_branches)
        self._worst: dict[tuple[int, int, int, int], Fraction | float] = {}

    def worst_ratio(self, start: Hashable, choices: tuple[tuple[tuple[Any, Any], ...], ...]) -> Fraction | float:
        first = self._number_of(start)
        rests = [
            self._rest_numbers.setdefault(choices[tick:], len(self._rest_numbers)) for tick in range(len(choices) + 1)
        ]

        def worst(tick: int, state: int, neighbour: int) -> Fraction | float:
            if tick == len(choices):
                return Fraction(1)
            key = (rests[tick], tick, state, neighbour)
            if (known := self._worst.get(key)) is not None:
                return known
            branches: dict[tuple[int, int], Fraction | float] = {}
            for given, given_neighbour in choices[tick]:
                for pair, ratio in self._branches(state, neighbour, tick, given, given_neighbour).items():
                    branches[pair] = max(ratio, branches.get(pair, ratio))
            found = self._worst[key] = max(ratio * worst(tick + 1, *pair) for pair, ratio in branches.items())
            return found

        return worst(0, first, first)

    def _number_of(self, state: Hashable) -> int:
        number = self._state_numbers.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
        return number

    def _find_law(self, state: int, tick: int, given: Any) -> dict[Hashable, tuple[Fraction, int]]:
        law = self._mechanism(self._states[state], tick, given)
        return {outcome: (chance, self._number_of(after)) for outcome, (chance, after) in law.items()}

    def _find_branches(
        self, state: int, neighbour: int, tick: int, given: Any, given_neighbour: Any
    ) -> dict[tuple[int, int], Fraction | float]:
        """Return the greatest ratio of one tick by the states after it, under D and under D'."""
        branches: dict[tuple[int, int], Fraction | float] = {}
        neighbour_law = self._law(neighbour, tick, given_neighbour)
        for outcome, (chance, after) in self._law(state, tick, given).items():
            if chance == 0:
                continue
            chance_neighbour, after_neighbour = neighbour_law.get(outcome, (Fraction(0), after))
            ratio = chance / chance_neighbour if chance_neighbour else math.inf
            pair = after, after_neighbour
            branches[pair] = max(ratio, branches.get(pair, ratio))
        return branches


@lru_cache(maxsize=1)
def _enumeration_of(mechanism: Mechanism) -> _Enumeration:
    return _Enumeration(mechanism)


def one_sided(q: Fraction, cap: int) -> tuple[tuple[int, Fraction], ...]:
    """Return the draws 0 to `cap` of geometric noise at q = e^-ε with their exact chances.

    The last draw represents `cap` and every larger draw: P[G ≥ cap] = q^cap. This is exact if every z ≥ cap counts as
    one outcome. The law is memoryless, so all noisy counts above max(count, threshold) have the same ratio, and their
    union has it too.
    """
    return (*((draw, (1 - q) * q**draw) for draw in range(cap)), (cap, q**cap))
