"""The times for a stop agree: everything in deploy/ waits for longer than a stop may take."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.ingest import dead_letters
from monitor.kafka import membership
from monitor.stop_signals import FINISH_SECONDS, GRACE_SECONDS, STOP_SECONDS
from monitor.ticks import rollout

pytestmark = pytest.mark.long

CHART = Path("deploy/chart/values.yaml")
FILES = ("deploy/compose.yaml", "deploy/systemd/location-monitor@.service", str(CHART))
UNIT_KEY = r"^TimeoutStopSec=(\d+)$"
KUBERNETES_KEY = "terminationGracePeriodSeconds"


def find_values(tree: Any, key: str) -> Iterator[Any]:
    """Yield the values of a key at any depth."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            if name == key:
                yield value
            yield from find_values(value, key)
    elif isinstance(tree, list):
        for value in tree:
            yield from find_values(value, key)


def read_grace_periods(path: Path) -> list[float]:
    """Return the seconds between SIGTERM and SIGKILL that a file gives the service."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".service":
        return [float(seconds) for seconds in re.findall(UNIT_KEY, text, re.MULTILINE)]
    tree = yaml.safe_load(text)
    if path.name == CHART.name:
        return [float(seconds) for seconds in find_values(tree, KUBERNETES_KEY)]
    return [float(tree["services"]["monitor"]["stop_grace_period"].removesuffix("s"))]


@pytest.mark.parametrize("file", FILES)
def test_deployment_waits_long_enough(file: str, root: Path) -> None:
    """Compose, systemd and Kubernetes give the service at least the time that it may need to stop."""
    periods = read_grace_periods(root / file)
    assert len(periods) == 1, f"{file} must state the time for a stop exactly once"
    assert periods[0] >= GRACE_SECONDS


def test_grace_exceeds_stop() -> None:
    """Nothing kills the service before the time that a stop may take."""
    assert STOP_SECONDS + 5 <= GRACE_SECONDS


def test_steps_of_a_stop_fit() -> None:
    """The longest possible steps of a stop, one after the other, take no longer than the time for a stop."""
    leave_group = rollout.CLOSE_SECONDS + membership.JOIN_SECONDS + membership.LEAVE_MS / 1_000
    assert FINISH_SECONDS + leave_group + dead_letters.CLOSE_SECONDS <= STOP_SECONDS


def test_page_states_the_times(root: Path) -> None:
    """The operations page states the time for a stop."""
    page = (root / "docs" / "operations.md").read_text(encoding="utf-8")
    assert f"within {STOP_SECONDS:.0f} seconds" in page
    assert f"give it {GRACE_SECONDS:.0f} seconds" in page
