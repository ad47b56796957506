"""Small parameters for replay files."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from monitor.contracts.instants import HOUR, parse_instant
from monitor.contracts.parameters import AtTimes, Parameters
from monitor.contracts.schedule import Schedule
from monitor.contracts.slot_grid import SlotGrid
from monitor.privacy.over_time import OverTimeRule
from tests.builders import build_parameters, watch


@pytest.fixture(scope="session")
def parameters() -> Parameters:
    """Slots of one hour from midnight UTC, F = 1, W = 3 at inn, a horizon of 6 hours, a default stay of 15 minutes."""
    return build_parameters(
        ("inn", "bath"),
        shards=2,
        max_lead=1,
        grid=SlotGrid(parse_instant("2026-11-20T00:00:00Z"), HOUR),
        over_time=[watch("places", (0,), OverTimeRule(Fraction(1), 1, 5, 3, 1))],
        at_times=[AtTimes("noon", Schedule.of(("12:00",), "UTC"), Fraction(1), 3, 6 * HOUR)],
    )


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes lines to a file."""

    def write_lines(*lines: str, name: str = "visits.csv") -> Path:
        path = tmp_path / name
        path.write_bytes("\n".join(lines).encode(errors="surrogateescape") + b"\n")
        return path

    return write_lines
