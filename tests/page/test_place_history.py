"""The page of a place: what was published about it, in words and as a curve."""

from __future__ import annotations

from typing import Any, Final

import pytest

from monitor.config.registry import Location
from monitor.config.sections import LANGUAGES, Language, PageSettings
from monitor.page.html import Html
from monitor.page.languages import build_texts
from monitor.page.place_history import trace
from monitor.page.scripts_and_styles import read_static

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
