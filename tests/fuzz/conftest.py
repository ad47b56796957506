"""A town that receives strange records, and the seeds of these records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.fuzz.records import WATCHED, Seeds, make_seeds
from tests.kit.town import HOURS, Town, build_tree

MONITORS: Final[list[dict[str, Any]]] = [
    {"name": "days", "kind": "over_time", "locations": list(WATCHED), "epsilon": "3", "threshold": 50, "window": "6h"},
    {
        "name": "morning",
        "kind": "at_times",
        "at": ["2026-01-01T10:30:00Z"],
        "timezone": "UTC",
        "reporting_horizon": "4h",
        "epsilon": "1",
        "threshold": 50,
    },
]
SECTIONS: Final = HOURS | {
    "clock": HOURS["clock"] | {"origin": "2026-01-01T00:00:00+00:00"},
    "visits": HOURS["visits"] | {"accept_ahead": "1h"},
}


@pytest.fixture(scope="session")
def seeds() -> Seeds:
    """300 items, envelopes and records each: hypothesis takes longer to draw them than the tests to send them."""
    return make_seeds(300)


@pytest.fixture
def make_town(tmp_path: Path) -> Callable[[str, str, str], Town]:
    """A function that makes a town without connecting: `make_town(name, kafka, redis_url)`."""

    def make(name: str, kafka: str, redis_url: str) -> Town:
        town = Town(tmp_path, build_tree(name, kafka, redis_url, MONITORS, inputs=2, **SECTIONS), [*WATCHED, "mill"])
        town.apply()
        return town

    return make
