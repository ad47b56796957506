"""Small towns, built once."""

from __future__ import annotations

import pytest

from monitor.contracts.instants import parse_instant
from monitor.tools.town import Town, VisitBatch, make_places

MONDAY = "2026-01-05T00:00:00Z"


@pytest.fixture(scope="session")
def start() -> int:
    return parse_instant(MONDAY)


@pytest.fixture(scope="session")
def town(start: int) -> Town:
    """3,000 people, 120 places, four weeks from a Monday."""
    return Town(11, 3_000, make_places(120, 11), start, 28)


@pytest.fixture(scope="session")
def everyone(town: Town) -> list[VisitBatch]:
    """All visits of the town."""
    return list(town.list_daily_batches())


@pytest.fixture(scope="session")
def reported(town: Town) -> list[VisitBatch]:
    """The visits of its infected people."""
    return list(town.report_batches())
