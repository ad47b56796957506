"""The enumerations keep millions of objects in caches, which are emptied after each file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.privacy_service import town


@pytest.fixture(scope="module", autouse=True)
def _clear_caches(request: pytest.FixtureRequest) -> Iterator[None]:
    """Drop a million kept objects after the file's tests: garbage collections of later tests would look at them."""
    yield
    for function in (*vars(request.module).values(), *vars(town).values()):
        if hasattr(function, "cache_clear"):
            function.cache_clear()
