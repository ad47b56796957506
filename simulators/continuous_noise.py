"""Continuous noise in binary floats, for simulation only: distributions, and fast draws of the items above a level.

NOT for publishing: floats reveal counts (Mironov), and the generators are predictable. The service uses the noise of
`monitor.privacy.one_sided_noise`.

Of tens of thousands of items, only a few matter for a top-k answer. `draw_exceeding` draws only these, with exactly the
same distribution. If all items of a group had its highest count, the number of items that exceed a level would be
binomial, the items uniform, and their noise distributed conditionally on exceeding the level. So items are drawn in
this way from groups with similar counts, and those whose actual value does not exceed the level are dropped.
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
"""If an item exceeds the level with a greater chance than this, all items of its group are drawn."""

_FIRST_WIDTH, _WIDENING = 0.5, 1.5
"""A group spans half a noise scale near the level, and more further below, where few items exceed it."""

_ROOM: Final = 2_000_000
"""The largest number of draws in memory at once: 16 MB."""

_PRECISION: Final = 1e-16
"""The factor by which the iteration for the inverse of a tail reduces its first error."""


class Law(Protocol):
    """A noise distribution and its upper tail."""

    @property
    def scale(self) -> float:
        """The distance over which the upper tail falls by the factor e."""

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draw independent values."""

    def survival(self, x: Floats) -> Floats:
        """Return P[noise > x]."""

    def inverse_survival(self, chance: Floats) -> Floats:
        """Return the x with P[noise > x] = chance. Each chance must be between 0 and 1."""


@dataclass(frozen=True, slots=True)
class Exponential:
    """One-sided exponential noise, 0 or above."""

    mean: float

    @property
    def scale(self) -> float:
        """The mean."""
        return self.mean

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draw independent values."""
        return rng.exponential(self.mean, shape)

    def survival(self, x: Floats) -> Floats:
        """Return 1 below 0, e^(-x/mean) above."""
        return np.exp(-np.maximum(x, 0) / self.mean)

    def inverse_survival(self, chance: Floats) -> Floats:
        """Return -mean · ln(chance)."""
        return -self.mean * np.log(chance)


@dataclass(frozen=True, slots=True)
class Laplace:
    """Two-sided Laplace noise around 0."""

    scale: float

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draw independent values."""
        return rng.laplace(0.0, self.scale, shape)

    def survival(self, x: Floats) -> Floats:
        """Return e^(-x/scale)/2 above 0, mirrored below."""
        half = np.exp(-np.abs(x) / self.scale) / 2
        return np.where(x > 0, half, 1 - half)

    def inverse_survival(self, chance: Floats) -> Floats:
        """Return the inverse of the tail, mirrored for chances above 1/2."""
        tail = np.minimum(chance, 1 - chance)
        size: Floats = -self.scale * np.log(2 * tail)
        return np.where(chance < _HALF, size, -size)


