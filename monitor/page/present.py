"""The present state of all places, computed again only if a record came or an answer expired."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from monitor.client.known import Answer
from monitor.client.known_places import KnownPlaces
from monitor.config import Location
from monitor.page.feed import Feed
from monitor.page.places import Place, read_place
from monitor.public.instants import SECOND
from monitor.public.parameters import Parameters


class Recount(BaseModel):
    """The result of an independent recount: all answers up to a time, how many were false, and the largest ε paid."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    up_to: str
    false: int = Field(ge=0)
    epsilon_at_most: str


def read_recount(path: Path | None) -> Recount | None:
    """Return the recount in a file; None if there is no such file, or if it has another form."""
    try:
        return None if path is None else Recount.model_validate(json.loads(path.read_bytes()))
    except (OSError, ValueError, ValidationError):
        return None


@dataclass
class Present:
    """The places as they have to be read now. `state` changes whenever they change.

    If Kafka has not answered for `unreachable_after` (microseconds), every place is unknown.
    """

    parameters: Parameters
    locations: Sequence[Location]
    feed: Feed
    unreachable_after: int
    _version: tuple[int, bool] | None = None
    _expires: int = 0
    _round: int = 0
    _places: list[Place] = field(default_factory=list)

    @property
    def is_reachable(self) -> bool:
        """Whether Kafka has answered recently."""
        return self.feed.silent_seconds * SECOND <= self.unreachable_after

    def places(self) -> list[Place]:
        """Return all places in the order of the registry."""
        now, version = self.feed.clock.now(), (self.feed.board.version, self.is_reachable)
        if version != self._version or now > self._expires:
            self._version = version
            self._round += 1
            known = KnownPlaces(self.feed.view, self.parameters.grid.length, self.feed.clock.now)
            reachable = self.is_reachable
            self._places = [read_place(location, known, now, reachable=reachable) for location in self.locations]
            expiring = (answer.valid_until for place in self._places for answer in place.answers if _expires(answer))
            self._expires = min(filter(None, expiring), default=now + self.parameters.grid.length)
        return self._places

    @property
    def state(self) -> int:
        """A number that changes whenever the places change."""
        self.places()
        return self._round


def _expires(answer: Answer) -> bool:
    return answer.state != "unknown"
