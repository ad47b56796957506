"""A walk over kills and outages: a tick is lost if and only if no instance could decide it.

A tick can be decided during the slot after it, its next slot. Each fault begins a second before a slot, and ends when
the next slot has begun.

A tick must be lost if, during its whole next slot, no instance ran or the broker was away. A tick must be decided if
its next slot contains `ENOUGH_SECONDS` in one piece in which an instance ran and the broker answered. After a kill -9
of one of two instances, this counts only from the end of the session timeout (6 s) on: until then Kafka leaves the
partitions to the killed instance.

Redis may be away at any time. Without Redis the answers are "unknown", but no tick is lost. Only an instance that
starts needs Redis, so the walk starts instances only while Redis answers.

Ticks between the two cases may be lost or decided, for example if a loaded machine restarts the broker slowly.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

import pytest

from monitor.operate.servers import EmbeddedKafka, EmbeddedValkey
from monitor.time.instants import MINUTE, SECOND, parse_instant
from tests.faults.test_walk import choose_seed
from tests.faults.town import FaultTown, Shape
from tests.kit.processes import Instance
from tests.kit.topics import read_topic
from tests.kit.town import over_time
from tests.kit.waiting import until
from tests.shared_kafka import SharedKafka

SLOT: Final = 15 * SECOND
SESSION: Final = 6 * SECOND
ENOUGH_SECONDS: Final = 9
EARLY: Final = SECOND  # how long before a slot its faults begin
PARTITIONS: Final = (0, 1)
FAULTS: Final = ("all killed", "one killed", "broker hangs", "broker killed")
STARTS_AFTER: Final = ("all killed", "one killed")  # the faults after which instances start
STORE_FAULTS: Final = ("hangs", "killed")

LOST: Final = re.compile(r"ledger partition (\d): the ticks of (\S+) to (\S+) are lost \((\d+)\): (.+)")
LOST_METRIC: Final = re.compile(r'^location_monitor_lost_ticks_total\{partition="(\d)"\} (\S+)$', re.MULTILINE)

_CHANGES: Final = {
    "clock": {"slot": "15s", "origin": "2026-01-01T00:00:00Z", "release_delay": "2s", "tolerance": "100ms"},
    "visits": {"default_stay": "1s", "accept_ahead": "15s", "person_key_file": "person.key"},
    "privacy": {"epsilon": "100000", "period": "5m"},
    "monitors": [over_time("edges", [f"edge-{number}" for number in range(6)], 4, "45s")],
}


class Fate(Enum):
    """The required fate of a tick. `OPEN`: both fates are correct."""

    LOST = "lost"
    DECIDED = "decided"
    OPEN = "lost or decided"


@dataclass(frozen=True, slots=True)
class Absence:
    """A time without an instance or a broker, in instants.

    It began between `leaving` and `left`, and ended between `returning` and `returned`. If one of several instances is
    killed, its partitions may remain undecided for a while, or another instance decides them: `complete` is then false.
    """

    leaving: int
    left: int
    returning: int
    returned: int
    complete: bool = True


def find_fate(next_slot: tuple[int, int], absences: Iterable[Absence], enough: int) -> Fate:
    """Return the fate of a tick, given the start and the end of its next slot.

    It must be lost if one complete absence covers that slot, and must be decided if the slot has a piece of at least
    `enough` microseconds outside all absences.
    """
    start, end = next_slot
    absences = sorted(absences, key=lambda absence: absence.leaving)
    if any(absence.complete and absence.left <= start and end <= absence.returning for absence in absences):
        return Fate.LOST
    free_from, longest = start, 0
    for absence in absences:
        longest = max(longest, min(absence.leaving, end) - free_from)
        free_from = max(free_from, absence.returned)
    return Fate.DECIDED if max(longest, end - free_from) >= enough else Fate.OPEN


def draw_walk(seed: int, kinds: int) -> list[tuple[str, str]]:
    """Return the fault of each slot and the fault of Redis in it. Empty: no fault.

    `kinds` faults come once each, in a random order, and each is followed by a slot without one. Redis is there
    whenever instances start, which is at the beginning of the slot after a kill.
    """
    chance = random.Random(seed)
    faults = chance.sample(FAULTS, kinds)
    slots = [slot for fault in faults for slot in (fault, "")]
    free = [number for number in range(len(slots)) if number == 0 or slots[number - 1] not in STARTS_AFTER]
    more = chance.choices(("", *STORE_FAULTS), k=len(slots))
    stores = [""] * len(slots)
    for number, fault in zip(chance.sample(free, len(free)), (*STORE_FAULTS, "", *more), strict=False):
        stores[number] = fault
    return list(zip(slots, stores, strict=True))


class Walk:
    """The servers and instances of a walk, and the times at which nobody could decide a tick."""

    def __init__(self, town: FaultTown, kafka: EmbeddedKafka, store: EmbeddedValkey) -> None:
        self.town, self.kafka, self.store = town, kafka, store
        self.grid = town.settings.parameters.grid
        self.absences: list[Absence] = []
        self._left: tuple[str, int, int] | None = None
        self._store_fault = ""

    @property
    def running(self) -> list[Instance]:
        return [instance for instance in self.town.instances if instance.code is None]

    def start_two(self) -> None:
        """Start instances until two run."""
        for _ in range(2 - len(self.running)):
            self.town.start("--session-ms", str(SESSION // 1_000))

    def run(self, slots: list[tuple[str, str]]) -> int:
        """Apply the faults of the slots, from the next slot on. Return the first slot after them.

        If the broker restarts so slowly that the slot may be too short for its tick, the next fault waits for a slot.
        """
        number = self.grid.find_slot(now() + 2 * EARLY)
        for fault, store_fault in [*slots, ("", "")]:
            number += 1
            sleep_until(self.grid.start(number) - EARLY)
            self._begin_store_fault(store_fault)
            self._begin(fault)
            sleep_until(self.grid.start(number))
            self._end_store_fault(store_fault)
            back = self._end() if not fault else 0
            while back > self.grid.start(number + 1) - EARLY - ENOUGH_SECONDS * SECOND:
                number += 1
        return number

    def _begin(self, fault: str) -> None:
        leaving = now()
        if fault == "broker hangs":
            self.kafka.pause()
        elif fault == "broker killed":
            self.kafka.kill()
        elif fault:
            for instance in self.running[: 1 if fault == "one killed" else None]:
                instance.kill()
        if fault:
            self._left = fault, leaving, now()

    def _end(self) -> int:
        """End the present fault, if any, and return when the servers and instances are back."""
        if self._left is None:
            return 0
        (fault, leaving, left), self._left = self._left, None
        returning = now()
        if fault == "broker hangs":
            self.kafka.resume()
        elif fault == "broker killed":
            self.kafka.restart()
        else:
            self.start_two()
        if fault == "one killed":
            self.absences.append(Absence(leaving, left, left, left + SESSION, complete=False))
        else:
            self.absences.append(Absence(leaving, left, returning, now()))
        print(f"{fault}: {(now() - leaving) / SECOND:.1f} s", flush=True)
        return now()

    def _begin_store_fault(self, fault: str) -> None:
        """Pause or kill Redis. If it has been away since the slot before, leave it as it is."""
        if fault and not self._store_fault:
            self._store_fault = fault
            (self.store.pause if fault == "hangs" else self.store.kill)()

    def _end_store_fault(self, fault: str) -> None:
        """Bring Redis back, unless it stays away in this slot too."""
        if self._store_fault and not fault:
            (self.store.resume if self._store_fault == "hangs" else self.store.restart)()
            self._store_fault = ""

    def fate(self, tick: int) -> Fate:
        """Return the required fate of a tick."""
        return find_fate((self.grid.as_of(tick), self.grid.as_of(tick + 1)), self.absences, ENOUGH_SECONDS * SECOND)

    def decided_ticks(self) -> dict[int, set[int]]:
        """Return the ticks in the ledger, by partition."""
        ticks: dict[int, set[int]] = {partition: set() for partition in PARTITIONS}
        for record in read_topic(self.town.servers, self.town.topics.alerts, "read_committed"):
            value = json.loads(record.value)
            if value.get("kind") == "over_time":
                ticks[record.partition].add(value["tick"])
        return ticks

    def logged_losses(self) -> dict[int, Counter[int]]:
        """Return how often each tick was logged as lost, by partition. The number in each message must be correct."""
        losses: dict[int, Counter[int]] = {partition: Counter() for partition in PARTITIONS}
        for instance in self.town.instances:
            for partition, first, last, number, reason in LOST.findall(instance.text):
                ticks = range(self.grid.find_slot(parse_instant(first)) - 1, self.grid.find_slot(parse_instant(last)))
                assert len(ticks) == int(number)
                assert reason
                losses[int(partition)].update(ticks)
        return losses

    def counted_losses(self) -> dict[int, int]:
        """Return the sum of the lost ticks that all instances have counted, by partition, as of their ends."""
        counted = dict.fromkeys(PARTITIONS, 0)
        for instance in self.town.instances:
            values = LOST_METRIC.findall(instance.pages.read_text())
            last = {int(partition): int(float(value)) for partition, value in values}
            for partition, ticks in last.items():
                counted[partition] += ticks
        return counted


def now() -> int:
    """Return the present instant."""
    return time.time_ns() // 1_000


def sleep_until(instant: int) -> None:
    """Wait for an instant: the times of the faults are part of the walk."""
    time.sleep(max(0, instant - now()) / SECOND)


@pytest.fixture
def walk(kafka: SharedKafka, valkey: EmbeddedValkey, tmp_path: Path) -> Iterator[Walk]:
    """A walk on separate servers, with two instances that have decided a tick."""
    seed = choose_seed()
    print(f"seed {seed}")
    with EmbeddedKafka() as broker, EmbeddedValkey() as store:
        shape = Shape(changes=_CHANGES)
        town = FaultTown(tmp_path / "town", f"town-{seed:08x}", (broker.bootstrap_servers, store.url), shape, seed)
        town.create()
        walk = Walk(town, broker, store)
        try:
            walk.start_two()
            until(lambda: all(walk.decided_ticks().values()), 60, "both partitions have a tick")
            yield walk
        finally:
            town.end()


def judge(walk: Walk, last: int) -> Counter[Fate]:
    """Check all ticks up to `last`. Return the number of ticks by required fate."""
    for instance in walk.running:
        assert instance.terminate() == 0
    decided = walk.decided_ticks()
    fates: Counter[Fate] = Counter()
    for partition, ticks in decided.items():
        for tick in range(min(ticks), last + 1):
            fate = walk.fate(tick)
            fates[fate] += 1
            was = Fate.DECIDED if tick in ticks else Fate.LOST
            assert fate in (was, Fate.OPEN), f"ledger partition {partition}: tick {tick} was {was.value}"
    missing = {partition: set(range(min(ticks), last + 1)) - ticks for partition, ticks in decided.items()}
    assert walk.logged_losses() == {partition: Counter(ticks) for partition, ticks in missing.items()}
    assert walk.counted_losses() == {partition: len(ticks) for partition, ticks in missing.items()}
    return fates


@pytest.mark.promise(40)
def test_lost_ticks_of_faults(walk: Walk) -> None:
    """A tick is lost, and counted once, if and only if no instance could decide it during the whole next slot.

    Two kinds of faults are drawn. `make soak` walks over all of them.

    slot        t    t + 1   t + 2   t + 3
    fault            ×               (from a second before the slot until the next slot has begun)
    lost        t                    (tick t + 1 is decided in t + 2)
    """
    slots = draw_walk(walk.town.seed, 2)
    fates = judge(walk, walk.run(slots) - 2)
    print(f"{fates}", flush=True)
    assert fates[Fate.LOST] == len(PARTITIONS) * sum(fault not in ("", "one killed") for fault, _ in slots)
    assert fates[Fate.DECIDED] > 0


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_lost_ticks_of_faults_for_hours(walk: Walk) -> None:
    """A tick is lost, and counted once, only as stated, after faults for FAULTS_SOAK_MINUTES (default 120)."""
    end = now() + MINUTE * int(os.environ.get("FAULTS_SOAK_MINUTES", "120"))
    seed = walk.town.seed
    while now() < end:
        after = walk.run(draw_walk(seed, len(FAULTS)))
        seed += 1
    assert judge(walk, after - 2)[Fate.LOST] > 0
