"""A town with the whole service in memory, as fixtures."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.privacy_service import town
from tests.privacy_service.cells import Cell, Visit
from tests.privacy_service.town import Town


@pytest.fixture(scope="module", autouse=True)
def _clear_caches(request: pytest.FixtureRequest) -> Iterator[None]:
    """Drop a million kept objects after the file's tests: garbage collections of later tests would look at them."""
    yield
    for function in (*vars(request.module).values(), *vars(town).values()):
        if hasattr(function, "cache_clear"):
            function.cache_clear()


@pytest.fixture(scope="session")
def make_town() -> Callable[..., Town]:
    """The constructor of towns: `make_town(window=2, max_lead=1, answers=1, threshold=2)`."""
    return Town


@pytest.fixture(scope="session")
def visit() -> Callable[..., Visit]:
    """The constructor of visits: `visit("ann", "inn", 70, 110, 3)`, in minutes and half slots."""
    return Visit


@pytest.fixture(scope="session")
def cell_of() -> Callable[..., Cell]:
    """The constructor of cells: `cell_of(0)` is the inn's window, `cell_of(0, 90)` the inn at 01:30."""
    return Cell
