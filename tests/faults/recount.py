"""The expected facts and dead letters of each record of the input topic (docs/interface.md, sections 1 and 4).

It shares no code with the service: `monitor.audit` reads the configuration, and the plain recount of the tests
decides the fate of each visit.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from monitor.audit.configuration import AuditTerms
from monitor.audit.kinds.at_times import AtTimesMonitor
from monitor.audit.kinds.base.designated_times import TimedMonitor
from monitor.audit.kinds.over_time import OverTimeMonitor
from monitor.audit.kinds.upper_bound import UpperBoundMonitor
from monitor.audit.parse_values import is_id, parse_instant
from tests.kit.recount import Counted, RefusedError, Rules

WHOLE: Final = "-"
HASH_BYTES: Final = 16
STAMPED: Final = 1  # Kafka's timestamp type of broker timestamps


class DeadLetter(NamedTuple):
    """An expected dead letter: partition and offset of the record, the visit's index in it, and the reason."""

    partition: int
    offset: int
    place: str
    reason: str


class LastSeen(NamedTuple):
    """A fact of `over_time`: a person (keyed hash), a row, and the last slot there."""

    row: int
    person: bytes
    slot: int


class Present(NamedTuple):
    """A fact about a designated time (an instant): a person (keyed hash) was present at a row, or `consent`ed there."""

    time: int
    row: int
    person: bytes
    consent: bool = False


@dataclass
class Fates:
    """The expected fate of a record: dead letters with payloads, facts, and the number of visits without a fact."""

    letters: dict[DeadLetter, Any] = field(default_factory=dict)
    seen: set[LastSeen] = field(default_factory=set)
    bucketed: set[LastSeen] = field(default_factory=set)
    """The people of upper bounds; the slot is the last one of the bucket."""
    present: set[Present] = field(default_factory=set)
    unasked: int = 0

    def add(self, other: Fates) -> None:
        """Add the fates of another record."""
        self.letters |= other.letters
        self.seen |= other.seen
        self.bucketed |= other.bucketed
        self.present |= other.present
        self.unasked += other.unasked


def is_stamped(record: Any) -> bool:
    """Return whether a broker stamped a record (kafka-python's)."""
    return bool(record.timestamp_type == STAMPED)


@dataclass(frozen=True)
class Recount:
    """The recount of records by the terms of a configuration. `key` is the person key."""

    terms: AuditTerms
    key: bytes

    def fates(self, record: Any) -> Fates:
        """Return the expected fates of a record's visits: a dead letter, facts, or neither if no monitor asks.

        The visits of a record that no broker stamped are lost.
        """
        fates = Fates()
        if not is_stamped(record):
            return fates
        try:
            visits = parse_visits(record.value)
        except RefusedError as refused:
            letter = DeadLetter(record.partition, record.offset, WHOLE, str(refused))
            fates.letters[letter] = record.value or b""
            return fates
        for index, visit in enumerate(visits):
            try:
                self._add_facts(visit, record.timestamp * 1_000, fates)
            except RefusedError as refused:
                fates.letters[DeadLetter(record.partition, record.offset, str(index), str(refused))] = visit
        return fates

    def _add_facts(self, visit: Any, stamped: int, fates: Fates) -> None:
        """Add the facts of a visit for the first tick that counts it, and later ticks.

        Raises:
            RefusedError: the visit is a dead letter.
        """
        arrived, left = _read_times(visit)
        row = self.terms.rows.get(visit["location_id"])
        if row is None:
            raise RefusedError("unknown_location")
        counted = self.rules.judge(arrived, left, stamped)
        person = self.hash_person(visit["person_id"])
        is_watched = row in self.window and counted.in_window(counted.stamp, self.window[row])
        seen = {LastSeen(row, person, counted.last)} if is_watched else set()
        present = {Present(time, row, person) for time in self._covered_times(counted)}
        if visit.get("consent"):
            with_bounds = self.times_with_bounds
            present |= {fact._replace(consent=True) for fact in present if fact.time in with_bounds}
        bucketed = {LastSeen(row, person, last) for last in self._find_buckets(row, counted)}
        fates.seen |= seen
        fates.bucketed |= bucketed
        fates.present |= present
        fates.unasked += not (present or seen or bucketed)

    def _find_buckets(self, row: int, counted: Counted) -> Iterator[int]:
        """Yield the last slot of the bucket of the stamp, if its window has the visit."""
        if row in self.buckets:
            bucket, window = self.buckets[row]
            last = counted.stamp // bucket * bucket + bucket - 1
            if counted.in_window(last, window):
                yield last

    def _covered_times(self, counted: Counted) -> Iterator[int]:
        """Yield the designated times during the visit whose horizon includes the first tick that counts it."""
        as_of = self.rules.as_of(counted.stamp)
        for times, horizon in self.times:
            first, end = bisect_left(times, max(counted.arrived, as_of - horizon)), bisect_left(times, counted.left)
            yield from times[first:end]

    @cached_property
    def rules(self) -> Rules:
        """What decides the fate of a visit."""
        return make_rules(self.terms)

    @cached_property
    def window(self) -> dict[int, int]:
        """The widest window in slots, by watched row."""
        widest: dict[int, int] = {}
        for monitor in (found for found in self.terms.monitors if isinstance(found, OverTimeMonitor)):
            for location in monitor.shares:
                row = self.terms.rows[location]
                widest[row] = max(widest.get(row, 0), monitor.window)
        return widest

    @cached_property
    def buckets(self) -> dict[int, tuple[int, int]]:
        """The slots of a bucket and of a window, by row with upper bounds. A town has one such monitor."""
        monitors = (found for found in self.terms.monitors if isinstance(found, UpperBoundMonitor))
        return {self.terms.rows[place]: (each.bucket, each.window) for each in monitors for place in each.shares}

    @cached_property
    def rows_with_reports(self) -> set[int]:
        """The rows whose people are also counted by what was reported since an answer."""
        monitors = (found for found in self.terms.monitors if isinstance(found, OverTimeMonitor))
        several = (monitor for monitor in monitors if monitor.answers_per_window > 1)
        return {self.terms.rows[location] for monitor in several for location in monitor.shares}

    @cached_property
    def times(self) -> list[tuple[list[int], int]]:
        """Sorted instants and horizon of each monitor at designated times. Towns have no times of day."""
        return [
            (sorted(monitor.instants), monitor.horizon)
            for monitor in self.terms.monitors
            if isinstance(monitor, TimedMonitor)
        ]

    @cached_property
    def times_with_bounds(self) -> frozenset[int]:
        """The designated times with lower bounds."""
        snapshots = (monitor for monitor in self.terms.monitors if isinstance(monitor, AtTimesMonitor))
        bounded = (monitor for monitor in snapshots if monitor.at_least is not None)
        return frozenset(time for monitor in bounded for time in monitor.instants)

    def hash_person(self, person: str) -> bytes:
        """Return the keyed hash of a person id (docs/architecture.md, section 3)."""
        return hashlib.blake2b(person.encode(), key=self.key, person=b"person", digest_size=HASH_BYTES).digest()


