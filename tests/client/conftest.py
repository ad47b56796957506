"""Fixtures of output records as the service writes them: hourly ticks, four locations in two shards."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from monitor.contracts.alerts import OutputRecord
from monitor.public.parameters import Registry
from monitor.public.slot_grid import SlotGrid
from tests.client.records import REGISTRY, SLOTS, hot_spots, over_time, snapshot


@pytest.fixture
def grid() -> SlotGrid:
    return SLOTS


@pytest.fixture
def registry() -> Registry:
    return REGISTRY


@pytest.fixture
def alert_record() -> Callable[..., OutputRecord]:
    """`alert_record("market", 7, 3)`: the alert at tick 7 for 3 people (None: incomplete input), W + F = 7."""
    return over_time


@pytest.fixture
def snapshot_record() -> Callable[..., OutputRecord]:
    """`snapshot_record(shard, tick, {location: (tick, noisy count)})`: a snapshot."""
    return snapshot


@pytest.fixture
def hot_spots_of() -> Callable[..., OutputRecord]:
    """`hot_spots_of(time, {location: noisy count})`: hot spots, two ticks after the slot of their time."""
    return hot_spots
