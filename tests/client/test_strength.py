"""The strength of an alarm: how often noise alone raises an answer as high, at all places together."""

from __future__ import annotations

import math

import pytest

from monitor.client.answer_types import Answer
from monitor.client.known_at_a_moment import KnownPlaces, count_draws, judge_strength
from monitor.client.state_from_records import SubscriberView
from monitor.time.instants import HOUR, YEAR
from tests.client.records import REGISTRY, SLOTS, over_time, snapshot


def read(view: SubscriberView, tick: int) -> KnownPlaces:
    return KnownPlaces(view, HOUR, lambda: SLOTS.as_of(tick))


@pytest.fixture
def view() -> SubscriberView:
    return SubscriberView(REGISTRY)


def add(view: SubscriberView, *records: object) -> None:
    for record in records:
        view.add(record.headers, record.value)  # type: ignore[attr-defined]  # output records


def test_draws_of_a_year(view: SubscriberView) -> None:
    """Noise is drawn at each tick for the two watched places, and for all four about each time that is not final."""
    add(view, over_time("market", 8, 0), over_time("park", 8, 0))
    assert count_draws(view, HOUR) == 2 * YEAR / HOUR
    add(view, snapshot(0, 3), snapshot(1, 3), snapshot(0, 4, time=3), snapshot(1, 4, time=3))
    assert count_draws(view, HOUR) == (2 + 2 * 4) * YEAR / HOUR
    add(view, snapshot(0, 6), snapshot(1, 6))  # the last tick about the first time
    assert count_draws(view, HOUR) == (2 + 4) * YEAR / HOUR


def test_far_above_is_less_than_once_a_year() -> None:
    """An alarm is far above if noise alone raises one as high less than once in a year."""
    assert judge_strength(1 / 8_761, draws=8_760) == "far_above"
    assert judge_strength(1 / 8_760, draws=8_760) == "just_above"


@pytest.mark.parametrize(("count", "strength"), [(10, "just_above"), (18, "just_above"), (19, "far_above")])
def test_alarm_has_its_strength(view: SubscriberView, count: int, strength: str) -> None:
    """
    An alarm over time says its strength, also while the place is paused: e^-9 · 8,760 is above 1, e^-10 · 8,760 below.

    The threshold is 10 and ε is 1, so the chance of z or more from nine people is e^-(z - 9).
    """
    add(view, over_time("market", 8, count))
    now = read(view, 8).get("market").current
    assert (now.p_value, now.strength) == (math.exp(9 - count), strength)
    add(view, over_time("market", 9, 0, (8, count)))
    paused = read(view, 9).get("market").current
    assert (paused.state, paused.strength) == ("paused", None)
    assert paused.last_alarm is not None
    assert (paused.last_alarm.p_value, paused.last_alarm.strength) == (math.exp(9 - count), strength)


def test_alarm_at_a_time_has_its_strength(view: SubscriberView) -> None:
    """A noisy count at a designated time is compared with its own threshold and ε; others have no strength."""
    add(
        view, snapshot(0, 3, {"market": (3, 60), "park": (3, 60)}), snapshot(1, 3, {"market": (3, 60), "park": (3, 60)})
    )
    places = read(view, 3)
    assert places.get("market").current.strength == "far_above"
    assert places.get("clinic").current.strength is None


def test_expired_alarm_has_no_strength(view: SubscriberView) -> None:
    """An answer that is read as unknown has neither a bound nor a strength."""
    add(view, over_time("market", 8, 30))
    expired: Answer = read(view, 30).get("market").current
    assert (expired.state, expired.p_value, expired.strength) == ("unknown", None, None)
