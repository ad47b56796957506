"""The history of a place, and of all places: it says no more than a subscriber knew at that time."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any, Final

import pytest

from monitor.config.registry import Location
from monitor.config.sections import LANGUAGES, Language, PageSettings
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.at_times.record import LaterCount
from monitor.kinds.locations import find_shard
from monitor.page.history import Histories
from monitor.page.html import Html
from monitor.page.kept_records import Board
from monitor.page.languages import build_texts
from monitor.page.place_history import trace
from monitor.page.public_records import read_entries
from monitor.page.scripts_and_styles import read_static
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


PROMISE: Final[dict[str, Any]] = {"exact": 1, "stated": "1", "worst": "1", "beliefs": []}
ABOUT: Final = {"monitor": "places", "kind": "over_time", "threshold": 60}
DAYS: Final = [f"2026-01-0{day}T06:00:00Z" for day in range(1, 6)]
BOUNDS: Final = [
    {"monitor": "curve", "kind": "upper_bound", "state": "bounded", "count_at_most": count, "since": day}
    for day, count in zip(reversed(DAYS), (5, 0, 20, 10, 7), strict=True)
]
PERIODS: Final = [
    ABOUT | {"state": "paused", "since": DAYS[3], "resumes_at": DAYS[4]},
    ABOUT | {"state": "noisy_count", "count_at_most": 71, "since": DAYS[2], "until": DAYS[2]},
    ABOUT | {"state": "unknown", "since": DAYS[1], "until": DAYS[1]},
    ABOUT | {"state": "below_since", "since_at_most": 59, "counted_since": DAYS[0], "until": DAYS[0]},
    {**ABOUT, "kind": "at_times", "time": DAYS[0], "state": "safe", "count_at_most": 59},
]


def write(periods: list[dict[str, Any]], language: Language = "en", place: str = "market", name: str = "") -> str:
    html = Html(build_texts(PageSettings()), {"timezone": "Asia/Tokyo"}, read_static(), PROMISE, language)
    return html.write_place(Location(id=place, name=name or None), periods).decode()


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_period_is_in_words(language: Language) -> None:
    """The page has each period with its state, its numbers, and when it was published, in its language."""
    html, texts = write(PERIODS, language), build_texts(PageSettings())[language]
    assert html.count("<li class") == len(PERIODS)
    for part in ("71", "60", texts["paused_short"].partition("}")[2], texts["below_since"], texts["whole_time"]):
        assert part in html
    assert "None" not in html
    assert texts["history_none"] in write([], language)
    if language == "en":
        assert "4 Jan 2026, 15:00 –" in html  # in Tokyo
        assert "– 1 Jan 2026, 15:00" in html


def test_names_are_no_markup() -> None:
    """A name and an id with markup stay text, and the links go up from a place whose name is longer than a folder."""
    html = write([], place='<b>"' + "x" * 120, name="<script>alert(1)</script>")
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert 'href="../../en.html#place=%3Cb%3E%22' in html


def test_curve_has_each_bound() -> None:
    """The bounds of one monitor are one curve in steps, with the scale of the highest one; one bound is no curve."""
    assert trace([0, 3, 4], [5, 10, 0]) == [(0, 60), (300, 60), (300, 0), (400, 0), (400, 120), (600, 120)]
    assert trace([7], [0]) == [(0, 120), (0, 120)]
    html = write(BOUNDS)
    assert html.count("<polyline") == 1
    assert "at most 20 reported" in html
    assert "<polyline" not in write(BOUNDS[:1])
