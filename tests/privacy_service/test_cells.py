"""Cells draw independently: the joint law of a tick is the product of the laws of its cells.

Therefore the loss of a stream can be enumerated cell by cell. This test enumerates all draws jointly, with the
service's own decisions, for two watched locations and three locations at a designated time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from monitor.privacy.over_time import Mark
from monitor.privacy.published_numbers import TimeNumber
from tests.privacy_service.town import Town

pytestmark = pytest.mark.long

TICK = 2
TIME = 90


def states_of(town: Any, cell: Any) -> list[Any]:
    """Return the state without answers, and a state with a running answer."""
    if cell.time is not None:
        return [(), (TimeNumber(1, town.cap, None),)]
    return [(), (Mark(1, town.cap, town.answer_epsilon, town.mark_lifetime),)]


def joint_choices(town: Any) -> Iterator[tuple[dict[Any, int], dict[Any, Any]]]:
    """Return all counts without running answers, then all combinations of running answers with a few counts."""
    cells = town.at(TICK)
    marked = {cell: states_of(town, cell)[1] for cell in cells}
    for counts in product((0, 1, 2), repeat=len(cells)):
        yield dict(zip(cells, counts, strict=True)), {}
    for held, counts in product(product((False, True), repeat=len(cells)), [(0, 1, 2, 1, 0), (2, 0, 1, 0, 2)]):
        states = {cell: marked[cell] for cell, holds in zip(cells, held, strict=True) if holds}
        yield dict(zip(cells, counts, strict=True)), states


def own(law: dict[Hashable, Any], cell: Any) -> dict[Hashable, Fraction]:
    """Return the chances of the answers of one cell."""
    return {dict(outcome)[cell]: chance for outcome, (chance, _) in law.items()}  # type: ignore[call-overload]  # pairs


@pytest.mark.promise(18)
@pytest.mark.parametrize(("answers", "threshold"), [(1, 2), pytest.param(2, 3, marks=pytest.mark.soak)])
def test_joint_law_is_product_of_cells(answers: int, threshold: int) -> None:
    """For any counts and marks of the others, an answer depends only on its own cell, and draws are independent."""
    town = Town(2, 0, answers, threshold, times=(TIME,))
    alone: dict[Any, dict[Hashable, Fraction]] = {}
    walked = 0
    for counts, states in joint_choices(town):
        for cell, count in counts.items():
            key = (cell, count, states.get(cell))
            if key not in alone:
                given = {cell: states[cell]} if cell in states else {}
                alone[key] = own(town.law(TICK, {cell: count}, given, cell), cell)
        joint: dict[Any, Any] = town.law(TICK, counts, states)
        walked += len(joint)
        for outcome, (chance, _) in joint.items():
            expected = Fraction(1)
            for cell, answer in outcome:
                if cell is not None:
                    expected *= alone[cell, counts[cell], states.get(cell)][answer]
            assert chance == expected
    print(f"{walked} joint outcomes")
    assert walked > 3_000
