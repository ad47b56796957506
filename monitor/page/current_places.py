"""The places with what is known about each of them, computed again only if it may have changed.

That is after a record, an expiry, or a change of reachability, and when the clock has caught up with an answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from monitor.client.answer_types import Answer, State, Strength
from monitor.client.known_at_a_moment import KnownPlaces
from monitor.client.state_from_records import SubscriberView
from monitor.config.registry import Location, Locations
from monitor.kinds.locations import Registry
from monitor.kinds.parameters import Parameters
from monitor.kinds.report_delays import ReportDelays
from monitor.page.kept_records import Board
from monitor.page.public_records import Entry
from monitor.time.clock import Clock, SystemClock
from monitor.time.instants import DAY, SECOND, parse_instant, to_instant

STATES: Final[tuple[State, ...]] = ("noisy_count", "unknown", "bounded", "safe")
"""All levels, the one that counts most first: a place is safe only if all answers about it say so.

A place that is paused is unknown: the line below its name says why.

"bounded" is the level of a place that has an upper bound, and no answer that is compared with a threshold.
"""

Mark = State | Strength | Literal["so_far"]
"""What the list shows of a place by a symbol and a word: its level, how strong its alarm is, or that it is safe so far.
"""
MARKS: Final[tuple[Mark, ...]] = ("far_above", "noisy_count", "just_above", "unknown", "bounded", "so_far", "safe")
"""All marks in the order of the list. An alarm whose strength is not known stands between the other two."""

_LIKELY: Final = 0.95

_OF_OTHERS: Final = frozenset({"nothing_published", "other_registry"})
"""The reasons of an answer that is not about the place."""

UNREACHABLE: Final = "unreachable"
"""The reason for which every place is unknown while Kafka does not answer."""
RECOUNT_FOR: Final = 2 * DAY
"""For how long a recount is shown. Later, it would be taken for one of the present answers."""


@dataclass(frozen=True, slots=True)
class Expected:
    """How late visits are reported, and the share of them from which on a place is not called safe "so far" only."""

    delays: ReportDelays
    enough: Fraction

    def find_percent(self, answer: Answer) -> int | None:
        """Return how many percent of the reports about a moment had come, if a place is safe only so far."""
        about = answer.about
        if answer.state != "safe" or answer.as_of is None or about is None or about.start != about.end:
            return None
        share = self.delays.find_share(answer.as_of - to_instant(about.end))
        return None if share >= self.enough else int(100 * share)


@dataclass(frozen=True, slots=True)
class Place:
    """A location, the answer that counts, and the answers of all monitors. `reachable`: whether Kafka answers.

    `expected`: how late reports come, if this is known.
    """

    location: Location
    leading: Answer
    answers: tuple[Answer, ...]
    reachable: bool = True
    expected: Expected | None = None

    @property
    def level(self) -> State:
        """The state by which the place is counted and listed: that of an alarm while one still counts."""
        counts = self.leading.last_alarm is not None or self.leading.state == "below_since"
        return "noisy_count" if counts else _show(self.leading.state)

    @property
    def mark(self) -> Mark:
        """The level, or of an alarm the greatest strength of the alarms that still count."""
        if self.level != "noisy_count":
            return self.find_mark(self.leading)
        marks = [find_mark(alarm) for alarm in self._counting]
        return min(marks, key=MARKS.index, default="noisy_count")

    @property
    def alarmed_at(self) -> int:
        """The moment of the latest alarm that still counts; 0 without one."""
        return max((to_instant(alarm.about.end) for alarm in self._counting if alarm.about is not None), default=0)

    @property
    def _counting(self) -> list[Answer]:
        leads = self.leading.state == "noisy_count"
        return [*self.alarms, self.leading] if leads else self.alarms

    @property
    def alarms(self) -> list[Answer]:
        """The last alarm of each monitor, if it still counts, the latest one first."""
        alarms = (answer.last_alarm for answer in self.answers)
        ends = [(alarm.about.end, alarm) for alarm in alarms if alarm is not None and alarm.about is not None]
        return [alarm for _end, alarm in sorted(ends, key=lambda one: one[0], reverse=True)]

    @property
    def statements(self) -> list[Answer]:
        """The answers and the earlier alarms that still count, the most cautious one first."""
        alarms = (answer.last_alarm for answer in self.answers if answer.state != "noisy_count")
        return sorted([*self.answers, *filter(None, alarms)], key=lambda answer: answer.caution)

    def find_percent(self, answer: Answer) -> int | None:
        """Return how many percent of the reports had come, if an answer is safe only so far."""
        return None if self.expected is None else self.expected.find_percent(answer)

    def find_mark(self, answer: Answer) -> Mark:
        """Return what is shown of an answer about this place."""
        return find_mark(answer) if self.find_percent(answer) is None else "so_far"

    @property
    def name(self) -> str:
        """The name of the place, or its id."""
        return self.location.name or self.location.id

    def find_reason(self, answer: Answer) -> str:
        """Return why an answer has its state."""
        return answer.reason if self.reachable else UNREACHABLE


def find_mark(answer: Answer) -> Mark:
    """Return how strong an alarm is; otherwise the state. With a lower bound at the threshold, noise is no question."""
    threshold = answer.about.threshold if answer.about else None
    if answer.state != "noisy_count" or answer.strength is None or answer.count_at_least >= (threshold or 0):
        return _show(answer.state)
    return answer.strength


def distinguish(answer: Answer) -> tuple[object, ...]:
    """Return an answer with what `==` leaves out: the ε of places may differ, and with it how strong an alarm is."""
    alarms = filter(None, (answer, answer.last_alarm))
    return answer, *((alarm.p_value, alarm.strength) for alarm in alarms)


def _show(state: State) -> State:
    return "unknown" if state == "paused" else state


def find_likely_least(answer: Answer) -> int | None:
    """Return the number that an alarm far above the level reaches with a chance of 95 % or more; None for others.

    The noise is m or more with the chance e^(-εm), and ε follows from `p_value`. An alarm just above the level is often
    one of those that noise has raised, so this chance does not hold for it.
    """
    most, threshold = answer.count_at_most, answer.about.threshold if answer.about else None
    if find_mark(answer) != "far_above" or answer.since_at_most is not None or answer.count_at_least:
        return None
    if most is None or threshold is None or not answer.p_value:
        return None
    epsilon = -math.log(answer.p_value) / (most - threshold + 1)
    return max(0, most + 1 - math.ceil(-math.log(1 - _LIKELY) / epsilon))


def read_place(
    location: Location, known: KnownPlaces, now: int, *, reachable: bool, expected: Expected | None = None
) -> Place:
    """Return what is known about a location at an instant. If Kafka is not reachable, it is unknown.

    Upper bounds and named places count only without other answers, but are shown beside them.
    """
    most_cautious = known.get(location.id)
    found, leading = most_cautious.answers, most_cautious.at(now)
    if known.view.named_places or location.id in known.view.bound_index:
        found = tuple(answer for each in known.answers(location.id) for answer in each.answers)
    answers = tuple(sorted((answer.at(now, known.slot) for answer in found), key=lambda answer: answer.caution))
    if reachable:
        return Place(location, leading, answers, expected=expected)
    return Place(location, _hide(leading), tuple(_hide(answer) for answer in answers), reachable=False)


def _hide(answer: Answer) -> Answer:
    hidden = replace(answer, state="unknown", count_at_most=None, count_at_least=0, since_at_most=None)
    return replace(hidden, p_value=None, strength=None)


class Recount(BaseModel):
    """The result of an independent recount: up to which instant, how many false statements, and the largest ε paid.

    `since` (`from` in the file) is the instant of the first answers, if it is known. In the file, instants are text,
    such as "2026-01-06T14:00:00Z".
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    since: Annotated[int | None, BeforeValidator(parse_instant)] = Field(None, alias="from")
    up_to: Annotated[int, BeforeValidator(parse_instant)]
    false: int = Field(ge=0)
    epsilon_at_most: str


