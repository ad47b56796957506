"""Every status is explained in words, and a change is one line of news."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from rich.console import Console

from monitor.client.subscriber_view import SubscriberView
from monitor.client.view import Screen, lines
from monitor.client.words import News, Words, chance, moment, span
from monitor.contracts.alerts import OutputRecord
from monitor.public.instants import DAY, HOUR, MINUTE
from monitor.public.parameters import Registry
from monitor.public.slot_grid import SlotGrid

Said = Callable[..., OutputRecord]
Told = Callable[[Iterable[OutputRecord]], list[str]]


@pytest.fixture
def subscriber_view(registry: Registry) -> SubscriberView:
    return SubscriberView(registry)


@pytest.fixture
def words(grid: SlotGrid) -> Words:
    return Words(grid)


@pytest.fixture
def told(subscriber_view: SubscriberView, words: Words) -> Told:
    """The news in some records."""
    news = News(words)

    def made(records: Iterable[OutputRecord]) -> list[str]:
        changes = [subscriber_view.add(record.headers, record.value) for record in records]
        return [line.text for line in news.of(subscriber_view, [change for change in changes if change is not None])]

    return made


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "safe: fewer than 10 target people since Mon 5 Jan 03:00"),
        (
            12,
            (
                "at most 12 target people since Mon 5 Jan 03:00 (certain); fewer than 10 would give so high an answer "
                "with a chance of 5 %"
            ),
        ),
        (None, "unknown: it could not be shown in time that every visit had been read"),
    ],
)
def test_an_answer_is_explained(
    subscriber_view: SubscriberView, words: Words, said: Said, count: int | None, expected: str
) -> None:
    record = said("market", 7, count)
    subscriber_view.add(record.headers, record.value)
    assert words.alert(subscriber_view.alerts[0]) == expected


def test_a_pause_says_until_when_and_what_was_said(subscriber_view: SubscriberView, words: Words, said: Said) -> None:
    #     tick  7      8 … 13  14        as_of(14) = 15:00
    #           noisy  paused  answers
    record = said("market", 8, 0, (7, 12))
    subscriber_view.add(record.headers, record.value)
    expected = "silent until Mon 5 Jan 15:00, its ε is spent: at most 12 target people on Mon 5 Jan 08:00"
    assert words.alert(subscriber_view.alerts[0]) == expected


def test_the_news_of_a_location_is_its_answer_its_pause_and_its_return(told: Told, said: Said) -> None:
    assert told([said("market", 7, 12)]) == ["market: at most 12 target people in the last 5h (noisy)"]
    assert told([said("market", 8, 0, (7, 12))]) == ["market: silent until Mon 5 Jan 15:00, its ε is spent"]
    assert told([said("market", 9, 0, (7, 12))]) == []
    assert told([said("market", 14, 0, (7, 12))]) == ["market: answers again; safe: fewer than 10 target people"]
    assert told([said("market", 15, None)]) == [
        "market: unknown: it could not be shown in time that every visit had been read"
    ]


def test_a_designated_time_is_news_once_all_shards_were_heard_of(told: Told, shown: Said) -> None:
    assert told([shown(0, 2)]) == []
    assert told([shown(1, 2)]) == ["Mon 5 Jan 02:30 midday: 4 of 4 locations safe"]
    assert told([shown(0, 3), shown(1, 3, {"market": (3, 9)})]) == [
        "Mon 5 Jan 02:30 midday: 3 of 4 locations safe, market at most 9 target people"
    ]
    assert told([shown(0, 4), shown(1, 4, {"market": (3, 9)}, complete=False)]) == [
        "Mon 5 Jan 02:30 midday: 2 of 4 locations safe, 1 unknown: not all visits were read in time in shard 1 of 2"
    ]


def test_hot_spots_are_news_highest_first_and_the_fifth_is_the_last_that_is_named(told: Told, drawn: Said) -> None:
    assert told([drawn(2, {"park": 17, "market": 12})]) == [
        "Mon 5 Jan 02:30 busiest: park at most 17, market at most 12 (target people; noisy, drawn once)"
    ]
    (line,) = told([drawn(3, {f"place-{n}": 20 - n for n in range(8)})])
    assert line.endswith("place-4 at most 16 and 3 more (target people; noisy, drawn once)")
    assert told([drawn(4, None)]) == [
        "Mon 5 Jan 04:30 busiest: unknown: it could not be shown in time that every visit had been read"
    ]
    assert told([drawn(4, None)]) == []


def test_the_latest_hot_spots_are_shown_however_long_ago_and_all_of_them_in_lines(
    subscriber_view: SubscriberView, words: Words, said: Said, drawn: Said
) -> None:
    named = {f"place-{n}": 20 - n for n in range(8)}
    for record in (drawn(2, named), said("market", 90, 0)):
        subscriber_view.add(record.headers, record.value)
    assert list(lines(subscriber_view, words, words.grid.as_of(90)))[-1] == (
        "busiest Mon 5 Jan 02:30: "
        + ", ".join(f"{place} at most {count}" for place, count in named.items())
        + " (target people; noisy, drawn once)"
    )
    console = Console(width=100, height=24, force_terminal=True)
    shown = console.render_lines(Screen(subscriber_view, words, words.grid.as_of(90), []), pad=False)
    text = [" ".join("".join(segment.text for segment in line).split()) for line in shown]
    assert text[2].startswith("busiest Mon 5 Jan 02:30 ▲ place-0 at most 20, place-1 at most 19,")


def test_another_registry_is_said_to_be_why_nothing_is_known(told: Told, shown: Said) -> None:
    other = Registry(("market",), 2)
    (line,) = told([shown(0, 2, registry=other), shown(1, 2, registry=other)])
    assert line.endswith("4 unknown: the service's list of locations is not this one (locations.file)")


def test_all_that_is_known_is_a_line_each(
    subscriber_view: SubscriberView, words: Words, said: Said, shown: Said
) -> None:
    for record in (said("market", 6, 12), said("park", 5, 0), shown(0, 6), shown(1, 6, {"market": (3, 9)})):
        subscriber_view.add(record.headers, record.value)
    told = list(lines(subscriber_view, words, words.grid.as_of(6)))
    assert told[0] == "As of Mon 5 Jan 07:00 UTC, tick 6"
    assert told[1].startswith("places market: at most 12 target people")
    assert told[2].endswith("(as of Mon 5 Jan 06:00)")
    assert told[3] == (
        "midday Mon 5 Jan 02:30: 3 of 4 locations safe (fewer than 8 target people), market at most 9; final"
    )


def test_silence_of_the_service_is_said(subscriber_view: SubscriberView, words: Words, said: Said) -> None:
    assert list(lines(subscriber_view, words, 0)) == ["Nothing was published yet."]
    record = said("market", 6, 0)
    subscriber_view.add(record.headers, record.value)
    late = list(lines(subscriber_view, words, words.grid.as_of(6) + 3 * HOUR))[1]
    assert late.startswith("Nothing new for 3h: the service may be away.")


@pytest.mark.parametrize("height", [12, 24])
def test_the_screen_fits_the_terminal_and_shows_first_what_is_not_safe(
    subscriber_view: SubscriberView, words: Words, said: Said, height: int
) -> None:
    records = [said(f"place-{number}", 6, 12 if number == 30 else 0) for number in range(40)]
    for record in records:
        subscriber_view.add(record.headers, record.value)
    console = Console(width=80, height=height, force_terminal=True)
    shown = console.render_lines(Screen(subscriber_view, words, words.grid.as_of(6), []), pad=False)
    text = ["".join(segment.text for segment in line).strip() for line in shown]
    assert len(text) <= height
    assert "place-30" in text[2]
    assert "more: a taller window shows them" in text[-1]


def test_times_durations_and_chances_are_written_as_people_say_them() -> None:
    assert moment("2026-01-05T14:00:00Z") == "Mon 5 Jan 14:00"
    assert [span(duration) for duration in (14 * DAY, DAY, 90 * MINUTE)] == ["14 days", "day", "1h30m"]
    assert [chance(p_value) for p_value in (0.99, 0.0183, 1e-5)] == ["99 %", "1.8 %", "less than 0.01 %"]
