"""The order of the list: how strong an alarm is, then how late it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from monitor.client.answer_types import NOTHING, About, Answer, Strength
from monitor.config.registry import Location
from monitor.page.current_places import Place
from monitor.page.html import sort_places
from monitor.time.instants import DAY, to_datetime

SAFE: Final = Answer(
    "safe", "below_threshold", 9 * DAY, 10 * DAY, 9, about=About("m", "over_time", None, to_datetime(DAY), 10)
)


def make_alarm(strength: Strength | None, day: int, least: int = 0) -> Answer:
    """Return an alarm about a day."""
    about = About("m", "over_time", None, to_datetime(day * DAY), 10)
    return Answer("noisy_count", "noisy", day * DAY, 10 * DAY, 20, least, about, strength=strength)


def make_place(name: str, *answers: Answer, leading: int = 0) -> Place:
    """Return a place about which these answers are known."""
    return Place(Location(id=name), answers[leading], answers)


def past(alarm: Answer, now: Answer = SAFE) -> Answer:
    """Return an answer of now with an alarm that still counts."""
    return replace(now, last_alarm=alarm)


def test_strong_and_late_alarms_come_first() -> None:
    """The strongest alarms come first, of equal ones the latest, then by name; places without an alarm by name."""
    places = [
        make_place("a", SAFE),
        make_place("b", NOTHING),
        make_place("c", make_alarm("just_above", 8)),
        make_place("d", make_alarm("far_above", 5)),
        make_place("e", past(make_alarm("far_above", 7))),
        make_place("f", make_alarm("far_above", 7)),
        make_place("g", make_alarm(None, 6)),
    ]
    assert [place.name for place in sort_places(reversed(places))] == list("efdgcba")


def test_strongest_alarm_marks_the_place() -> None:
    """Of several alarms that still count, the strongest one is the mark, and the latest one is the moment."""
    place = make_place("a", make_alarm("just_above", 8), past(make_alarm("far_above", 5)))
    assert (place.mark, place.alarmed_at) == ("far_above", 8 * DAY)
    hidden = replace(place.answers[1], state="unknown")
    assert Place(place.location, hidden, (hidden,), reachable=False).mark == "far_above"


def test_sure_alarm_is_not_called_just_above() -> None:
    """A lower bound that reaches the threshold is certain, so noise alone did not raise the alarm."""
    assert make_place("a", make_alarm("just_above", 8, least=10)).mark == "noisy_count"
    assert make_place("a", make_alarm("just_above", 8, least=9)).mark == "just_above"
    assert make_place("a", SAFE).mark == "safe"
