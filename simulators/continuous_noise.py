"""Continuous noise in binary floats, for simulation alone: laws, and fast draws of what rises above a level.

NOT for publishing: floats betray counts (Mironov), and the generators can be predicted. What the service publishes is
drawn by `monitor.privacy.noise`.

Of tens of thousands of items few can matter to a top-k answer. `exceeding` draws, exactly in law, those alone: how many
of a group of similar items rise above a level is binomial, which they are is uniform, and their noise is that of the
law beyond what they needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

_HALF: Final = 0.5

_DENSE: Final = 0.25
"""Items that rise with a greater chance are all drawn."""

_FIRST_WIDTH, _WIDENING = 0.5, 1.5
"""Groups span half a scale of noise near the level, and wider ones below, where next to none rises."""

_ROOM: Final = 2_000_000
"""Draws at a time: 16 MB."""

_PRECISION: Final = 1e-16
"""What the iteration for the inverse of a tail leaves of its first error."""


class Law(Protocol):
    """Noise around 0, and its upper tail."""

    @property
    def scale(self) -> float:
        """The distance over which the upper tail falls by e."""

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Independent draws."""

    def survival(self, x: Floats) -> Floats:
        """P[noise > x]."""

    def inverse_survival(self, chance: Floats) -> Floats:
        """The x with P[noise > x] = chance, for chances between 0 and 1."""


@dataclass(frozen=True, slots=True)
class Exponential:
    """One-sided noise: 0 and above, with a mean."""

    mean: float

    @property
    def scale(self) -> float:
        """The mean."""
        return self.mean

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Independent draws."""
        return rng.exponential(self.mean, shape)

    def survival(self, x: Floats) -> Floats:
        """1 below 0, e^(-x/mean) above."""
        return np.exp(-np.maximum(x, 0) / self.mean)

    def inverse_survival(self, chance: Floats) -> Floats:
        """-mean · ln(chance)."""
        return -self.mean * np.log(chance)


@dataclass(frozen=True, slots=True)
class Laplace:
    """Two-sided noise."""

    scale: float

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Independent draws."""
        return rng.laplace(0.0, self.scale, shape)

    def survival(self, x: Floats) -> Floats:
        """e^(-x/scale)/2 above 0, mirrored below."""
        half = np.exp(-np.abs(x) / self.scale) / 2
        return np.where(x > 0, half, 1 - half)

    def inverse_survival(self, chance: Floats) -> Floats:
        """The mirror image for chances above 1/2."""
        tail = np.minimum(chance, 1 - chance)
        size: Floats = -self.scale * np.log(2 * tail)
        return np.where(chance < _HALF, size, -size)


@dataclass(frozen=True, slots=True)
class LaplaceSum:
    """A query's Laplace noise minus a threshold's: the sum of two independent ones of different scales."""

    wide: float
    narrow: float

    @property
    def scale(self) -> float:
        """The wider scale, which rules the tail."""
        return max(self.wide, self.narrow)

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Independent draws."""
        return rng.laplace(0.0, self.wide, shape) + rng.laplace(0.0, self.narrow, shape)

    def survival(self, x: Floats) -> Floats:
        """(a² e^(-x/a) - b² e^(-x/b)) / 2(a² - b²) above 0, mirrored below (partial fractions of the two laws)."""
        a, b, size = self.wide, self.narrow, np.abs(x)
        half = (a * a * np.exp(-size / a) - b * b * np.exp(-size / b)) / (2 * (a * a - b * b))
        return np.where(x > 0, half, 1 - half)

    def inverse_survival(self, chance: Floats) -> Floats:
        """Iterate x = a·(ln(a²/2(a² - b²)P) + ln(1 - (b/a)² e^(-x(1/b - 1/a)))): survival(x) = P, solved for x/a.

        From above it falls to the solution: its slope is between 0 and r/(1 + r), r = b/a, for x ≥ 0.
        """
        a, b = self.scale, min(self.wide, self.narrow)
        ratio, tail = b / a, np.minimum(chance, 1 - chance)
        start = -np.log(2 * (1 - ratio**2) * tail)
        size = start
        for _ in range(math.ceil(math.log(_PRECISION) / math.log(ratio / (1 + ratio)))):
            size = start + np.log1p(-(ratio**2) * np.exp(-size * (1 / ratio - 1)))
        return np.where(chance < _HALF, a * size, -a * size)


@dataclass(frozen=True, slots=True)
class Risen:
    """What rose above its iteration's level: iteration, item and value (count plus noise), one entry each."""

    iterations: Places
    items: Places
    values: Floats

    @classmethod
    def joined(cls, parts: Sequence[Risen]) -> Risen:
        """All of them."""
        return cls(
            np.concatenate([np.zeros(0, np.int64), *(part.iterations for part in parts)]),
            np.concatenate([np.zeros(0, np.int64), *(part.items for part in parts)]),
            np.concatenate([np.zeros(0), *(part.values for part in parts)]),
        )

    def taken(self, chosen: NDArray[np.bool_] | Places) -> Risen:
        """Some of them, by mask or by place."""
        return Risen(self.iterations[chosen], self.items[chosen], self.values[chosen])


