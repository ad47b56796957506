"""The places of the registry, each with what is known about it at a moment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from monitor.config import Location
from monitor.tools.client.known import Answer, State
from monitor.tools.client.known_places import KnownPlaces

STATES: Final[tuple[State, ...]] = ("noisy_count", "paused", "unknown", "safe")
"""All states, the one that counts most first: a place is safe only if all answers about it say so."""

UNREACHABLE: Final = "unreachable"
"""The reason for which every place is unknown while Kafka does not answer."""


@dataclass(frozen=True, slots=True)
class Place:
    """A location, the answer that counts, and the answers of all monitors. `reachable`: whether Kafka answers."""

    location: Location
    leading: Answer
    answers: tuple[Answer, ...]
    reachable: bool = True

    @property
    def name(self) -> str:
        """The name of the place, or its id."""
        return self.location.name or self.location.id

    def find_reason(self, answer: Answer) -> str:
        """Return why an answer has its state."""
        return answer.reason if self.reachable else UNREACHABLE


def read_place(location: Location, known: KnownPlaces, now: int, *, reachable: bool) -> Place:
    """Return what is known about a location at an instant. If Kafka is not reachable, it is unknown."""
    most_cautious = known.get(location.id)
    found = most_cautious.answers
    if known.view.hot_spots:  # they count only without other answers, but are shown in any case
        found = tuple(answer for each in known.answers(location.id) for answer in each.answers)
    answers = tuple(sorted((answer.at(now, known.slot) for answer in found), key=lambda answer: answer.caution))
    leading = most_cautious.at(now)
    if reachable:
        return Place(location, leading, answers)
    return Place(location, _hide(leading), tuple(_hide(answer) for answer in answers), reachable=False)


def _hide(answer: Answer) -> Answer:
    return replace(answer, state="unknown", count_at_most=None, count_at_least=0)
