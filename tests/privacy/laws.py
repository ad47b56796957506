"""Exact laws of what a mechanism publishes: its public function runs once for every outcome of its noise.

Noise at ε is enumerated at q = base^(ε/unit), where ε is what the mechanism asks for. So a rational base stands for
e^-unit, the chances are exact, and the law shows whether the noise is there and at which ε it is drawn. A mechanism
that asks for another ε than its rule states has another loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.privacy.one_sided_noise import Noise
from tests.privacy import exact_loss

ONE = Fraction(1)
HALF = Fraction(1, 2)

Law = Mapping[Hashable, Fraction]
Draws = Sequence[tuple[int, Fraction]]
"""The values of one draw that are enumerated, and their chances."""

DrawsAt = Callable[[Fraction], Draws]
"""The draws at a q, or at an ε."""

Run = Callable[[Noise], Hashable]


def one_sided(most: int) -> DrawsAt:
    """Return geometric draws; the last one stands for `most` and more, so the outcomes must not distinguish these."""
    return lambda q: exact_loss.one_sided(q, most)


def below(most: int) -> DrawsAt:
    """Return the geometric draws below `most`. Outcomes that need greater draws do not have their whole chance."""
    return lambda q: tuple((k, (1 - q) * q**k) for k in range(most))


def two_sided(reach: int) -> DrawsAt:
    """Return two-sided draws; the first and the last one stand for all beyond them.

    `monitor.privacy.two_sided_noise` draws them as a difference of two geometric draws: as d - 0 for d ≥ 0, otherwise
    0 - d.
    """

    def draws_at(q: Fraction) -> Draws:
        inner = [(d, (1 - q) / (1 + q) * q ** abs(d)) for d in range(1 - reach, reach)]
        return ((-reach, q**reach / (1 + q)), *inner, (reach, q**reach / (1 + q)))

    return draws_at


def parity(q: Fraction) -> Draws:
    """Return 0 for an even draw, and 1 for an odd one."""
    return ((0, 1 / (1 + q)), (1, q / (1 + q)))


class Given:
    """Noise that a test gives, one draw after the other. `asked` has the ε of each draw.

    `signed` draws are two-sided: a pair of calls takes one series of them.
    """

    secure = False

    def __init__(self, *draws: int, signed: bool = False) -> None:
        self._draws, self._signed = list(draws), signed
        self._second: NDArray[np.int64] | None = None
        self.asked: list[Fraction] = []

    def geometric(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        if self._second is not None:
            assert self.asked[len(self.asked) - size :] == [epsilon] * size, (
                "both parts of two-sided noise have the same ε and size"
            )
            drawn, self._second = self._second, None
            return drawn
        taken = np.array([self._take(epsilon) for _ in range(size)], dtype=np.int64)
        if not self._signed:
            return taken
        self._second = np.maximum(-taken, 0)
        return np.maximum(taken, 0)

    def reaches(self, epsilon: Fraction, gaps: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.array([self._reach(epsilon, gap) for gap in gaps.tolist()], dtype=np.bool_)

    def _take(self, epsilon: Fraction) -> int:
        self.asked.append(epsilon)
        assert self._draws, "the mechanism asks for more draws than the test gives"
        return self._draws.pop(0)

    def _reach(self, epsilon: Fraction, gap: int) -> bool:
        return self._take(epsilon) >= gap


class _TooLongError(Exception):
    """A run has more draws than are enumerated."""


class _Path(Given):
    """Noise that repeats the choices of a path, and then takes the first of the possible values each time."""

    def __init__(
        self,
        path: Sequence[int],
        q_of: Callable[[Fraction], Fraction],
        draws_of: DrawsAt,
        longest: int | None,
        *,
        signed: bool,
    ) -> None:
        super().__init__(signed=signed)
        self._path, self._q_of, self._draws_of, self._longest = path, q_of, draws_of, longest
        self.taken: list[int] = []
        self.options: list[int] = []
        self.chance = ONE

    def _take(self, epsilon: Fraction) -> int:
        self.asked.append(epsilon)
        return self._choose(self._draws_of(epsilon))

    def _reach(self, epsilon: Fraction, gap: int) -> bool:
        reached = self._q_of(epsilon) ** gap
        return bool(self._choose(((1, reached), (0, 1 - reached))[: 2 if gap else 1]))

    def _choose(self, draws: Draws) -> int:
        place = len(self.taken)
        if place == self._longest:
            raise _TooLongError
        choice = self._path[place] if place < len(self._path) else 0
        self.taken.append(choice)
        self.options.append(len(draws))
        value, chance = draws[choice]
        self.chance *= chance
        return value


def laws_of(
    publish: Callable[[Any, Noise], Hashable],
    draws_at: DrawsAt,
    base: Fraction = HALF,
    unit: Fraction = ONE,
    *,
    signed: bool = False,
    longest: int | None = None,
) -> Callable[[Any], Law]:
    """Return the function from data to the chance of each outcome of `publish(data, noise)`.

    Each ε that `publish` asks for must be a multiple of the unit. `signed` is for `two_sided` draws. Runs with more
    than `longest` draws are left out.
    """

    @cache
    def q_of(epsilon: Fraction) -> Fraction:
        steps = epsilon / unit
        assert steps.denominator == 1, f"noise at {epsilon} is not a multiple of {unit}"
        return base**steps.numerator

    @cache
    def draws_of(epsilon: Fraction) -> Draws:
        return draws_at(q_of(epsilon))

    @cache
    def find_law(data: Hashable) -> Law:
        law: dict[Hashable, Fraction] = {}
        paths: list[tuple[int, ...]] = [()]
        while paths:
            path = paths.pop()
            noise = _Path(path, q_of, draws_of, longest, signed=signed)
            with suppress(_TooLongError):
                outcome = publish(data, noise)
                law[outcome] = law.get(outcome, Fraction(0)) + noise.chance
            for place in range(len(path), len(noise.taken)):
                paths += [(*noise.taken[:place], choice) for choice in range(1, noise.options[place])]
        return law

    return find_law


def worst(law: Law, neighbour: Law, seen: Callable[[Hashable], bool] = lambda _: True) -> Fraction | float:
    """Return the greatest ratio of the chances of an outcome; inf if one is impossible for the neighbour.

    `seen` selects the outcomes that have their whole chance under both.
    """
    return max(
        chance / neighbour[outcome] if neighbour.get(outcome) else math.inf
        for outcome, chance in law.items()
        if chance and seen(outcome)
    )


def align(run: Run, neighbour: Run, draws: Sequence[int], shift: Sequence[int]) -> Fraction:
    """Check that two-sided draws, and shifted draws with the neighbour, publish the same. Return the shift's cost.

    The cost is Σ |shift|·ε, with the ε that the mechanism asks for ([ADP], Definitions 3 and 6; docs/literature.md).
    """
    given = Given(*draws, signed=True)
    moved = Given(*(draw + step for draw, step in zip(draws, shift, strict=True)), signed=True)
    assert run(given) == neighbour(moved)
    assert given.asked == moved.asked
    return sum((abs(step) * epsilon for step, epsilon in zip(shift, given.asked, strict=True)), Fraction(0))
