"""The history of a place: it says no more than a subscriber knew at that time."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from monitor.contracts.instants import DAY
from monitor.contracts.output_records import OutputRecord
from monitor.contracts.parameters import Registry, find_shard
from monitor.tools.page.board import Board
from monitor.tools.page.entries import read_entries
from monitor.tools.page.history import prepare_history
from tests.kit.signed import publish
from tests.tools.client.records import REGISTRY, hot_spots, over_time, snapshot


def list_periods(place: str, *records: OutputRecord, **changes: Any) -> list[dict[str, Any]]:
    """Return the periods of a place, the latest first. `changes`: fields of the values (`...`: none)."""
    board, changed = Board(7 * DAY, 10**9), []
    for record in records:
        value = {name: each for name, each in (json.loads(record.value) | changes).items() if each is not ...}
        changed.append(record._replace(value=json.dumps(value).encode()))
    entries, foreign = read_entries(publish(changed))
    assert not foreign
    board.add(entries, {0: len(entries)})
    row = REGISTRY.rows[place]
    parameters: Any = SimpleNamespace(
        registry=Registry(REGISTRY.ids, 4),  # the service has other shards now
        over_time=[SimpleNamespace(name="places", rows=(row,))],
        at_times=[SimpleNamespace(name="midday")],
    )
    periods: list[dict[str, Any]] = json.loads(prepare_history(place, row, board, parameters)())["history"]
    return periods


def states(place: str, *records: OutputRecord, **changes: Any) -> list[str]:
    return [period["state"] for period in list_periods(place, *records, **changes)]


def test_shards_of_that_time_count() -> None:
    """A snapshot counts for the places of its shard by the number of shards that it had, not by the present one."""
    market, park = find_shard("market", 2), find_shard("park", 2)
    assert market != park
    records = snapshot(market, 3, {"market": (3, 9)}), snapshot(park, 3)
    assert states("market", *records) == ["noisy_count"]
    assert states("park", *records) == ["safe"]


def test_other_registry_is_not_safe() -> None:
    """A complete snapshot of another registry does not make an unlisted place safe."""
    assert states("park", snapshot(find_shard("park", 2), 3), registry="0" * 64) == ["unknown"]


def test_newer_forms_are_unknown() -> None:
    """A record that is not understood is a period in which nothing was known."""
    assert states("market", snapshot(find_shard("market", 2), 3), noisy_counts=...) == ["unknown"]
    assert states("market", over_time("market", 6, 0), threshold=...) == ["unknown"]
    assert states("market", over_time("market", 6, 0)) == ["safe"]


def test_crossed_bounds_have_no_upper_one() -> None:
    """A noisy count below the lower bound is of an earlier tick, so it is shown as no upper bound."""
    [period] = list_periods("market", snapshot(find_shard("market", 2), 6, {"market": (3, 9)}, bounds={"market": 11}))
    assert period | {"state": "noisy_count", "count_at_least": 11} == period
    assert "count_at_most" not in period


def test_other_kind_does_not_count() -> None:
    """If a monitor's name had another kind, the records of that kind are no snapshots."""
    alert, spots, read = over_time("market", 6, 0), hot_spots(2, {"market": 9}), snapshot(find_shard("market", 2), 3)
    assert states("market", alert, spots, read, monitor="midday") == ["safe"]
