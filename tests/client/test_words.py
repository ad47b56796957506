"""What `watch` shows: the state of each place, descriptions of it, and the news of changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from rich.console import Console

from monitor.client.describe_records import News, Words, chance, length, moment
from monitor.client.state_from_records import SubscriberView
from monitor.client.watch import Screen, describe_view
from monitor.kinds.locations import Registry
from monitor.records.output_records import OutputRecord
from monitor.time.instants import DAY, HOUR, MINUTE
from tests.client.records import REGISTRY, SLOTS, hot_spots, over_time, snapshot

NewsOf = Callable[[Iterable[OutputRecord]], list[str]]
MARKET = {"market": (3, 9)}
PEOPLE = "reported infected people"
OTHER = Registry(("market", "park", "school"), 2)


@pytest.fixture
def subscriber_view() -> SubscriberView:
    return SubscriberView(REGISTRY)


@pytest.fixture
def words() -> Words:
    return Words(SLOTS)


@pytest.fixture
def news(subscriber_view: SubscriberView, words: Words) -> NewsOf:
    """A function that adds records and returns the news."""
    describer = News(words)

    def add_all(records: Iterable[OutputRecord]) -> list[str]:
        changes = [subscriber_view.add(record.headers, record.value) for record in records]
        return [
            line.text for line in describer.lines(subscriber_view, [change for change in changes if change is not None])
        ]

    return add_all


def test_pause_names_end_and_last_answer(news: NewsOf, subscriber_view: SubscriberView, words: Words) -> None:
    """A pause is described after its alarm, with its end. The alarm stays when the answer is too old, until it ends."""
    #     tick  7      8 … 13  14        as_of(14) = 15:00
    #           noisy  paused  answers
    news([over_time("market", 8, 0, (7, 12))])
    alarm, ends = "alarm on Mon 5 Jan 08:00, at most 12 reported infected people", words.grid.as_of(13) + 2 * HOUR

    def describe(now: int) -> list[str]:
        return list(describe_view(subscriber_view, words, now))

    assert describe(words.grid.as_of(8)) == [
        "As of Mon 5 Jan 09:00 UTC, tick 8; places with an alarm: 1",
        f"places market: {alarm}; paused until Mon 5 Jan 15:00, its ε is spent",
    ]
    old = "unknown: nothing newer since Mon 5 Jan 09:00"
    assert describe(ends)[-1] == f"places market: {alarm}; {old}"
    assert describe(ends + 1)[-1] == f"places market: {old}"


def test_news_of_a_location(news: NewsOf) -> None:
    """The news of a location is its answer, its pause, and its return."""
    alarm = "market: at most 12 reported infected people in the last 5h (noisy), perhaps 10 or more"
    assert news([over_time("market", 7, 12)]) == [alarm]
    assert news([over_time("market", 8, 0, (7, 12))]) == ["market: paused until Mon 5 Jan 15:00, its ε is spent"]
    assert news([over_time("market", 9, 0, (7, 12))]) == []
    assert news([over_time("market", 14, 0, (7, 12))]) == [
        "market: answers again; safe: fewer than 10 reported infected people"
    ]
    assert news([over_time("market", 15, None)]) == [
        "market: unknown: not confirmed in time that all visits had been read"
    ]


def test_news_of_time_needs_all_shards(news: NewsOf) -> None:
    """A designated time is news once all shards are known, with the counts of shards that came in earlier polls."""
    market = {"market": (2, 9)}
    assert news([snapshot(1, 2, market)]) == []
    assert news([snapshot(0, 2)]) == [
        "Mon 5 Jan 02:30 midday: 3 of 4 locations safe, market at most 9 reported infected people (perhaps 8 or more)"
    ]
    assert news([snapshot(0, 3), snapshot(1, 3, market)]) == []
    both = market | {"clinic": (4, 8)}
    assert news([snapshot(0, 4), snapshot(1, 4, both)]) == [
        "Mon 5 Jan 02:30 midday: 2 of 4 locations safe, clinic at most 8 reported infected people (perhaps 8 or more)"
    ]
    assert news([snapshot(0, 5), snapshot(1, 5, market, complete=False)]) == [
        "Mon 5 Jan 02:30 midday: 2 of 4 locations safe, 1 unknown: not all visits were read in time in shard 1 of 2"
    ]


def test_news_names_five_hot_spots(news: NewsOf) -> None:
    """News names the five highest hot spots."""
    assert news([hot_spots(2, {"park": 17, "market": 12})]) == [
        "Mon 5 Jan 02:30 busiest: park at most 17, market at most 12 (reported infected people; noisy, drawn once)"
    ]
    (line,) = news([hot_spots(3, {f"place-{n}": 20 - n for n in range(8)})])
    assert line.endswith("place-4 at most 16 and 3 more (reported infected people; noisy, drawn once)")
    assert news([hot_spots(4, None)]) == [
        "Mon 5 Jan 04:30 busiest: unknown: not confirmed in time that all visits had been read"
    ]
    assert news([hot_spots(4, None)]) == []


def test_lines_show_all_hot_spots(news: NewsOf, subscriber_view: SubscriberView, words: Words) -> None:
    """The lines name all of the latest hot spots, however old; the screen shortens them."""
    named = {f"place-{n}": 20 - n for n in range(8)}
    news((hot_spots(2, named), over_time("market", 90, 0)))
    assert list(describe_view(subscriber_view, words, words.grid.as_of(90)))[-1] == (
        "busiest Mon 5 Jan 02:30: "
        + ", ".join(f"{place} at most {count}" for place, count in named.items())
        + " (reported infected people; noisy, drawn once)"
    )
    console = Console(width=100, height=24, force_terminal=True)
    rendered = console.render_lines(Screen(subscriber_view, words, words.grid.as_of(90), []), pad=False)
    text = [" ".join("".join(segment.text for segment in line).split()) for line in rendered]
    assert text[2].startswith("busiest Mon 5 Jan 02:30 ▲ place-0 at most 20, place-1 at most 19,")


def test_other_registry_is_the_reason(news: NewsOf) -> None:
    """Another registry is named as the reason of unknown locations."""
    other = Registry(("market",), 2)
    (line,) = news([snapshot(0, 2, registry=other), snapshot(1, 2, registry=other)])
    assert line.endswith("4 unknown: the service uses another registry than locations.file")


def test_state_has_one_line_per_item(news: NewsOf, subscriber_view: SubscriberView, words: Words) -> None:
    """Each location and each designated time has one line."""
    news([over_time("park", 5, 0), over_time("market", 6, 12), snapshot(0, 6), snapshot(1, 6, MARKET)])
    text = list(describe_view(subscriber_view, words, words.grid.as_of(6)))
    assert text[0] == "As of Mon 5 Jan 07:00 UTC, tick 6; places with an alarm: 1"
    assert text[1] == (
        f"places market: at most 12 {PEOPLE} since Mon 5 Jan 02:00 (certain), perhaps 10 or more: with fewer, the "
        "chance of an answer this high is 5 %"
    )
    assert text[2].endswith("(as of Mon 5 Jan 06:00)")
    assert text[3] == (
        "midday Mon 5 Jan 02:30: 3 of 4 locations safe (fewer than 8 reported infected people), market at most 9 "
        "(perhaps 8 or more); final"
    )


def test_late_state_is_marked(news: NewsOf, subscriber_view: SubscriberView, words: Words) -> None:
    """A late state is marked as such. Records that do not name what they are about are skipped, and counted."""
    assert list(describe_view(subscriber_view, words, 0)) == ["Nothing has been published yet."]
    subscriber_view.signer = "example.org/town"
    assert list(describe_view(subscriber_view, words, 0)) == ["No answer that example.org/town has signed yet."]
    subscriber_view.signer = ""
    record = over_time("market", 6, 0)
    news([record, *(record._replace(value=value) for value in (b"", b"\xff", b"{}", b'{"status": "safe"}'))])
    _as_of, late, skipped, _market = describe_view(subscriber_view, words, words.grid.as_of(6) + 3 * HOUR)
    assert late.startswith("Nothing new for 3h: the service may be down.")
    assert skipped == "4 invalid records were skipped."


@pytest.mark.parametrize("height", [12, 24])
def test_screen_fits_and_sorts_unsafe_first(
    news: NewsOf, subscriber_view: SubscriberView, words: Words, height: int
) -> None:
    """The screen fits the terminal, and shows unsafe locations first."""
    records = [over_time(f"place-{number}", 6, 12 if number == 30 else 0) for number in range(40)]
    news(records)
    console = Console(width=80, height=height, force_terminal=True)
    rendered = console.render_lines(Screen(subscriber_view, words, words.grid.as_of(6), []), pad=False)
    text = ["".join(segment.text for segment in line).strip() for line in rendered]
    assert len(text) <= height
    assert "place-30" in text[2]
    assert "more: enlarge the window to see them" in text[-1]


def test_times_durations_and_chances() -> None:
    """Times, durations and probabilities are readable."""
    assert moment("2026-01-05T14:00:00Z") == "Mon 5 Jan 14:00"
    assert [length(duration) for duration in (14 * DAY, DAY, 90 * MINUTE)] == ["14 days", "day", "1h30m"]
    assert [chance(p_value) for p_value in (0.99, 0.0183, 1e-5)] == ["99 %", "1.8 %", "less than 0.01 %"]


@pytest.mark.promise(41)
def test_bounds_are_described(news: NewsOf, subscriber_view: SubscriberView, words: Words) -> None:
    """A noisy count is older than a lower bound, so the two are no interval. A safe place has at most T - 1 people.

    The noisy count 2 of the school, of tick 3, is exceeded by the lower bound: it is no upper bound any more. Bounds
    are published once, and stay.
    """
    school, others = {"school": (3, 2)}, {"market": (3, 9), "clinic": (5, 8)}
    least = {"park": 2, "elsewhere": 1, "school": 4}
    (line,) = news([snapshot(0, 6, school, bounds=least), snapshot(1, 6, others, bounds={"market": 4})])
    assert line == (
        f"Mon 5 Jan 02:30 midday: 1 of 4 locations safe, clinic at most 8 {PEOPLE} (perhaps 8 or more), market at "
        f"least 4 {PEOPLE} (at most 9 before later reports, perhaps 8 or more), park 2 to 7 {PEOPLE}, school at "
        f"least 4 {PEOPLE}"
    )
    assert news([snapshot(0, 7, school), snapshot(1, 7, others)]) == []
    assert list(describe_view(subscriber_view, words, words.grid.as_of(6)))[1] == (
        "midday Mon 5 Jan 02:30: 1 of 4 locations safe (fewer than 8 reported infected people), clinic at most 8 "
        "(perhaps 8 or more), market at least 4 (at most 9 before later reports, perhaps 8 or more), park 2 to 7, "
        "school at least 4"
    )


@pytest.mark.promise(2)
@pytest.mark.parametrize(
    ("snapshots", "others"),
    [
        ([snapshot(0, 3), snapshot(1, 3, MARKET)], {"park": "safe", "school": "safe", "clinic": "safe"}),
        ([snapshot(0, 4), snapshot(1, 4, MARKET, complete=False)], {"park": "safe", "school": "safe"}),
        ([snapshot(1, 3, MARKET)], {"clinic": "safe"}),
        ([snapshot(0, 3, registry=OTHER), snapshot(1, 3, MARKET, registry=OTHER)], {}),
    ],
    ids=["complete", "incomplete shard", "shard without snapshot", "other registry"],
)
def test_only_complete_snapshots_mean_safe(
    news: NewsOf, subscriber_view: SubscriberView, snapshots: list[OutputRecord], others: dict[str, str]
) -> None:
    """A location without an entry is safe in a complete snapshot of its shard and of this registry, else unknown.

    The noisy counts remain in any case.
    """
    news(snapshots)
    (at,) = subscriber_view.times
    assert at.statuses == dict.fromkeys(REGISTRY.ids, "unknown") | {"market": "noisy_count"} | others
    assert at.noisy_counts == {"market": 9}
    assert at.is_known == (len(others) == 3)
    assert not at.final


def test_finished_time_is_dropped(news: NewsOf, subscriber_view: SubscriberView) -> None:
    """A designated time is dropped after its last snapshot."""
    #     slot   2     3     4     5     6     7
    #     τ = 2  ticks 2 … 6, the last is final
    #     τ = 4              ticks 4 … 8
    news([snapshot(0, 6), snapshot(1, 6)])
    (at,) = subscriber_view.times
    assert at.final
    news([snapshot(0, 7, time=4)])
    assert [at.time for at in subscriber_view.times] == ["2026-01-05T04:30:00Z", "2026-01-05T02:30:00Z"]
    news([snapshot(0, 8, time=4)])
    assert [at.time for at in subscriber_view.times] == ["2026-01-05T04:30:00Z"]