def parse_visits(value: bytes | None) -> list[Any]:
    """Return the visits in a record's value, not yet validated.

    Raises:
        RefusedError: the value is not strict JSON in UTF-8, or neither a batch nor a visit, or has several framings.
    """
    text = value or b""
    skipped = 3 if text.startswith(b"\xef\xbb\xbf") else 5 if text.startswith(b"\0") else 0
    try:
        record = json.loads(text[skipped:].decode(), parse_constant=_refuse_number)
    except (ValueError, RecursionError):
        raise RefusedError("not_json") from None
    if not skipped:
        record = _unwrap(record)
    if not isinstance(record, dict) or _is_event(record) or _is_envelope(record):
        raise RefusedError("not_a_visit")
    visits = record.get("visits", [record])
    if not isinstance(visits, list):
        raise RefusedError("not_a_visit")
    return visits


def _unwrap(record: Any) -> Any:
    """Return the content of a CloudEvent, of an envelope of Kafka Connect, or of such an envelope in a CloudEvent."""
    if _is_event(record) and record["specversion"] == "1.0":
        record = record.get("data")
    return record["payload"] if _is_envelope(record) else record


def _is_event(record: Any) -> bool:
    return isinstance(record, dict) and "specversion" in record and not record.keys() & {"person_id", "visits"}


def _is_envelope(record: Any) -> bool:
    return isinstance(record, dict) and record.keys() == {"schema", "payload"}


def _refuse_number(text: str) -> float:
    raise ValueError(f"{text} is not valid JSON")


def make_rules(terms: AuditTerms) -> Rules:
    """Return what decides the fate of a visit under a configuration."""
    grid = terms.grid
    return Rules(grid.origin, grid.slot, terms.default_stay, terms.accept_ahead, terms.max_lead)


def _read_times(visit: Any) -> tuple[int, int | None]:
    """Return arrival and departure of a visit.

    Raises:
        RefusedError: the visit is invalid.
    """
    if not isinstance(visit, dict) or not {"person_id", "location_id", "arrived_at"} <= visit.keys():
        raise RefusedError("not_a_visit")
    if json.dumps(visit.get("__deleted")).strip('"') == "true":  # Debezium writes text, others a boolean
        raise RefusedError("not_a_visit")
    if not all(isinstance(visit[name], str) and is_id(visit[name]) for name in ("person_id", "location_id")):
        raise RefusedError("bad_id")
    try:
        arrived = _read_time(visit["arrived_at"])
        left = None if visit.get("left_at") is None else _read_time(visit["left_at"])
    except (TypeError, ValueError):
        raise RefusedError("bad_time") from None
    if not isinstance(visit.get("consent", False), bool):
        raise RefusedError("bad_consent")
    if left is not None and left < arrived:
        raise RefusedError("left_before_arrived")  # also at an unknown location
    return arrived, left


def _read_time(time: Any) -> int:
    """Return an instant from a text, or from an integer of 16 digits."""
    if type(time) is int and len(str(time)) == 16 and time > 0:
        return time
    return parse_instant(time)
