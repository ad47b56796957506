"""The service's path from records to published bytes, in memory, over thousands of equal locations.

Locations draw independently. With the same people at each (under different ids), each location is one sample.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby, islice
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from monitor.ingest.accept_visits import accept
from monitor.ingest.decode_visits import decode_records
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, OffsetRange
from monitor.kinds.parameters import Parameters
from monitor.ledger.ledger_state import LedgerState
from monitor.privacy.one_sided_noise import Noise, OneSidedNoise, SystemEntropy
from monitor.privacy.over_time import OverTimeRule
from monitor.records.output_records import OutputRecord
from monitor.store.hashing import PersonHasher
from monitor.store.packing import pack_facts
from monitor.ticks.collect_answers import Decider
from monitor.time.clock import SteppedClock
from monitor.time.instants import HOUR, MINUTE
from monitor.time.schedule import Schedule
from tests.builders import ORIGIN, build_parameters, build_visit, watch
from tests.store.memory import MemoryWindows

VISITS_PER_RECORD: Final = 400
SHARD: Final = 0


class Stay(NamedTuple):
    """Forty minutes of a slot, from minute 10 on, reported in the first seconds of slot `reported`.

    So it is processed before tick reported - 1 is read, and counted from tick `reported` on, while its last slot is in
    the window.
    """

    person: str
    slot: int
    reported: int


class Halved:
    """Wrong noise: half of each draw, so each answer costs 2·ε."""

    secure = True

    def __init__(self) -> None:
        self._noise = OneSidedNoise(SystemEntropy())

    def geometric(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        return self._noise.geometric(epsilon, size) // 2

    def reaches(self, epsilon: Fraction, gaps: NDArray[np.int64]) -> NDArray[np.bool_]:
        return self._noise.reaches(epsilon, 2 * gaps)


@dataclass(frozen=True)
class Shape:
    """The rule of all watched locations, and the number of ticks.

    The designated time has the same ε and threshold. It is the middle of slot 1, evaluated at ticks 1 to 3.
    """

    rule: OverTimeRule
    ticks: int
    answers_per_time: int = 1

    def parameters(self, locations: int, *, watched: bool = True) -> Parameters:
        """Return the parameters, with one shard; if not `watched`, only with the designated time."""
        rule, time = self.rule, ORIGIN + 90 * MINUTE
        windows = [watch("windows", range(locations), rule)] if watched else []
        noon = AtTimes("noon", Schedule((time,)), rule.epsilon, rule.threshold, 3 * HOUR, answers=self.answers_per_time)
        return build_parameters(locations, max_lead=rule.max_lead, over_time=windows, at_times=[noon])


@dataclass(frozen=True)
class Published:
    """How often each outcome occurred: for a window a word with one letter per tick, for the time each (tick, class).

    Letters are those of `letter`. The outcome of the designated time is None if nothing was published.
    """

    windows: Counter[Hashable]
    noon: Counter[Hashable]


class _Number(msgspec.Struct):
    """A noisy count about the time, and the next ones."""

    tick: int
    noisy_count: int
    later: tuple[_Number, ...] = ()


class _Answer(msgspec.Struct):
    """The parts of an answer that an outsider reads."""

    kind: str
    status: str
    location_id: str = ""
    noisy_count: int = -1
    noisy_counts: dict[str, _Number] = {}


def letter(status: str, noisy_count: int, threshold: int) -> str:
    """Return the status's first letter, or for a noisy count its distance above the threshold: 0, 1, 2 (or more)."""
    return str(min(noisy_count - threshold, 2)) if status == "noisy_count" else status[0]


def publish(
    shape: Shape, stays: Sequence[Stay], locations: int, noise: Noise | None = None, *, watched: bool = True
) -> Published:
    """Report the same stays at every location, decide every tick, and return the published outcomes."""
    parameters = shape.parameters(locations, watched=watched)
    clock = SteppedClock(ORIGIN)
    windows = MemoryWindows(parameters, clock)
    windows.begin(0, 0, COMPLETE_FROM_START)
    decider = Decider(parameters, [SHARD], noise or OneSidedNoise(SystemEntropy()))
    state, outcomes, offset = LedgerState(), _Outcomes(shape.rule.threshold), 0
    for tick in range(shape.ticks):
        clock.move_to(parameters.grid.as_of(tick) + parameters.release_delay // 2)
        values = list(_records([stay for stay in stays if max(stay.reported - 1, 0) == tick], locations))
        _ingest(parameters, windows, values, offset)
        offset += len(values)
        questions = {
            shard: replace(question, tick=tick) for shard, question in decider.build_questions(tick, state).items()
        }
        readings = windows.read(questions)
        assert readings[SHARD].settled
        evidence = Evidence(readings)
        for record in decider.decide(tick, evidence, state).records:
            outcomes.add(record)
    return outcomes.count(parameters)


def _ingest(parameters: Parameters, windows: MemoryWindows, values: list[tuple[int, bytes]], offset: int) -> None:
    columns = decode_records(parameters, [value for _reported, value in values])
    current = np.array([reported for reported, _value in values], np.int64)
    accepted = accept(parameters, PersonHasher(b"0123456789abcdef"), columns, current)
    assert accepted.fates["dead_letter"] == 0
    windows.write([OffsetRange(0, offset, offset + len(values))], pack_facts(accepted.facts, parameters.registry.shard))


def _records(stays: Sequence[Stay], locations: int) -> Iterator[tuple[int, bytes]]:
    """Return batches of visits, each with the slot of its broker timestamp."""
    for reported, group in groupby(sorted(stays, key=lambda stay: stay.reported), key=lambda stay: stay.reported):
        visits = (_visit(stay, n) for stay in list(group) for n in range(locations))
        while batch := list(islice(visits, VISITS_PER_RECORD)):
            yield reported, json.dumps({"visits": batch}).encode()


def _visit(stay: Stay, location: int) -> dict[str, str]:
    arrived = ORIGIN + stay.slot * HOUR + 10 * MINUTE
    return build_visit(f"{stay.person}-{location}", f"place-{location}", arrived, arrived + 40 * MINUTE)


class _Outcomes:
    """The published answers by location, as an outsider collects them."""

    def __init__(self, threshold: int) -> None:
        self._threshold = threshold
        self._words: dict[str, str] = {}
        self._numbers: dict[str, tuple[tuple[int, str], ...]] = {}
        self._read = msgspec.json.Decoder(_Answer).decode

    def add(self, record: OutputRecord) -> None:
        value = self._read(record.value)
        if value.kind == "over_time":
            following = letter(value.status, value.noisy_count, self._threshold)
            self._words[value.location_id] = self._words.get(value.location_id, "") + following
            return
        assert value.status == "complete"
        for location, first in value.noisy_counts.items():
            numbers = ((one.tick, one.noisy_count) for one in (first, *first.later))
            self._numbers[location] = tuple(
                (at, letter("noisy_count", noisy, self._threshold)) for at, noisy in numbers
            )

    def count(self, parameters: Parameters) -> Published:
        places = parameters.registry.ids
        return Published(
            Counter(self._words.get(place) for place in places), Counter(self._numbers.get(place) for place in places)
        )
