"""After a noisy count about a designated time, a subscriber learns what is certain, and never that a place is safe."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest

from monitor.client.answer_types import Answer
from monitor.client.describe_records import News, Words
from monitor.client.known_at_a_moment import KnownPlaces
from monitor.client.state_from_records import SubscriberView
from monitor.client.watch import describe_view
from monitor.kinds.at_times.record import LaterCount
from monitor.privacy.at_times import AtTimesRule, find_count_start, may_answer
from monitor.privacy.published_numbers import TimeNumber
from monitor.records.output_records import OutputRecord
from monitor.time.instants import HOUR, format_instant, to_instant
from tests.client.records import REGISTRY, SLOTS, snapshot

HALF = Fraction(1, 2)
SHARD = int(REGISTRY.shard[0])
"""The shard of the market."""
FIRST = 2
"""The first tick about the time."""


def publish(
    tick: int, *numbers: TimeNumber, since: int | None = None, answers: int = 2, complete: bool = True
) -> OutputRecord:
    """Return a snapshot with these noisy counts of the market, which counts it since the tick `since`."""
    later = tuple(LaterCount(*number) for number in numbers[1:])
    start = () if since is None else (format_instant(SLOTS.as_of(since)),)
    noisy = {"market": (*numbers[0], later, *start)} if numbers else {}
    return snapshot(SHARD, tick, noisy, answers=answers, complete=complete)


def list_snapshots(draws: random.Random, rule: AtTimesRule) -> Iterator[tuple[OutputRecord, Callable[[int, int], int]]]:
    """Yield each snapshot about a random market, and a function that counts the people reported between two ticks."""
    reports = [(draws.randrange(12), draws.randint(FIRST, 7)) for _ in range(draws.randrange(30))]

    def count(after: int, up_to: int) -> int:
        return len({who for who, stamp in reports if after < stamp <= up_to})

    numbers: list[TimeNumber] = []
    for tick in range(FIRST, 7):
        complete, since = draws.random() < 0.8, find_count_start(numbers)
        counts = complete and may_answer(rule, numbers, tick)
        found = count(-1 if since is None else since, tick) + draws.choice([0, 0, 1])
        if counts and found >= rule.threshold:
            numbers.append(TimeNumber(tick, found, rule.answer_epsilon))
        start = since if counts else None
        yield publish(tick, *numbers, since=start, answers=rule.answers, complete=complete), count


@pytest.mark.promise(3)
def test_bounds_about_a_time_are_certain() -> None:
    """In 2,000 random runs no bound is below the people, and a place with a noisy count is never safe again.

    A bound is about the records before its `as_of`, and `since_at_most` about those since `counted_since`.
    """
    states: Counter[str] = Counter()
    for seed in range(2_000):
        draws, view = random.Random(seed), SubscriberView(REGISTRY)
        rule = AtTimesRule(Fraction(1), 8, draws.choice([2, 3]))
        for record, count in list_snapshots(draws, rule):
            view.add(record.headers, record.value)
            (known,) = KnownPlaces(view, HOUR, lambda: SLOTS.as_of(9), 24 * HOUR).answers("market")
            now: Answer = known.answers[0]
            states[now.state] += 1
            assert now.state != "safe" or not view.times[0].noisy_counts
            assert now.as_of is not None
            tick = SLOTS.find_slot(now.as_of) - 1
            assert now.count_at_most is None or now.count_at_most >= count(-1, tick)
            if now.since_at_most is not None:
                assert now.about
                assert now.about.counted_since
                start = SLOTS.find_slot(to_instant(now.about.counted_since)) - 1
                assert now.since_at_most >= count(start, tick)
            assert (now.state == "below_since") <= (now.last_alarm is not None)
    assert states.keys() == {"safe", "unknown", "noisy_count", "below_since"}
    assert min(states.values()) > 100


NINE, EIGHT = TimeNumber(3, 9, HALF), TimeNumber(5, 8, HALF)
TWO_ALARMS = "at most 17 (8 of them since the alarm before, perhaps 8 or more)"
READ = {
    "an alarm": (publish(3, NINE), ("noisy_count", 3, 9, None, None), "at most 9 (perhaps 8 or more)"),
    "a count since": (
        publish(4, NINE, since=3),
        ("below_since", 4, 9 + 7, 7, 3),
        "at most 16 (fewer than 8 reported since its alarm)",
    ),
    "incomplete": (
        publish(4, NINE, complete=False),
        ("noisy_count", 3, 9, None, None),
        "at most 9 (perhaps 8 or more)",
    ),
    "a second alarm": (publish(5, NINE, EIGHT, since=3), ("noisy_count", 5, 9 + 8, 8, 3), TWO_ALARMS),
    "no ε left": (publish(6, NINE, EIGHT), ("noisy_count", 5, 9 + 8, 8, 3), TWO_ALARMS),
}


@pytest.mark.parametrize("name", READ)
def test_snapshot_about_a_place_is_read(name: str) -> None:
    """A snapshot has its state, the tick up to which it counts, certain bounds, the start of its count, and words."""
    record, (state, tick, most, fresh, since), text = READ[name]
    view = SubscriberView(REGISTRY)
    view.add(record.headers, record.value)
    known = KnownPlaces(view, HOUR, lambda: SLOTS.as_of(5)).get("market").current
    assert (known.state, known.as_of, known.count_at_most) == (state, SLOTS.as_of(tick), most)
    start = known.about and known.about.counted_since
    assert (known.since_at_most, start and to_instant(start)) == (fresh, since and SLOTS.as_of(since))
    assert f"market {text}" in list(describe_view(view, Words(SLOTS), SLOTS.as_of(5)))[1]


def test_each_alarm_about_a_time_is_news() -> None:
    """A second alarm is news, and a count since an alarm is not."""
    view, news = SubscriberView(REGISTRY), News(Words(SLOTS))
    lines = []
    for tick, *numbers in ((3, NINE), (4, NINE), (5, NINE, EIGHT), (6, NINE, EIGHT)):
        since = 3 if tick in {4, 5} else None
        for record in (snapshot(1 - SHARD, tick), publish(tick, *numbers, since=since)):
            change = view.add(record.headers, record.value)
            lines += [(tick, line.text) for line in news.lines(view, [change] if change else [])]
    shown = "Mon 5 Jan 02:30 midday: 3 of 4 locations safe, market"
    people = "reported infected people"
    assert lines == [
        (3, f"{shown} at most 9 {people} (perhaps 8 or more)"),
        (5, f"{shown} at most 17 {people} (8 of them since the alarm before, perhaps 8 or more)"),
    ]
