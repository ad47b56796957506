"""Visits, produced continuously to the real input topic, and remembered with Kafka's acknowledgements.

Each location has phases of a few people, so that the counts of windows are near the threshold, where a single lost
visit makes a false "safe". Some reports are late, some too late. Some visits are ahead of time, within the max lead and
beyond it. Some are reported twice. Invalid records of every kind come in between.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import json
import random
import threading
import time
import zlib
from dataclasses import dataclass
from typing import Any, Final

from kafka.errors import KafkaError

from monitor.kafka.connections import KafkaConnections
from monitor.time.instants import MILLISECOND, SECOND
from tests.builders import build_visit
from tests.faults.bad_records import Letters, Record, make_bad_records

TURN_SECONDS: Final = 0.05
PHASE: Final = 7 * SECOND
CROWDS: Final = (0, 1, 2, 2, 3)

# A town has F = 1: two slots of two seconds ahead are too far.
PLANNED: Final = (2 * SECOND, 4 * SECOND, 6 * SECOND, 8 * SECOND)
LATE: Final = (5 * SECOND, 9 * SECOND, 13 * SECOND, 60 * SECOND)

# After the end of a slot, before the release of its tick.
AFTER: Final = (5 * MILLISECOND, 600 * MILLISECOND)

# The last visits of a town: from the oldest designated time within its horizon until the cut; left W - 1 slots ago,
# with W = 6 and 4; and expired.
LAST: Final = (
    (-10 * SECOND + 100 * MILLISECOND, 30 * SECOND),
    (-13 * SECOND, -10 * SECOND),
    (-9 * SECOND, -6 * SECOND),
    (-70 * SECOND, -60 * SECOND),
)


@dataclass(frozen=True, slots=True)
class Visit:
    """A valid visit; instants in microseconds."""

    person: str
    location: str
    arrived: int
    left: int


def compute_fingerprint(key: bytes | None, value: bytes | None) -> bytes:
    """Return a hash that identifies a record."""
    return hashlib.sha256(repr((key, hashlib.sha256(value or b"").digest(), value is None)).encode()).digest()


class Traffic:
    """A thread that produces until stopped, and remembers the acknowledged records.

    At the `late` places, people are only reported after the end of a slot (`slot` is its length). `sent` contains, by
    fingerprint, the dead letters that each record must cause, without visits too far ahead, which depend on the
    broker's timestamp.
    """

    def __init__(
        self,
        connections: KafkaConnections,
        topic: str,
        locations: tuple[str, ...],
        seed: int,
        late: tuple[str, ...],
        slot: int,
    ) -> None:
        self._connections, self._topic, self._locations = connections, topic, locations
        self._late, self._slot, self._planned_to = late, slot, 0
        self._random = random.Random(seed)
        self._prefix = f"planted-{seed:08x}"
        self._lock = threading.Lock()
        self._due: list[tuple[int, int, Record]] = []
        self._order = itertools.count()
        self._number = 0
        self._bad = make_bad_records(self._prefix)
        self._failed = threading.Event()
        self._producer: Any = None
        self._stop = threading.Event()
        self.sent: dict[bytes, Letters] = {}
        self._acknowledged: set[bytes] = set()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)

    @property
    def planted(self) -> str:
        """The prefix of every person id and every key."""
        return self._prefix

    @property
    def flows(self) -> bool:
        """Whether the traffic has begun and not ended."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin to produce."""
        self._thread.start()

    def stop(self) -> None:
        """Report the last visits, stop producing, and wait for all acknowledgements."""
        self._stop.set()
        self._thread.join(90)
        if self._thread.is_alive():
            raise AssertionError("the traffic did not end")

    @property
    def acknowledged(self) -> dict[bytes, Letters]:
        """What `sent` has about the records acknowledged so far."""
        with self._lock:
            return {print_: self.sent[print_] for print_ in self._acknowledged}

    def _run(self) -> None:
        phases: dict[str, int] = {}
        while not self._stop.wait(TURN_SECONDS):
            now = time.time_ns() // 1_000
            for location in self._locations:
                if phases.get(location, 0) <= now:
                    phases[location] = now + self._random.randint(PHASE // 2, PHASE)
                    self._plan(location, now, phases[location])
            self._plan_late(now)
            self._send_due(now)
        self._end()
        self._close()

    def _end(self) -> None:
        """Report people at every location just within and just beyond the windows and horizons."""
        now = time.time_ns() // 1_000
        for location in self._locations:
            for arrived, left in LAST:
                self._number += 1
                self._send(self._report(Visit(f"{self._prefix}-{self._number}", location, now + arrived, now + left)))

    def _plan(self, location: str, now: int, end: int) -> None:
        """Plan one phase: a few new people, each reported once or twice before its end, and an invalid record."""
        chance = self._random
        for _ in range(chance.choice(CROWDS)):
            self._number += 1
            seen = chance.randint(now, end)
            stay = chance.choice((SECOND, 3 * SECOND, 6 * SECOND))
            lead = chance.choice((0, 0, 0, 3 * SECOND, 30 * SECOND))
            visit = Visit(f"{self._prefix}-{self._number}", location, seen - stay, seen + lead)
            for delay in chance.choice(((0,), (0,), (0,), (chance.choice(LATE),), (0, 2 * SECOND))):
                self._put(seen + delay, self._report(visit))
        self._number += 1
        seen = chance.randint(now, end)
        planned = seen + chance.choice(PLANNED)
        visit = Visit(f"{self._prefix}-{self._number}", location, planned, planned + chance.choice((SECOND, PHASE)))
        self._put(seen, Record(visit.person.encode(), json.dumps(_to_fields(visit)).encode()))
        self._put(chance.randint(now, end), next(self._bad))

    def _plan_late(self, now: int) -> None:
        """Plan two visits per slot that are reported after its end, within the release delay.

        One is at a `late` place, in turn; one is at any other place.
        """
        as_of = (now // self._slot + 1) * self._slot
        if as_of == self._planned_to:
            return
        self._planned_to = as_of
        for location in (self._late[as_of // self._slot % len(self._late)], self._random.choice(self._locations)):
            self._number += 1
            visit = Visit(f"{self._prefix}-{self._number}", location, as_of - SECOND, as_of - SECOND // 2)
            self._put(as_of + self._random.randint(*AFTER), self._report(visit))

    def _put(self, due: int, report: Record) -> None:
        heapq.heappush(self._due, (due, next(self._order), report))

    def _report(self, visit: Visit) -> Record:
        good = _to_fields(visit)
        self._number += 1
        marker = f"{self._prefix}-bad-sibling-{self._number}"
        key = visit.person.encode()
        match self._random.randrange(12):
            case 0:
                value = json.dumps({"visits": [good, {**good, "person_id": marker, "location_id": "nowhere"}]})
                return Record(key, value.encode(), frozenset({("1", "unknown_location")}))
            case 1:
                bad = {"person_id": marker, "location_id": visit.location, "arrived_at": "2999-01-01T00:00:00Z"}
                value = json.dumps({"batch_id": 5, "visits": [bad, good, marker]})
                letters = frozenset({("0", "too_far_ahead"), ("2", "not_a_visit")})
                return Record(key, value.encode(), letters)
            case 2:
                return Record(key, json.dumps({"schema": None, "payload": good}).encode())
            case 3:
                times = {"arrived_at": visit.arrived, "left_at": visit.left}
                return Record(key, b"\0\0\0\0\7" + json.dumps(good | times).encode())
            case _:
                return Record(key, json.dumps(good).encode())

    def _send_due(self, now: int) -> None:
        while self._due and self._due[0][0] <= now:
            _, _, report = heapq.heappop(self._due)
            self._send(report)

    def _send(self, report: Record) -> None:
        """Send a record, and remember it once acknowledged. A producer that failed is replaced."""
        try:
            if self._failed.is_set():
                self._close()
                self._failed.clear()
            if self._producer is None:
                self._producer = self._connections.create_producer(
                    delivery_timeout_ms=20_000, metadata_max_age_ms=1_000
                )
            print_ = compute_fingerprint(report.key, report.value)
            self.sent[print_] = report.letters
            future = self._producer.send(self._topic, key=report.key, value=report.value)
        except Exception:  # noqa: BLE001  # servers are down on purpose; a failed send was not acknowledged
            self._failed.set()
            return
        future.add_callback(lambda _metadata: self._acknowledge(print_))
        future.add_errback(self._mark_failed)

    def _acknowledge(self, print_: bytes) -> None:
        with self._lock:
            self._acknowledged.add(print_)

    def _mark_failed(self, _error: BaseException) -> None:
        self._failed.set()

    def _close(self) -> None:
        """Flush and close the producer, also if some of its records are never acknowledged."""
        producer, self._producer = self._producer, None
        if producer is not None:
            try:
                producer.flush(timeout=20)
                producer.close(timeout=5)
            except KafkaError:
                self._failed.set()


def consents(person: str) -> bool:
    """Return whether a person consents to lower bounds: half of the people do, in all of their visits."""
    return zlib.crc32(person.encode()) % 2 == 1


def _to_fields(visit: Visit) -> dict[str, str | bool]:
    consent = {"consent": True} if consents(visit.person) else {}
    return build_visit(visit.person, visit.location, visit.arrived, visit.left) | consent
