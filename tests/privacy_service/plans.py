"""The explored plans: a log of a few records, parameters for three places, and the possible faults."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from itertools import product
from typing import Final, NamedTuple

from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.hot_spots.keys_and_parameters import HotSpots
from monitor.kinds.parameters import Parameters
from monitor.privacy.over_time import OverTimeRule
from monitor.time.instants import HOUR, MINUTE, SECOND
from monitor.time.schedule import Schedule
from tests.builders import ORIGIN, build_parameters, build_visit, watch
from tests.kit.recount import Rules

PLACES: Final = ("inn", "mill", "farm")  # with two shards, inn is in one, mill and farm are in the other
TIME: Final = 90
"""The designated time, in minutes: the middle of slot 1, evaluated at three ticks."""
RANKED: Final = 30
"""The designated time of the hot spots: the middle of slot 0, final at tick 0."""

Counts = Mapping[tuple[str, int | None], int]
"""People by (place, None) for a window, and by (place, designated time in minutes)."""


class Entry(NamedTuple):
    """A record of one visit (in minutes), with the slot of its stamp and the moment at which it is in the log.

    A moment is an index of `Plan.moments`.
    """

    person: str
    place: str
    arrived: int
    left: int
    stamp: int
    moment: int


@dataclass(frozen=True)
class Plan:
    """The log by input partition, the parameters, the moments (slot, seconds), and the possible faults.

    `faults` is the maximum number of each of crash, zombie, flush, failover and takeover. `readers` are the partitions
    of each reader; two readers may have the same one. With `ranked`, the owner of the first ledger partition also
    answers hot spots of all shards. With `answers` ≥ 2, counts since every earlier tick are read, also about the time.
    With `real`, the
    clock is that of the servers.
    """

    log: tuple[tuple[Entry, ...], ...]
    moments: tuple[tuple[int, int], ...]
    window: int = 1
    max_lead: int = 0
    shards: int = 1
    ledger_partitions: int = 1
    ranked: bool = False
    answers: int = 1
    readers: tuple[tuple[int, ...], ...] = ((0,),)
    faults: tuple[tuple[str, int], ...] = ()

    def without(self, gone: Iterable[Entry]) -> Plan:
        """Return the plan without some records."""
        lacking = list(gone)
        return replace(self, log=tuple(tuple(entry for entry in part if entry not in lacking) for part in self.log))

    def neighbours(self) -> Iterator[tuple[str, Plan]]:
        """Return for each person the plans without some or all of the person's records."""
        for person in sorted({entry.person for part in self.log for entry in part}):
            theirs = [entry for part in self.log for entry in part if entry.person == person]
            for chosen in product((False, True), repeat=len(theirs)):
                if any(chosen):
                    yield person, self.without(entry for entry, gone in zip(theirs, chosen, strict=True) if gone)

    @cached_property
    def parameters(self) -> Parameters:
        """The parameters of the service."""
        rule = OverTimeRule(Fraction(1), self.answers, 1, self.window, self.max_lead)
        times, ranked = (Schedule((ORIGIN + time * MINUTE,)) for time in (TIME, RANKED))
        return build_parameters(
            PLACES,
            shards=self.shards,
            max_lead=self.max_lead,
            over_time=[watch("stations", (0, 1), rule)],
            at_times=[AtTimes("noon", times, Fraction(1), 1, 3 * HOUR, answers=self.answers)],
            hot_spots=[HotSpots("busiest", ranked, Fraction(1), 1, HOUR)] if self.ranked else [],
        )

    def instant(self, moment: int) -> int:
        """Return the instant of a moment."""
        slot, seconds = self.moments[moment]
        return self.parameters.grid.start(slot) + seconds * SECOND

    def counts(self, tick: int, since: int | None = None) -> Counts:
        """Return the counts of a tick by the definitions: accepted visits of records stamped up to slot `tick`.

        `since`: of the counts of `over_time` and `at_times`, only records stamped after this slot count.
        """
        rules = Rules(0, 60, 15, self.max_lead, self.max_lead)  # in minutes
        people: dict[tuple[str, int | None], set[str]] = {}
        for entry in (entry for part in self.log for entry in part):
            counted = rules.accept(entry.arrived, entry.left, 60 * entry.stamp)
            if counted is None:
                continue
            reported = since is None or entry.stamp > since
            if entry.place in PLACES[:2] and reported and counted.in_window(tick, self.window):
                people.setdefault((entry.place, None), set()).add(entry.person)
            for time, horizon in ((TIME, 180), (RANKED, 60)):
                if counted.covers(time, tick, horizon) and reported:
                    people.setdefault((entry.place, time), set()).add(entry.person)
        return {cell: len(present) for cell, present in people.items()}


def log_end(plan: Plan, partition: int, now: int) -> int:
    """Return how many records of a partition are in the log."""
    there = [plan.instant(entry.moment) <= now for entry in plan.log[partition]]
    return there.index(False) if False in there else len(there)


@cache
def value_of(entry: Entry) -> bytes:
    """Return the value of the record."""
    times = (ORIGIN + minutes * MINUTE for minutes in (entry.arrived, entry.left))
    return json.dumps(build_visit(entry.person, entry.place, *times)).encode()
