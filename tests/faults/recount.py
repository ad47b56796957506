"""What must become of each visit, worked out anew from the records of the input topic (docs/interface.md, sections 1 and 4).

It shares no code with the service: `monitor.tools.audit` reads the configuration, and the rest is said here once more.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from monitor.tools.audit.terms import AuditTerms
from monitor.tools.audit.text import is_id, parse_instant

WHOLE: Final = "-"
HASH_BYTES: Final = 16


class Letter(NamedTuple):
    """A dead letter that must be: where the record lies, the visit's place in it, and why."""

    partition: int
    offset: int
    place: str
    reason: str


class LastSeen(NamedTuple):
    """A fact of `over_time`: a person (keyed hash) was last at a row in a slot."""

    row: int
    person: bytes
    slot: int


class Present(NamedTuple):
    """A fact about a designated time (an instant): a person (keyed hash) was at a row."""

    time: int
    row: int
    person: bytes


class Accepted(NamedTuple):
    """An accepted visit: times and last slot after the cut, and the slot that its record was stamped in."""

    row: int
    person: bytes
    arrived: int
    left: int
    last: int
    stamp: int


class RefusedError(Exception):
    """A record or a visit is refused for this reason."""


@dataclass
class Fates:
    """What must become of a record: dead letters with their payloads, facts, and how many visits have no fact."""

    letters: dict[Letter, Any] = field(default_factory=dict)
    seen: set[LastSeen] = field(default_factory=set)
    present: set[Present] = field(default_factory=set)
    unasked: int = 0

    def add(self, other: Fates) -> None:
        """Add those of another record."""
        self.letters |= other.letters
        self.seen |= other.seen
        self.present |= other.present
        self.unasked += other.unasked


@dataclass(frozen=True)
class Recount:
    """Judges records by the terms of a configuration; `key` is what person ids are hashed with."""

    terms: AuditTerms
    key: bytes

    def fates(self, record: Any) -> Fates:
        """Each visit of a record is a dead letter, or has facts, or nobody can ask about it."""
        found = Fates()
        current = self.terms.grid.slot_of(record.timestamp * 1_000)
        try:
            visits = opened(record.value)
        except RefusedError as refused:
            letter = Letter(record.partition, record.offset, WHOLE, str(refused))
            found.letters[letter] = record.value or b""
            return found
        for index, visit in enumerate(visits):
            try:
                self._accepted(visit, current, found)
            except RefusedError as refused:
                found.letters[Letter(record.partition, record.offset, str(index), str(refused))] = visit
        return found

    def accepted(self, record: Any) -> Iterator[Accepted]:
        """The accepted visits of a record, whether or not anybody asks about them."""
        try:
            visits = opened(record.value)
        except RefusedError:
            return
        for visit in visits:
            try:
                yield self._judged(visit, self.terms.grid.slot_of(record.timestamp * 1_000))
            except RefusedError:
                continue

    def _judged(self, visit: Any, current: int) -> Accepted:
        """One visit of a record that was stamped in slot `current`.

        Raises:
            RefusedError: it is a dead letter.
        """
        grid, end = self.terms.grid, self.terms.grid.start(current + self.terms.max_lead + 1)
        arrived, left = _times(visit, self.terms.default_stay)
        row = self.terms.rows.get(visit["location_id"])
        if row is None:
            raise RefusedError("unknown_location")
        if arrived >= end:
            raise RefusedError("too_far_ahead")
        left = min(left, end)
        last = max(grid.slot_of(arrived), grid.slot_of(left - 1))
        return Accepted(row, self.hashed(visit["person_id"]), arrived, left, last, current)

    def _accepted(self, visit: Any, current: int, found: Fates) -> None:
        """The facts of a visit that tick `current`, the first that counts it, or a later one asks about."""
        one = self._judged(visit, current)
        watched = one.last > current - self.window.get(one.row, 0)
        seen = {LastSeen(one.row, one.person, one.last)} if watched and one.row in self.window else set()
        as_of = self.terms.grid.as_of(current)
        present = {Present(time, one.row, one.person) for time in self._covered(one.arrived, one.left, as_of)}
        found.seen |= seen
        found.present |= present
        found.unasked += not (present or seen)

    def _covered(self, arrived: int, left: int, as_of: int) -> Iterator[int]:
        """The designated times in [arrived, left) that some monitor still asks about at the tick with this as_of."""
        for times, horizon in self.times:
            first, end = bisect_left(times, max(arrived, as_of - horizon)), bisect_left(times, left)
            yield from times[first:end]

    @cached_property
    def window(self) -> dict[int, int]:
        """By watched row, the widest window in slots."""
        widest: dict[int, int] = {}
        for monitor in self.terms.over_time:
            for location in monitor.shares:
                row = self.terms.rows[location]
                widest[row] = max(widest.get(row, 0), monitor.window)
        return widest

    @cached_property
    def times(self) -> list[tuple[list[int], int]]:
        """Of each monitor of designated times its instants, sorted, and its horizon. Towns have no times of day."""
        return [(sorted(monitor.instants), monitor.horizon) for monitor in self.terms.timed]

    def hashed(self, person: str) -> bytes:
        """The keyed hash of a person id (docs/runtime.md, section 3)."""
        return hashlib.blake2b(person.encode(), key=self.key, person=b"person", digest_size=HASH_BYTES).digest()


def opened(value: bytes | None) -> list[Any]:
    """What should be visits in a record's value.

    Raises:
        RefusedError: the record is no strict JSON in UTF-8, or no batch and no visit.
    """
    try:
        record = json.loads((value or b"").decode(), parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise RefusedError("not_json") from None
    if not isinstance(record, dict):
        raise RefusedError("not_a_visit")
    visits = record.get("visits", [record])
    if not isinstance(visits, list):
        raise RefusedError("not_a_visit")
    return visits


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


def _times(visit: Any, default_stay: int) -> tuple[int, int]:
    """When it begins and ends.

    Raises:
        RefusedError: it is no visit by itself.
    """
    if not isinstance(visit, dict) or not {"person_id", "location_id", "arrived_at"} <= visit.keys():
        raise RefusedError("not_a_visit")
    if not all(isinstance(visit[name], str) and is_id(visit[name]) for name in ("person_id", "location_id")):
        raise RefusedError("bad_id")
    try:
        arrived = parse_instant(visit["arrived_at"])
        left = arrived + default_stay if visit.get("left_at") is None else parse_instant(visit["left_at"])
    except (TypeError, ValueError):
        raise RefusedError("bad_time") from None
    if left < arrived:
        raise RefusedError("left_before_arrived")
    return arrived, left
