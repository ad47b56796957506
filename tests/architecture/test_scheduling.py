"""The order of a parallel run: the listed files exist, and tests that compute or are urgent have their processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scheduling import _APART, _COMPUTING, _PROMPT, _SECONDS, next_part, part_of, seconds_of

ROOT = Path(__file__).parents[2]
WALK, LOSS, OTHER = (
    "tests/faults/test_walk.py::test_a",
    "tests/privacy_service/test_service_loss.py",
    "tests/contracts/test_visits.py",
)


@pytest.mark.parametrize("path", sorted({*_SECONDS, *_COMPUTING, *_APART, *_PROMPT}))
def test_listed_path_exists(path: str) -> None:
    """Each listed file and folder exists."""
    assert (ROOT / path).exists()


def test_first_process_computes() -> None:
    """The first process takes computing parts and the others waiting ones; then each takes a part that is left."""
    assert [next_part([WALK, LOSS, OTHER], process) for process in ("gw0", "gw1", "gw2")] == [LOSS, WALK, WALK]
    assert next_part([WALK], "gw0") == WALK
    assert next_part([LOSS, OTHER], "gw1") == LOSS


def test_second_process_takes_urgent_parts() -> None:
    """The second process takes the parts that may miss no tick; others take them only if nothing else is left."""
    rolling = f"{_PROMPT[0]}::test_a"
    assert [next_part([rolling, WALK, LOSS], process) for process in ("gw0", "gw1", "gw2")] == [LOSS, rolling, WALK]
    assert next_part([rolling, LOSS], "gw2") == LOSS
    assert next_part([rolling], "gw2") == rolling


def test_weight_of_a_part() -> None:
    """A part has the weight of its file, and an unlisted file has the least."""
    assert seconds_of(part_of(WALK)) > seconds_of(part_of(LOSS)) > seconds_of(part_of(OTHER)) == 1


def test_parts_of_a_file() -> None:
    """A file is one part, unless it is listed: then each of its tests is a part."""
    assert part_of(f"{LOSS}::test_a") == LOSS
    assert part_of(WALK) == WALK
