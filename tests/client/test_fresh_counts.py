"""After a noisy count, a subscriber learns what is certain about the whole window of a place, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import pytest

from monitor.client.describe_records import News, Words
from monitor.client.known_at_a_moment import KnownPlaces
from monitor.client.state_from_records import SubscriberView
from monitor.client.watch import describe_view
from monitor.privacy.over_time import (
    Mark,
    OverTimeAnswer,
    OverTimeRule,
    Status,
    extend_marks,
    select_running_marks,
    step,
)
from monitor.records.output_records import OutputRecord
from monitor.time.instants import HOUR
from tests.builders import write_answer
from tests.client.records import REGISTRY, SLOTS

RULE = OverTimeRule(Fraction(1), 2, 10, 5, 2)
FIRST, SECOND = (Mark(tick, number, Fraction(1, 2), tick + 6) for tick, number in ((6, 12), (8, 11)))


def write(rule: OverTimeRule, tick: int, answer: OverTimeAnswer, since: int | None) -> OutputRecord:
    return write_answer("market", rule, tick, answer, SLOTS, since=since)


def answer(tick: int, *marks: Mark, noisy_count: int | None = None, since: int | None = None) -> OutputRecord:
    status: Status = "safe" if noisy_count is None else "noisy_count"
    return write(RULE, tick, OverTimeAnswer(status, noisy_count, marks, None), since)


@dataclass
class World:
    """A random place: its visits (person, last slot, slot of the stamp), rules in turn, and its marks."""

    draws: random.Random
    marks: tuple[Mark, ...] = ()
    hidden: set[int] = field(default_factory=set)

    def publish(self, ticks: int) -> Iterator[tuple[OutputRecord | None, int]]:
        """Yield the record of each tick, and the number of people in its window. None: nobody has signed the tick."""
        visits = [
            (self.draws.randrange(5), stamp + self.draws.randint(-4, 1), stamp)
            for stamp in (self.draws.randrange(ticks) for _ in range(20))
        ]
        rule = self.draw_rule()
        for tick in range(ticks):
            rule = rule if self.draws.random() < 0.8 else self.draw_rule()
            running = select_running_marks(extend_marks(rule, self.marks), tick)
            since = running[-1].tick if running else None
            there = [(person, stamp) for person, last, stamp in visits if stamp <= tick and last > tick - rule.window]
            count = len({person for person, stamp in there if since is None or stamp > since})
            answer = step(rule, self.marks, tick, count, self.draws.choice([0, 0, 1]))
            self.marks = tuple({mark.tick: mark for mark in (*self.marks, *answer.marks)}.values())
            counted = answer.status in {"safe", "noisy_count"}
            signed = self.draws.random() < 0.9
            self.hidden |= {tick} if answer.status == "noisy_count" and not signed else set()
            shown = tuple(mark for mark in answer.marks if mark.tick not in self.hidden)
            record = write(rule, tick, answer._replace(marks=shown), since if counted else None)
            yield record if signed else None, len({person for person, _ in there})

    def draw_rule(self) -> OverTimeRule:
        window, lead = self.draws.randint(1, 4), self.draws.randint(1, 2)
        return OverTimeRule(Fraction(1), self.draws.randint(1, 3), self.draws.randint(1, 3), window, lead)


def test_bound_of_the_window_is_certain() -> None:
    """In 2,000 random worlds, with other rules in turn and unsigned ticks, no bound is below the people in the window.

    This includes the bound of each alarm about its own window, and a bound is known in most cases.
    """
    known, unknown = 0, 0
    for seed in range(2_000):
        view = SubscriberView(REGISTRY)
        for record, people in World(random.Random(seed)).publish(14):
            if record is None:
                continue
            view.add(record.headers, record.value)
            (alert,) = view.alerts
            bound = view.find_window_bound(alert, HOUR)
            assert bound is None or bound >= people, seed
            if alert.status in {"safe", "noisy_count"}:
                known, unknown = known + (bound is not None), unknown + (bound is None)
    assert known > 4 * unknown > 0


@pytest.mark.parametrize(("window", "bound"), [(2, 9 + 11 + 12), (3, None)])
def test_longer_window_needs_longer_bound(view: SubscriberView, window: int, bound: int | None) -> None:
    """If a longer window lets an ended mark run again, its alarm is in the bound, unless its own window began later.

    W = 1, F = 1: the alarms of the ticks 5 and 6 run until 6 and 7. At tick 7, W is longer.
    """
    short, long = (OverTimeRule(Fraction(1), 3, 10, length, 1) for length in (1, window))
    marks = Mark(5, 12, Fraction(1, 3), 6), Mark(6, 11, Fraction(1, 3), 7)
    records = [
        write(short, 5, OverTimeAnswer("noisy_count", 12, marks[:1], None), None),
        write(short, 6, OverTimeAnswer("noisy_count", 11, marks, None), 5),
        write(long, 7, OverTimeAnswer("safe", None, extend_marks(long, marks), None), 6),
    ]
    for record in records:
        view.add(record.headers, record.value)
    assert view.find_window_bound(view.alerts[0], HOUR) == bound


@pytest.fixture
def view() -> SubscriberView:
    return SubscriberView(REGISTRY)


@pytest.fixture
def show(view: SubscriberView) -> Callable[[int], list[str]]:
    """A function that describes the place at a tick."""
    return lambda tick: list(describe_view(view, Words(SLOTS), SLOTS.as_of(tick)))[1:]


def test_fresh_count_never_reads_as_safe(view: SubscriberView, show: Callable[[int], list[str]]) -> None:
    """A "safe" since an alarm is another state, with the bounds of what was reported since and of the window."""
    alarm = "alarm on Mon 5 Jan 07:00, at most 12 reported infected people, perhaps 10 or more"
    fewer = "fewer than 10 infected people reported since Mon 5 Jan 07:00"
    for record in (answer(6, FIRST, noisy_count=12), answer(7, FIRST, since=6)):
        view.add(record.headers, record.value)
    known = KnownPlaces(view, HOUR, lambda: SLOTS.as_of(7)).get("market")
    assert (known.state, known.count_at_most, known.since_at_most) == ("below_since", 12 + 9, 9)
    assert show(7) == [
        f"places market: {alarm}; {fewer}; with the alarms before, at most 21 in all since Mon 5 Jan 03:00"
    ]


def test_unread_alarm_leaves_no_bound(view: SubscriberView, show: Callable[[int], list[str]]) -> None:
    """Without the record of the alarm, only what was reported since then has a bound."""
    record = answer(7, FIRST, since=6)
    view.add(record.headers, record.value)
    known = KnownPlaces(view, HOUR, lambda: SLOTS.as_of(7)).get("market")
    assert (known.state, known.count_at_most, known.since_at_most) == ("below_since", None, 9)
    assert "in all" not in show(7)[0]


def test_last_alarm_names_what_it_counts(view: SubscriberView, show: Callable[[int], list[str]]) -> None:
    """A second alarm has the people reported since the first one, also if only a later record repeats it."""
    record = answer(9, FIRST, SECOND, since=8)
    view.add(record.headers, record.value)
    alarm = "alarm on Mon 5 Jan 09:00, at most 11 infected people reported since"
    assert show(9)[0].startswith(f"places market: {alarm} an earlier alarm; ")
    record = answer(8, FIRST, SECOND, noisy_count=11, since=6)
    view.add(record.headers, record.value)
    assert show(9)[0].startswith(f"places market: {alarm} Mon 5 Jan 07:00, perhaps 10 or more; ")


def test_news_of_fresh_counts(view: SubscriberView) -> None:
    """The end of an alarm's mark is news, as is the first count since the alarm. Equal answers are not."""
    news = News(Words(SLOTS))

    def add(record: OutputRecord) -> list[tuple[str, str]]:
        change = view.add(record.headers, record.value)
        return [(line.text, line.status) for line in news.lines(view, [change] if change else [])]

    add(answer(6, FIRST, noisy_count=12))
    fewer = "market: fewer than 10 infected people reported since Mon 5 Jan 07:00"
    assert add(answer(7, FIRST, since=6)) == [
        (f"{fewer}; with the alarms before, at most 21 in all since Mon 5 Jan 03:00", "below_since")
    ]
    assert add(answer(8, FIRST, since=6)) == []
    assert add(answer(13)) == [("market: safe: fewer than 10 reported infected people since Mon 5 Jan 09:00", "safe")]
