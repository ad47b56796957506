"""Noise whose draws are enumerated with exact chances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tests.privacy_service.cells import AT_EPSILON, HOT, RANKED, Cell, Q, State

if TYPE_CHECKING:
    from tests.privacy_service.town import Town


class Walk:
    """Noise that follows a script of choices and records the other possible draws, so that replays walk a tree."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self.secure = True
        self.begin(0, {}, None, ())

    def begin(
        self, tick: int, states: Mapping[Cell, State], explored: frozenset[Cell] | None, script: tuple[int, ...]
    ) -> None:
        """Begin the draws of a tick.

        `explored` is the set of cells whose draws are enumerated (None: all). Other cells have the first choice, with
        chance 1.
        """
        self.explored, self.script = explored, script
        self.taken: list[int] = []
        self.alternatives: list[tuple[int, ...]] = []
        self.chance = Fraction(1)
        per_time = self.town.answers_per_time
        self._unmarked = [
            [cell for cell in self.town.cells if cell.time == time and len(states.get(cell, ())) < per_time]
            for time in self.town.live(tick)
        ]
        self._reached: list[Cell] | None = None
        self._windows_drawn = False

    def _choose(self, cell: Cell, options: Sequence[tuple[int, Fraction]]) -> int:
        if self.explored is not None and cell not in self.explored:
            return options[0][0]
        depth = len(self.taken)
        chosen = self.script[depth] if depth < len(self.script) else 0
        if depth >= len(self.script):
            self.alternatives += [(*self.taken, choice) for choice in range(1, len(options))]
        self.taken.append(chosen)
        self.chance *= options[chosen][1]
        return options[chosen][0]

    def geometric(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        """Return draws from 0 to a cap that represents all larger ones, at watched, at reached, or at all places."""
        if not self._windows_drawn:
            self._windows_drawn = True
            cells, unit, cap = self.town.windows, self.town.unit or self.town.answer_epsilon, self.town.cap
        elif self._reached is not None:
            cells, unit, cap = self._reached, self.town.number_epsilon, self.town.cap - self.town.threshold
            self._reached = None
        else:
            return self._ranked(epsilon, size)
        assert size == len(cells)
        q = _power(epsilon, unit)
        options = [*((draw, (1 - q) * q**draw) for draw in range(cap)), (cap, q**cap)]
        return np.array([self._choose(cell, options) for cell in cells], np.int64)

    def _ranked(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        """Return the draws of hot spots, at all locations, from 0 to RANKED."""
        q = _power(epsilon, AT_EPSILON)
        options = [(draw, (1 - q) * q**draw) for draw in range(RANKED + 1)]
        return np.array([self._choose(HOT, options) for _ in range(size)], np.int64)

    def reaches(self, epsilon: Fraction, gaps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether a draw reaches each gap, for the unmarked cells of a designated time."""
        cells, q = self._unmarked.pop(0), _power(epsilon, self.town.number_epsilon)
        chosen = []
        for cell, gap in zip(cells, gaps.tolist(), strict=True):
            options = [(0, 1 - q**gap), (1, q**gap)]
            chosen.append(self._choose(cell, [option for option in options if option[1]]) == 1)
        self._reached = [cell for cell, reached in zip(cells, chosen, strict=True) if reached]
        return np.array(chosen, np.bool_)


def _power(drawn: Fraction, unit: Fraction) -> Fraction:
    """Return e^-ε of the drawn ε, if e^-ε of the unit is Q."""
    ratio = drawn / unit
    assert ratio.denominator == 1, "noise is drawn at an ε that is not charged"
    return Q ** int(ratio)