def exceeding(counts: Floats, items: Places, law: Law, levels: Floats, rng: np.random.Generator) -> Risen:
    """All (iteration, item) of which count plus fresh noise exceeds the iteration's level, exactly in law.

    `items` are places in `counts`, by falling counts; `levels` has one entry for each iteration, at least one.
    """
    parts: list[Risen] = []
    for group in _groups(counts, items, law.scale, float(levels.min())):
        if float(law.survival(levels - counts[group[0]]).max()) <= _DENSE:
            parts.append(_sparse(counts, group, law, levels, rng))
            continue
        width = max(1, _ROOM // levels.size)
        parts += [_dense(counts, group[at : at + width], law, levels, rng) for at in range(0, group.size, width)]
    return Risen.joined(parts)


def _groups(counts: Floats, items: Places, scale: float, level: float) -> Iterator[Places]:
    """Consecutive items of similar counts: what is near or above the lowest level, then ever wider groups below."""
    falling = -counts[items]
    start, width = int(np.searchsorted(falling, -(level - scale), side="right")), _FIRST_WIDTH * scale
    if start:
        yield items[:start]
    while start < items.size:
        end = int(np.searchsorted(falling, falling[start] + width, side="right"))
        yield items[start:end]
        start, width = end, width * _WIDENING


def _dense(counts: Floats, group: Places, law: Law, levels: Floats, rng: np.random.Generator) -> Risen:
    values = counts[group] + law.sample(rng, (levels.size, group.size))
    iterations, columns = np.nonzero(values > levels[:, np.newaxis])
    return Risen(iterations, group[columns], values[iterations, columns])


def _sparse(counts: Floats, group: Places, law: Law, levels: Floats, rng: np.random.Generator) -> Risen:
    """Take the group's highest count for all: who rises by that is drawn, and dropped if their own count is too low."""
    top = counts[group[0]]
    chances = law.survival(levels - top)
    iterations = np.repeat(np.arange(levels.size), rng.binomial(group.size, chances))
    columns = _distinct(iterations, group.size, rng)
    drawn = law.inverse_survival(chances[iterations] * (1 - rng.random(iterations.size)))
    risen = Risen(iterations, group[columns], counts[group[columns]] + drawn)
    return risen.taken(risen.values > levels[iterations])


def _distinct(iterations: Places, size: int, rng: np.random.Generator) -> Places:
    """Uniform places below `size`, different ones within each iteration: a repeated one is drawn anew until none is."""
    columns = rng.integers(0, size, iterations.size)
    while True:
        _, firsts = np.unique(iterations * size + columns, return_index=True)
        again = np.ones(columns.size, dtype=np.bool_)
        again[firsts] = False
        if not again.any():
            return columns
        columns[again] = rng.integers(0, size, int(again.sum()))
