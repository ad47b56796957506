"""The history of a place: it says no more than a subscriber knew at that time."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.at_times.record import LaterCount
from monitor.kinds.locations import find_shard
from monitor.page.history import Histories
from monitor.page.kept_records import Board
from monitor.page.public_records import read_entries
from monitor.privacy.over_time import OverTimeRule
from monitor.records.output_records import OutputRecord
from monitor.time.instants import DAY
from monitor.time.schedule import Schedule
from tests.builders import build_parameters, watch
from tests.client.records import REGISTRY, hot_spots, over_time, snapshot
from tests.kit.signed import publish


def list_periods(place: str, *records: OutputRecord, **changes: Any) -> list[dict[str, Any]]:
    """Return the periods of a place, the latest first. `changes`: fields of the values (`...`: none)."""
    board, changed = Board(7 * DAY, 10**9), []
    for record in records:
        value = {name: each for name, each in (json.loads(record.value) | changes).items() if each is not ...}
        changed.append(record._replace(value=json.dumps(value).encode()))
    entries, foreign = read_entries(publish(changed))
    assert not foreign
    board.add(entries)
    row = REGISTRY.rows[place]
    parameters = build_parameters(
        REGISTRY.ids,
        shards=4,  # the service has other shards now
        over_time=[watch("places", [row], OverTimeRule(Fraction(1), 1, 3, 6, 0))],
        at_times=[AtTimes("midday", Schedule(()), Fraction(1), 3, DAY)],
    )
    return Histories(board, parameters).list_periods(place, row)


def test_fresh_count_is_not_safe() -> None:
    """A "safe" since an alarm is another state, with the bound of what was reported since and none of the window."""
    records = [over_time("market", tick, 0) for tick in (6, 7)]
    (period,) = list_periods("market", *records, counted_since="2026-01-05T05:00:00Z")
    assert (period["state"], period["since_at_most"]) == ("below_since", 9)
    assert (period["counted_since"], "count_at_most" in period) == ("2026-01-05T05:00:00Z", False)


SHARD, PARK = find_shard("market", 2), find_shard("park", 2)
"""The shards of the market and of the park, which differ, by the number of shards that the snapshots had."""
ALERT, READ = over_time("market", 6, 0), snapshot(SHARD, 3)


@pytest.mark.parametrize(
    ("place", "records", "changes", "state"),
    [
        ("market", [ALERT], {}, "safe"),
        ("market", [snapshot(SHARD, 3, {"market": (3, 9)}), snapshot(PARK, 3)], {}, "noisy_count"),
        ("park", [snapshot(SHARD, 3, {"market": (3, 9)}), snapshot(PARK, 3)], {}, "safe"),
        ("park", [snapshot(PARK, 3)], {"registry": "0" * 64}, "unknown"),
        ("market", [READ], {"noisy_counts": ...}, "unknown"),
        ("market", [ALERT], {"threshold": ...}, "unknown"),
        ("market", [ALERT, hot_spots(2, {"market": 9}), READ], {"monitor": "midday"}, "safe"),
    ],
    ids=["alert", "listed", "other shard", "other registry", "newer snapshot", "newer alert", "other kinds before"],
)
def test_history_knows_what_subscribers_knew(
    place: str, records: list[OutputRecord], changes: dict[str, Any], state: str
) -> None:
    """A place is safe only by a record that is understood, of its shard then, of its registry, and of the monitor."""
    assert SHARD != PARK
    assert [period["state"] for period in list_periods(place, *records, **changes)] == [state]


def test_equal_answers_change_no_history() -> None:
    """While a place has the same answer, its history stays the same, also when the first records are no longer kept."""
    kept = [list_periods("market", *(over_time("market", tick, 0) for tick in range(first, 12))) for first in (3, 4)]
    later = list_periods("market", *(over_time("market", tick, 0) for tick in range(4, 15)))
    assert kept == [later, later]
    changed = list_periods("market", *(over_time("market", tick, 12 if tick == 9 else 0) for tick in range(3, 12)))
    assert [period["state"] for period in changed] == ["safe", "noisy_count", "safe"]
    assert changed[2] == {**later[0], "until": "2026-01-05T09:00:00Z"}


def test_crossed_bounds_have_no_upper_one() -> None:
    """A noisy count below the lower bound is of an earlier tick, so it is shown as no upper bound."""
    [period] = list_periods("market", snapshot(SHARD, 6, {"market": (3, 9)}, bounds={"market": 11}))
    assert period | {"state": "noisy_count", "count_at_least": 11} == period
    assert "count_at_most" not in period


def test_counts_about_a_time_add_up() -> None:
    """A count since an alarm is not safe, and the noisy counts of a place about a time add up to its upper bound."""
    half, since = Fraction(1, 2), "2026-01-05T04:00:00Z"
    market = [(3, 9, half), (3, 9, half, (), since), (3, 9, half, (LaterCount(5, 8, half),), since)]
    records = [snapshot(SHARD, tick, {"market": one}, answers=2) for tick, one in zip((3, 4, 5), market, strict=True)]
    last, middle, first = list_periods("market", *records, snapshot(SHARD, 6, {"market": market[2][:4]}, answers=2))
    assert first | {"state": "noisy_count", "count_at_most": 9} == first
    expected = {"state": "below_since", "count_at_most": 9 + 7, "since_at_most": 7, "counted_since": since}
    assert middle | expected == middle
    expected = {"state": "noisy_count", "count_at_most": 9 + 8, "since_at_most": 8}
    assert last | expected | {"since": "2026-01-05T06:00:00Z"} == last
    assert (first["until"], "until" in last) == ("2026-01-05T04:00:00Z", False)
    entries, _ = read_entries(publish(records))
    assert [entry.alarms for entry in entries] == [1, 0, 1]