@dataclass(frozen=True, slots=True)
class LaplaceSum:
    """Laplace noise of a query minus that of a threshold: the sum of two independent draws with different scales."""

    wide: float
    narrow: float

    @property
    def scale(self) -> float:
        """The wider scale, which determines the tail."""
        return max(self.wide, self.narrow)

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draw independent values."""
        return rng.laplace(0.0, self.wide, shape) + rng.laplace(0.0, self.narrow, shape)

    def survival(self, x: Floats) -> Floats:
        """Return (a² e^(-x/a) - b² e^(-x/b)) / 2(a² - b²) above 0, mirrored below (partial fractions)."""
        a, b, size = self.wide, self.narrow, np.abs(x)
        half = (a * a * np.exp(-size / a) - b * b * np.exp(-size / b)) / (2 * (a * a - b * b))
        return np.where(x > 0, half, 1 - half)

    def inverse_survival(self, chance: Floats) -> Floats:
        """Solve survival(x) = P by iterating x = a·(ln(a²/2(a² - b²)P) + ln(1 - (b/a)² e^(-x(1/b - 1/a)))).

        The iteration converges from above, because its slope is between 0 and r/(1 + r), r = b/a, for x ≥ 0.
        """
        a, b = self.scale, min(self.wide, self.narrow)
        ratio, tail = b / a, np.minimum(chance, 1 - chance)
        start = -np.log(2 * (1 - ratio**2) * tail)
        size = start
        for _ in range(math.ceil(math.log(_PRECISION) / math.log(ratio / (1 + ratio)))):
            size = start + np.log1p(-(ratio**2) * np.exp(-size * (1 / ratio - 1)))
        return np.where(chance < _HALF, a * size, -a * size)


@dataclass(frozen=True, slots=True)
class Exceedances:
    """Items whose value exceeds the level of an iteration. An entry is an iteration, an item and its value.

    A value is a count plus noise.
    """

    iterations: Places
    items: Places
    values: Floats

    @classmethod
    def join(cls, parts: Sequence[Exceedances]) -> Exceedances:
        """Return the entries of all parts."""
        return cls(
            np.concatenate([np.zeros(0, np.int64), *(part.iterations for part in parts)]),
            np.concatenate([np.zeros(0, np.int64), *(part.items for part in parts)]),
            np.concatenate([np.zeros(0), *(part.values for part in parts)]),
        )

    def select(self, chosen: NDArray[np.bool_] | Places) -> Exceedances:
        """Return the entries that a mask or an array of indices selects."""
        return Exceedances(self.iterations[chosen], self.items[chosen], self.values[chosen])


def draw_exceeding(counts: Floats, items: Places, law: Law, levels: Floats, rng: np.random.Generator) -> Exceedances:
    """Draw noise for all pairs (iteration, item). Return those whose count plus noise exceeds the iteration's level.

    `items` are indices into `counts`, sorted by falling count. `levels` has one entry per iteration, and at least one.
    """
    parts: list[Exceedances] = []
    for group in _split_into_groups(counts, items, law.scale, float(levels.min())):
        if float(law.survival(levels - counts[group[0]]).max()) <= _DENSE:
            parts.append(_draw_sparse(counts, group, law, levels, rng))
            continue
        width = max(1, _ROOM // levels.size)
        parts += [_draw_dense(counts, group[at : at + width], law, levels, rng) for at in range(0, group.size, width)]
    return Exceedances.join(parts)


def _split_into_groups(counts: Floats, items: Places, scale: float, level: float) -> Iterator[Places]:
    """Yield groups of items with similar counts: first the items near or above the lowest level, then wider groups."""
    falling = -counts[items]
    start, width = int(np.searchsorted(falling, -(level - scale), side="right")), _FIRST_WIDTH * scale
    if start:
        yield items[:start]
    while start < items.size:
        end = int(np.searchsorted(falling, falling[start] + width, side="right"))
        yield items[start:end]
        start, width = end, width * _WIDENING


def _draw_dense(counts: Floats, group: Places, law: Law, levels: Floats, rng: np.random.Generator) -> Exceedances:
    values = counts[group] + law.sample(rng, (levels.size, group.size))
    iterations, columns = np.nonzero(values > levels[:, np.newaxis])
    return Exceedances(iterations, group[columns], values[iterations, columns])


def _draw_sparse(counts: Floats, group: Places, law: Law, levels: Floats, rng: np.random.Generator) -> Exceedances:
    """Draw as if all items had the highest count of the group, then drop the items whose actual value is too low."""
    top = counts[group[0]]
    chances = law.survival(levels - top)
    iterations = np.repeat(np.arange(levels.size), rng.binomial(group.size, chances))
    columns = _draw_distinct(iterations, group.size, rng)
    drawn = law.inverse_survival(chances[iterations] * (1 - rng.random(iterations.size)))
    above = Exceedances(iterations, group[columns], counts[group[columns]] + drawn)
    return above.select(above.values > levels[iterations])


def _draw_distinct(iterations: Places, size: int, rng: np.random.Generator) -> Places:
    """Draw uniform indices below `size`, distinct within an iteration. Repeated ones are drawn again."""
    columns = rng.integers(0, size, iterations.size)
    while True:
        _, firsts = np.unique(iterations * size + columns, return_index=True)
        again = np.ones(columns.size, dtype=np.bool_)
        again[firsts] = False
        if not again.any():
            return columns
        columns[again] = rng.integers(0, size, int(again.sum()))
