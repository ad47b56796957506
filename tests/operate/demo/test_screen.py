"""The demo's screen: a frame fits the terminal, and shows the news."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console

from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.over_time.keys_and_parameters import OverTime
from monitor.observe.update_service_metrics import Metrics
from monitor.operate.demo.screen import Screen
from monitor.operate.demo.story import Intake, Story
from monitor.records.output_records import OutputRecord
from monitor.time.instants import DAY, HOUR
from monitor.time.slot_grid import SlotGrid
from tests.builders import select

Published = Callable[..., list[OutputRecord]]


def frame(story: Story, width: int, height: int) -> list[str]:
    console = Console(width=width, height=height, force_terminal=True)
    lines = console.render_lines(Screen(story), console.options, pad=False)
    return ["".join(segment.text for segment in line).rstrip() for line in lines]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (160, 50)])
def test_frame_fits_terminal(story: Story, published: Published, metrics: Metrics, width: int, height: int) -> None:
    """A frame is at most as wide and as high as the terminal, and shows the status of each place."""
    assert len(frame(story, width, height)) <= height
    for tick in range(11, 30):
        story.add_tick(tick, published(tick, 2 if tick > 20 else 0), metrics.registry)
    shown = frame(story, width, height)
    assert len(shown) <= height
    assert all(len(line) <= width for line in shown)
    text = "\n".join(shown)
    assert "Tue 6 Jan 06:00  day 2 of 2" in text
    assert "◌ Central Station paused until Tue 13 Jan" in text
    assert "▲ Market Hall     at most 70" in text
    assert "● Town Clinic     safe" in text
    assert "100 visits; dead letters: 2" in text
    assert "● safe  ▲ noisy count  △ fewer since  ◌ paused" in text
    assert text.count("▲") > 2


@pytest.mark.parametrize("width", [80, 100])
def test_address_is_shown_whole(story: Story, width: int) -> None:
    """The address of the page is whole at 80 columns, beside all other parts of the frame."""
    story.page_url = "http://localhost:45678/"
    shown = frame(story, width, 24)
    assert len(shown) <= 24
    assert shown[-1] == "The page: http://localhost:45678/"


def test_first_safe_answers_are_no_news(story: Story, published: Published, metrics: Metrics) -> None:
    """The first "safe" of a location is no news; the first answer for a designated time is."""
    assert story.add_tick(11, published(11), metrics.registry) == []
    (item,) = story.add_tick(12, published(12), metrics.registry)
    assert (item.at, item.text, item.status) == (
        "Mon 5 Jan 13:00",
        "Mon 5 Jan 12:30 midday: 40 of 40 locations safe",
        "safe",
    )


def test_noisy_counts_are_news(story: Story, published: Published, metrics: Metrics) -> None:
    """Each new noisy count is an item of news."""
    story.add_tick(12, published(12), metrics.registry)
    news = story.add_tick(13, published(13, 2), metrics.registry)
    assert [item.status for item in news] == ["paused", "noisy_count", "noisy_count"]
    people = "at most 70 reported infected people in the last 7 days (noisy)"
    assert news[1].text == f"Market Hall: {people}, perhaps 60 or more"
    assert news[2].text.startswith("Mon 5 Jan 12:30 midday: 36 of 40 locations safe, ")


def test_story_progress(story: Story, published: Published, metrics: Metrics) -> None:
    """The story counts ticks and days."""
    assert (story.ticks_published, story.ticks, story.day, story.days) == (0, 48, 1, 2)
    story.add_tick(23, published(23), metrics.registry)
    assert (story.ticks_published, story.day, story.intake) == (24, 1, Intake(100, 2))
    story.add_tick(24, published(24), metrics.registry)
    assert story.day == 2


def test_memory_of_long_demo_is_bounded(story: Story, published: Published, metrics: Metrics) -> None:
    """After five days the story remembers the places, the designated times of the last day, and the last news."""
    for tick in range(5 * 24):
        story.add_tick(tick, published(tick, 2 if tick % 24 == 13 else 0), metrics.registry)
    view, parameters = story.subscriber_view, story.parameters
    end = parameters.grid.as_of(5 * 24 - 1)
    assert len(view.alert_index) == len(select(parameters, OverTime)[0].rows)
    oldest = min(snapshots.as_of for snapshots in view.snapshot_index.values())
    assert oldest >= end - DAY
    assert len(view.snapshot_index) <= len(select(parameters, AtTimes)[0].list_live_times(end)) + 1
    assert 0 < len(story.news) <= 60


def test_long_slots_are_remembered_longer(story: Story) -> None:
    """With slots of two hours the story remembers two days, as every subscriber does."""
    grid = SlotGrid(story.parameters.grid.origin, 2 * HOUR)
    assert Story(replace(story.parameters, grid=grid), 0, 47).subscriber_view.keep == 2 * DAY
