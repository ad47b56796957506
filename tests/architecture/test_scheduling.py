"""The order of a parallel run: the listed files exist, and all tests of a part stay together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scheduling import _COMPUTING, _PARTS, _WAITING, order_parts, part_of

ROOT = Path(__file__).parents[2]
WALK, LOSS, OTHER = (
    "tests/faults/test_walk.py::test_a",
    "tests/privacy_service/test_service_loss.py",
    "tests/contracts/test_visits.py",
)


@pytest.mark.parametrize("file", sorted({*_WAITING, *_COMPUTING, *_PARTS}))
def test_listed_file_exists(file: str) -> None:
    """Each file with a weight exists."""
    assert (ROOT / file).is_file()


def test_longest_comes_first() -> None:
    """Long files come first, waiting and computing ones in turn."""
    assert order_parts([OTHER, LOSS, WALK]) == [WALK, LOSS, OTHER]


def test_order_keeps_all_parts() -> None:
    """The order has each part once."""
    parts = [*_WAITING, OTHER, *_COMPUTING]
    assert sorted(order_parts(parts)) == sorted(parts)


def test_parts_of_a_file() -> None:
    """A file is one part, unless it is listed: then its tests are parts, or fall into a number of parts."""
    assert part_of(f"{LOSS}::test_a") == LOSS
    assert part_of(WALK) == WALK
    mutants = {part_of(f"tests/mutants/test_mutants.py::test_mutant_is_caught[{n}]") for n in range(50)}
    assert len(mutants) == _PARTS["tests/mutants/test_mutants.py"]
