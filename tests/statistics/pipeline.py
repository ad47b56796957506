"""The service's own way from records to published bytes, in memory, over thousands of locations that are alike.

Locations draw apart, so with the same people at each (under ids of their own) one run is as many samples.
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

from monitor.ingest.accept import accept
from monitor.ingest.decode import decode_records
from monitor.privacy.noise import Noise, OneSidedNoise, SystemEntropy
from monitor.privacy.over_time import OverTimeRule
from monitor.public.clock import SteppedClock
from monitor.public.instants import HOUR, MINUTE, SECOND, format_instant, parse_instant
from monitor.public.parameters import AtTimes, OverTime, Parameters, Registry
from monitor.public.schedule import Schedule
from monitor.public.slot_grid import SlotGrid
from monitor.release.decide import Decider, Evidence
from monitor.release.ledger import LedgerRecord
from monitor.release.state import LedgerState
from monitor.windows.facts import COMPLETE_FROM_START, Span
from monitor.windows.hashing import PersonHasher
from tests.windows.memory import MemoryWindows

ORIGIN: Final = parse_instant("2026-01-01T00:00:00Z")
VISITS_PER_RECORD: Final = 400
SHARD: Final = 0


class Stay(NamedTuple):
    """Forty minutes of a slot, from minute 10 on, reported in the first seconds of slot `told`.

    So it is read before tick told - 1, and counted from tick told on, if its last slot is in that tick's window.
    """

    person: str
    slot: int
    told: int


class Halved:
    """Noise as it must not be: half of what was drawn, so that each answer costs 2·ε."""

    secure = True

    def __init__(self) -> None:
        self._noise = OneSidedNoise(SystemEntropy())

    def geometric(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        return self._noise.geometric(epsilon, size) // 2

    def reaches(self, epsilon: Fraction, gaps: NDArray[np.int64]) -> NDArray[np.bool_]:
        return self._noise.reaches(epsilon, 2 * gaps)


@dataclass(frozen=True)
class Shape:
    """What all locations have in common: the rule of the watched ones, and how many ticks are published.

    The same ε and threshold hold for the designated time, half past in slot 1, asked about at ticks 1 to 3.
    """

    rule: OverTimeRule
    ticks: int

    def parameters(self, locations: int, *, watched: bool = True) -> Parameters:
        """All of it, in one shard; `watched`: with windows, not the designated time alone."""
        rule, time = self.rule, ORIGIN + 90 * MINUTE
        return Parameters(
            name="town",
            grid=SlotGrid(ORIGIN, HOUR),
            max_lead=rule.max_lead,
            default_stay=15 * MINUTE,
            release_delay=30 * SECOND,
            tolerance=SECOND,
            registry=Registry(tuple(f"place-{n}" for n in range(locations)), 1),
            over_time=(OverTime("windows", tuple(range(locations)), (rule,) * locations),) if watched else (),
            at_times=(AtTimes("noon", Schedule((time,)), rule.epsilon, rule.threshold, 3 * HOUR),),
        )


@dataclass(frozen=True)
class Published:
    """How often each outcome came: of a window, a word of one letter a tick; of the designated time, (tick, class).

    Letters are those of `letter`; an outcome of the designated time is None where nothing was ever published.
    """

    windows: Counter[Hashable]
    noon: Counter[Hashable]


class _Said(msgspec.Struct):
    """What an outsider reads of an answer."""

    kind: str
    status: str
    location_id: str = ""
    noisy_count: int = -1
    noisy_counts: dict[str, dict[str, int]] = {}


def letter(status: str, noisy_count: int, threshold: int) -> str:
    """The status's first letter; of a noisy count how far it lies above the threshold: 0, 1, 2 (or more)."""
    return str(min(noisy_count - threshold, 2)) if status == "noisy_count" else status[0]


def publish(
    shape: Shape, stays: Sequence[Stay], locations: int, noise: Noise | None = None, *, watched: bool = True
) -> Published:
    """Report the same stays at every location, decide every tick, and read what was published."""
    parameters = shape.parameters(locations, watched=watched)
    clock = SteppedClock(ORIGIN)
    windows = MemoryWindows(parameters, clock)
    windows.begin(0, 0, COMPLETE_FROM_START)
    decider = Decider(parameters, [SHARD], noise or OneSidedNoise(SystemEntropy()))
    state, outcomes, offset = LedgerState(), _Outcomes(shape.rule.threshold), 0
    for tick in range(shape.ticks):
        clock.move_to(parameters.grid.as_of(tick) + parameters.release_delay // 2)
        values = list(_records([stay for stay in stays if max(stay.told - 1, 0) == tick], locations))
        _ingest(parameters, windows, values, offset)
        offset += len(values)
        asked = {shard: replace(question, tick=tick) for shard, question in decider.questions(tick).items()}
        readings = windows.read(asked)
        assert readings[SHARD].settled
        evidence = Evidence(readings, {SHARD: True})
        for record in decider.decide(tick, evidence, state).records:
            outcomes.add(tick, record)
    return outcomes.counted(parameters)


def _ingest(parameters: Parameters, windows: MemoryWindows, values: list[tuple[int, bytes]], offset: int) -> None:
    columns = decode_records([value for _told, value in values], parameters.default_stay)
    current = np.array([told for told, _value in values], np.int64)
    accepted = accept(parameters, PersonHasher(b"0123456789abcdef"), columns, current)
    assert accepted.fates["dead_letter"] == 0
    windows.write([Span(0, offset, offset + len(values))], accepted.facts)


def _records(stays: Sequence[Stay], locations: int) -> Iterator[tuple[int, bytes]]:
    """Batches of visits, each with the slot of its broker timestamp."""
    for told, those in groupby(sorted(stays, key=lambda stay: stay.told), key=lambda stay: stay.told):
        visits = (_visit(stay, n) for stay in list(those) for n in range(locations))
        while batch := list(islice(visits, VISITS_PER_RECORD)):
            yield told, json.dumps({"visits": batch}).encode()


def _visit(stay: Stay, location: int) -> dict[str, str]:
    arrived = ORIGIN + stay.slot * HOUR + 10 * MINUTE
    return {
        "person_id": f"{stay.person}-{location}",
        "location_id": f"place-{location}",
        "arrived_at": format_instant(arrived),
        "left_at": format_instant(arrived + 40 * MINUTE),
    }


class _Outcomes:
    """What was published, by location, as an outsider gathers it."""

    def __init__(self, threshold: int) -> None:
        self._threshold = threshold
        self._words: dict[str, str] = {}
        self._marked: dict[str, tuple[int, str]] = {}
        self._read = msgspec.json.Decoder(_Said).decode

    def add(self, tick: int, record: LedgerRecord) -> None:
        said = self._read(record.value)
        if said.kind == "over_time":
            added = letter(said.status, said.noisy_count, self._threshold)
            self._words[said.location_id] = self._words.get(said.location_id, "") + added
            return
        assert said.status == "complete"
        for location, answer in said.noisy_counts.items():
            self._marked.setdefault(location, (tick, letter("noisy_count", answer["noisy_count"], self._threshold)))

    def counted(self, parameters: Parameters) -> Published:
        places = parameters.registry.ids
        return Published(
            Counter(self._words.get(place) for place in places), Counter(self._marked.get(place) for place in places)
        )
