"""Visits, produced without pause to the real input topic, and remembered with what Kafka acknowledged.

Each location has phases of a few people, so that windows hold one less, as many as, or one more than the threshold:
there a single lost visit is a false "safe". Some reports come late, some people stay on for a while, some visits come
twice, and some are bad, each with a marker of its own.
"""

from __future__ import annotations

import heapq
import itertools
import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kafka.errors import KafkaError

from monitor.connections import KafkaConnections
from monitor.times import MILLISECOND, SECOND, format_instant

TURN_SECONDS: Final = 0.05
PHASE: Final = 7 * SECOND
CROWDS: Final = (0, 1, 2, 2, 3)


@dataclass(frozen=True, slots=True)
class Visit:
    """A good visit; instants in microseconds."""

    person: str
    location: str
    arrived: int
    left: int


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A visit that Kafka acknowledged: the broker's timestamp, and when the acknowledgement came."""

    visit: Visit
    stamped: int
    told: int


@dataclass(frozen=True, slots=True)
class _Report:
    visits: tuple[Visit, ...]
    bad: tuple[str, ...]
    value: bytes


class Traffic:
    """A thread that produces until stopped. `acknowledged` and `bad` (markers) grow as Kafka acknowledges."""

    def __init__(self, connections: KafkaConnections, topic: str, locations: tuple[str, ...], seed: int) -> None:
        self._connections, self._topic, self._locations = connections, topic, locations
        self._random = random.Random(seed)
        self._prefix = f"planted-{seed:08x}"
        self._lock = threading.Lock()
        self._due: list[tuple[int, int, _Report]] = []
        self._order = itertools.count()
        self._number = 0
        self._failed = threading.Event()
        self._producer: Any = None
        self._stop = threading.Event()
        self.quiet = threading.Event()
        self.acknowledged: list[Acknowledged] = []
        self.bad: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)

    @property
    def planted(self) -> str:
        """What every person id begins with."""
        return self._prefix

    def start(self) -> None:
        """Begin to produce."""
        self._thread.start()

    def stop(self) -> None:
        """Produce no more, and wait until the outcome of everything is known."""
        self._stop.set()
        self._thread.join(90)
        if self._thread.is_alive():
            raise AssertionError("the traffic did not end")

    def known(self) -> list[Acknowledged]:
        """What is acknowledged so far."""
        with self._lock:
            return list(self.acknowledged)

    def _run(self) -> None:
        phases: dict[str, int] = {}
        while not self._stop.wait(TURN_SECONDS):
            now = time.time_ns() // 1_000
            for location in self._locations:
                if phases.get(location, 0) <= now:
                    phases[location] = now + self._random.randint(PHASE // 2, PHASE)
                    self._plan(location, now, phases[location])
            self._send_due(now)
        self._close()

    def _plan(self, location: str, now: int, end: int) -> None:
        """One phase: a few new people, each reported once or twice between now and its end."""
        chance = self._random
        for _ in range(chance.choice(CROWDS)):
            self._number += 1
            seen = chance.randint(now, end)
            stay = chance.choice((SECOND, 3 * SECOND, 6 * SECOND))
            ahead = chance.choice((0, 0, 0, 3 * SECOND, 30 * SECOND))
            visit = Visit(f"{self._prefix}-{self._number}", location, seen - stay, seen + ahead)
            for delay in chance.choice(((0,), (0,), (5 * SECOND,), (0, 2 * SECOND))):
                heapq.heappush(self._due, (seen + delay, next(self._order), self._report(visit)))

    def _report(self, visit: Visit) -> _Report:
        times = {"arrived_at": format_instant(visit.arrived), "left_at": format_instant(visit.left)}
        good = {"person_id": visit.person, "location_id": visit.location, **times}
        self._number += 1
        marker = f"{self._prefix}-bad-{self._number}-"
        match self._random.randrange(12):
            case 0:
                value = json.dumps({"visits": [good, {**good, "person_id": marker, "location_id": "nowhere"}]})
                return _Report((visit,), (marker,), value.encode())
            case 1:
                bad = {"person_id": marker, "location_id": visit.location, "arrived_at": "2999-01-01T00:00:00Z"}
                return _Report((visit,), (marker,), json.dumps({"visits": [bad, good]}).encode())
            case 2:
                return _Report((), (marker,), b'{"person_id": "' + marker.encode() + b"\xff")
            case _:
                return _Report((visit,), (), json.dumps(good).encode())

    def _send_due(self, now: int) -> None:
        while self._due and self._due[0][0] <= now:
            _, _, report = heapq.heappop(self._due)
            if not self.quiet.is_set():
                self._send(report)

    def _send(self, report: _Report) -> None:
        """Send, and remember once acknowledged; a producer that failed once is made anew."""
        try:
            if self._failed.is_set():
                self._close()
                self._failed.clear()
            if self._producer is None:
                self._producer = self._connections.producer(delivery_timeout_ms=20_000, metadata_max_age_ms=1_000)
            future = self._producer.send(self._topic, value=report.value)
        except Exception:  # noqa: BLE001  # servers are away on purpose: whatever fails here was not acknowledged
            self._failed.set()
            return
        future.add_callback(self._told(report, time.time_ns() // 1_000))
        future.add_errback(self._refused)

    def _told(self, report: _Report, sent: int) -> Callable[[Any], None]:
        """What to do at the acknowledgement: one of a repeated send has no timestamp, which is not before the send."""

        def told(metadata: Any) -> None:
            now = time.time_ns() // 1_000
            stamped = metadata.timestamp * MILLISECOND if (metadata.timestamp or -1) > 0 else sent
            with self._lock:
                self.acknowledged += [Acknowledged(visit, stamped, now) for visit in report.visits]
                self.bad.update(report.bad)

        return told

    def _refused(self, _error: BaseException) -> None:
        self._failed.set()

    def renew(self) -> None:
        """Forget what was known of the topic: another one has its name now."""
        self._failed.set()

    def _close(self) -> None:
        if self._producer is not None:
            try:
                self._producer.flush(timeout=20)
            except KafkaError:
                self._failed.set()
            self._producer.close(timeout=5)
            self._producer = None
