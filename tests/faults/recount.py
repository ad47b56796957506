"""The expected facts and dead letters of each record of the input topic (docs/interface.md, sections 1 and 4).

It shares no code with the service: `monitor.audit` reads the configuration and the visits. A record that the traffic
broke has the reason that the traffic names.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from monitor.audit.configuration import AuditTerms
from monitor.audit.kinds.at_times import AtTimesMonitor
from monitor.audit.kinds.base.designated_times import TimedMonitor
from monitor.audit.kinds.over_time import OverTimeMonitor
from monitor.audit.kinds.upper_bound import UpperBoundMonitor
from monitor.audit.visits import AcceptedVisit, Line, accept, decode, parse_visits
from tests.faults.bad_records import Letters
from tests.faults.traffic import compute_fingerprint
from tests.kit.town import KEY

WHOLE: Final = "-"
HASH_BYTES: Final = 16
STAMPED: Final = 1  # Kafka's timestamp type of broker timestamps
WINDOW, REPORTS, BUCKET, TIME = "w", "r", "b", "t"
"""The kinds of facts, as in the keys of Redis."""


class DeadLetter(NamedTuple):
    """An expected dead letter: partition and offset of the record, the visit's index in it, and the reason."""

    partition: int
    offset: int
    place: str
    reason: str


class Fact(NamedTuple):
    """A fact: a person (keyed hash) at a row, in its last slot, in the last slot of a bucket, or at an instant.

    `consent`: a second fact of a person who consented to lower bounds.
    """

    kind: str
    at: int
    row: int
    person: bytes
    consent: bool = False


@dataclass
class Fates:
    """The expected dead letters of records, with payloads, and their facts. A visit may have neither."""

    letters: dict[DeadLetter, Any] = field(default_factory=dict)
    facts: set[Fact] = field(default_factory=set)


def is_stamped(record: Any) -> bool:
    """Return whether a broker stamped a record (kafka-python's)."""
    return bool(record.timestamp_type == STAMPED)


def hash_person(person: str) -> bytes:
    """Return the keyed hash of a person id (docs/architecture.md, section 3)."""
    return hashlib.blake2b(person.encode(), key=KEY.encode(), person=b"person", digest_size=HASH_BYTES).digest()


@dataclass(frozen=True)
class Recount:
    """The recount of records by the terms of a configuration. `sent` are the dead letters that the traffic expects."""

    terms: AuditTerms
    sent: Mapping[bytes, Letters]

    def fates(self, record: Any) -> Fates:
        """Return the expected fates of a record's visits. Those of a record that no broker stamped are lost."""
        fates = Fates()
        if not is_stamped(record):
            return fates
        reasons = dict(self.sent.get(compute_fingerprint(record.key, record.value), ()))
        visits = parse_visits(record.value)
        lines = list(decode(record.value, record.timestamp * 1_000, self.terms))
        if visits is None or (WHOLE in reasons and isinstance(lines[0], int)):
            payloads = {WHOLE: record.value or b""}
        else:
            payloads = {str(number): visit for number, visit in enumerate(visits)}
        for (place, payload), line in zip(payloads.items(), lines, strict=True):
            visit = None if isinstance(line, int) else accept(line, 0, self.terms)
            if visit is None or isinstance(line, int):
                reason = self._find_reason(line, reasons.get(place, "the traffic sent it as valid"))
                fates.letters[DeadLetter(record.partition, record.offset, place, reason)] = payload
            else:
                fates.facts.update(self._find_facts(visit, hash_person(line.person)))
        return fates

    def _find_reason(self, line: Line | int, otherwise: str) -> str:
        """Return why a visit is refused; `otherwise` if it is invalid."""
        if isinstance(line, int):
            return otherwise
        return "too_far_ahead" if line.location in self.terms.rows else "unknown_location"

    def _find_facts(self, visit: AcceptedVisit, person: bytes) -> Iterator[Fact]:
        """Yield the facts of a visit for the first tick that counts it, and later ticks."""
        row, stamp = visit.row, visit.current
        if row in self.window and stamp < visit.last + self.window[row]:
            yield Fact(WINDOW, visit.last, row, person)
            if row in self.rows_with_reports:
                yield Fact(REPORTS, visit.last, row, person)
        if row in self.buckets:
            bucket, window = self.buckets[row]
            last = stamp // bucket * bucket + bucket - 1
            if last < visit.last + window:
                yield Fact(BUCKET, last, row, person)
        as_of = self.terms.grid.as_of(stamp)
        for times, horizon in self.times:
            first, end = bisect_left(times, max(visit.arrived, as_of - horizon)), bisect_left(times, visit.left)
            for time in times[first:end]:
                yield Fact(TIME, time, row, person)
                if visit.consent and time in self.times_with_bounds:
                    yield Fact(TIME, time, row, person, consent=True)

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