def read_recount(path: Path | None, now: int) -> Recount | None:
    """Return the recount in a file; None if there is no such file, if it has another form, or if it is too old."""
    try:
        recount = None if path is None else Recount.model_validate(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, ValidationError):
        return None
    return None if recount is None or now > recount.up_to + RECOUNT_FOR else recount


def _still_counts(place: Place, now: int) -> bool:
    """Return whether an answer about a place, or an alarm, counts now."""
    return any(
        answer.last_alarm is not None
        or (answer.reason not in _OF_OTHERS and answer.valid_until is not None and now <= answer.valid_until)
        for answer in place.answers
    )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The places at one moment, in the order of a registry (its digest).

    `number` differs if the places may differ. At `expires` the first answer expires. `as_of` is the latest one.
    """

    number: int = 0
    places: Sequence[Place] = ()
    expires: int = 0
    as_of: int | None = None
    registry: str = ""


@dataclass
class Present:
    """The places as they have to be read now: the records, the view that follows from them, and when Kafka answered.

    If Kafka has not answered for `unreachable_after` (microseconds), every place is unknown. `clock` is the time of the
    records, which may be simulated; `real_clock` is that of Kafka, of the files and of their readers. `shown`: the ids
    of `locations`.
    """

    parameters: Parameters
    locations: Locations
    board: Board
    view: SubscriberView
    clock: Clock
    unreachable_after: int
    expected: Expected | None = None
    real_clock: Clock = field(default_factory=SystemClock)
    _reached: float | None = None
    _version: tuple[int, bool, int, str] | None = None
    _uses: int = 0
    _unchanged_until: int = 0
    _snapshot: Snapshot = field(default_factory=Snapshot)
    _given: Locations = field(init=False)
    shown: Registry = field(init=False)

    def __post_init__(self) -> None:
        """Begin with the places of the configuration."""
        self._given, self.shown = self.locations, self.parameters.registry

    def deliver(self, entries: Iterable[Entry], problem: str = "") -> list[Entry]:
        """Add the records of a poll, and return those that are new. `problem`: as in `Polled`; it may also end."""
        self._reached = self.real_clock.elapsed()
        if problem != self.view.problem:
            self.view.distrust(problem)
        fresh = self.board.add(entries)
        for entry in fresh:
            self.view.add([("ce_type", entry.type.encode())], entry.value)
        return fresh

    def use(self, parameters: Parameters, locations: Locations) -> None:
        """Show the places of another configuration with the same slots from now on.

        The service may not use it yet, or refuse it. So a place that it lacks stays, after its places, until no answer
        about the place and no alarm counts any more.
        """
        leaving = tuple(one for one in self.locations if one.id not in parameters.registry.rows)
        self.parameters, self._given = parameters, locations
        self.view.use(parameters.registry)
        self._show(leaving)

    def _show(self, leaving: Sequence[Location]) -> None:
        """Show the places of the configuration, and after them those that leave it."""
        self.locations = Locations(*map(tuple, zip(*self._given, *leaving, strict=True))) if leaving else self._given
        self.shown = Registry(self.locations.ids, self.parameters.registry.shards)
        self._uses += 1

    @property
    def earlier(self) -> list[Registry]:
        """The registries that the service may use, apart from that of the shown places."""
        return [one for one in (self.view.registry, *self.view.earlier) if one.digest != self.shown.digest]

    @property
    def silent_seconds(self) -> float:
        """Seconds since Kafka answered last; infinite if it never did."""
        return float("inf") if self._reached is None else self.real_clock.elapsed() - self._reached

    @property
    def is_reachable(self) -> bool:
        """Whether Kafka has answered recently."""
        return self.silent_seconds * SECOND <= self.unreachable_after

    def read(self) -> Snapshot:
        """Return all places in the order of the registry, then those that the present configuration lacks."""
        now = self.clock.now()
        version = self.board.version, self.is_reachable, self._uses, self.view.problem
        if version != self._version or now > self._unchanged_until:
            as_of, registry, slot = self.board.as_of, self.shown.digest, self.parameters.grid.length
            known = KnownPlaces(self.view, slot, self.clock.now)
            places = [
                read_place(one, known, now, reachable=self.is_reachable, expected=self.expected)
                for one in self.locations
            ]
            leaving = places[len(self._given.ids) :]
            if leaving and self.is_reachable and not self.view.problem:
                staying = [one.location for one in leaving if _still_counts(one, now)]
                if len(staying) < len(leaving):
                    self._show(staying)
                    return self.read()
            answers = [answer for place in places for answer in place.answers]
            expiring = (answer.valid_until for answer in answers if answer.state != "unknown")
            expires = min(filter(None, expiring), default=now + slot)
            ends = (answer.find_end(slot) for answer in answers)
            self._unchanged_until = min(filter(None, ends), default=expires)
            self._snapshot = Snapshot(self._snapshot.number + 1, places, expires, as_of, registry)
            self._version = version
        return self._snapshot
