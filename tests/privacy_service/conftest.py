"""The whole service in memory, its noise enumerated: records → reader → windows → decisions → ledger.

Everything between what is reported and what is published is the service's own code; noise alone is given. What a
tick counts follows from the records without chance, so a stream is told by its readings (`Town.read`); what a tick
publishes, given a reading and the ledger, is a law of exact fractions (`Town.law`). A *cell* is what has a budget: a
location of an `over_time` monitor, or a location at a designated time. Cells draw apart (`test_cells.py` walks all of
them jointly), so a stream's worst ratio Pr[D]/Pr[D'] is the product of its cells' worst ratios (`Town.worst`).

Decisions never see q = e^-ε, only draws, so at a rational q the enumeration is exact: n answers' ε is a ratio of q^-n.
Noisy counts from max(T, people) on are one outcome: beyond it the ratio is the same for each, the law being memoryless.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, cached_property
from typing import Any, Final, NamedTuple, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.ingest.ports import DeadLetter
from monitor.ingest.reader import Reader
from monitor.ingest.source import Fetched, InputLog
from monitor.privacy.over_time import Mark, OverTimeRule
from monitor.public.clock import SteppedClock
from monitor.public.instants import HOUR, MINUTE, SECOND, format_instant, parse_instant
from monitor.public.parameters import AtTimes, HotSpots, OverTime, Parameters, Registry
from monitor.public.schedule import Schedule
from monitor.public.slot_grid import SlotGrid
from monitor.release.decide import Decider, Evidence
from monitor.release.ledger import LedgerRecord
from monitor.release.state import LedgerState
from monitor.windows.facts import COMPLETE_FROM_START, NEVER, Question, Reading
from monitor.windows.hashing import PersonHasher
from tests.windows.memory import MemoryWindows

Q: Final = Fraction(1, 2)
PEOPLE: Final = 2
ORIGIN: Final = parse_instant("2026-01-01T00:00:00Z")
PLACES: Final = ("inn", "mill", "farm")
AT_EPSILON: Final = Fraction(1, 2)
HASHER: Final = PersonHasher(b"0123456789abcdef")

Ratio = Fraction | float
Counts = tuple[int, ...]
"""The counts of one cell, tick by tick."""


class Visit(NamedTuple):
    """One reported visit; times in minutes, slots of 60.

    `moment` is when it is reported: 2c in the first seconds of slot c, so that it is processed before tick c - 1 is
    read; 2c + 1 later in slot c. Tick c is the first that counts it, whichever it is.
    """

    person: str
    place: str
    arrived: int
    left: int | None
    moment: int

    @property
    def first_tick(self) -> int:
        """The first tick that counts the report."""
        return self.moment // 2

    @property
    def first_read(self) -> int:
        """The first tick that is read after the report was processed."""
        return (self.moment - 1) // 2


class Cell(NamedTuple):
    """What has a budget: a location's window (`time` None), or a location at a designated time (its minute)."""

    row: int
    time: int | None = None


HOT: Final = Cell(-1)
"""The draws of hot spots, which are one answer about all locations."""

RANKED: Final = PEOPLE + 1
"""The highest noisy count of hot spots that is looked at; for those beyond, [ADP]'s memoryless law gives the same."""

State = tuple[Mark, ...] | tuple[int, int] | None
"""What the ledger holds of a cell: its marks, or (tick, noisy count) of a designated time."""


@cache
def _visit_text(visit: Visit) -> str:
    told = {
        "person_id": visit.person,
        "location_id": visit.place,
        "arrived_at": format_instant(ORIGIN + visit.arrived * MINUTE),
    }
    if visit.left is not None:
        told["left_at"] = format_instant(ORIGIN + visit.left * MINUTE)
    return json.dumps(told)


def _record(visits: Sequence[Visit]) -> bytes:
    texts = [_visit_text(visit) for visit in visits]
    return (texts[0] if len(texts) == 1 else f'{{"batch_id": "b", "visits": [{", ".join(texts)}]}}').encode()


def _stamp_ms(moment: int) -> int:
    within = 15 * SECOND if moment % 2 == 0 else 45 * MINUTE
    return (ORIGIN + moment // 2 * HOUR + within) // 1_000


@dataclass
class _Letters:
    """Dead letters, kept."""

    letters: list[DeadLetter] = field(default_factory=list)

    def put(self, letters: Sequence[DeadLetter]) -> None:
        self.letters += letters


@dataclass
class Walk:
    """Noise that follows a script of choices and notes what else it might have drawn: a tree is walked by replaying.

    `explored`: the cells whose draws are walked (None: all); the others' draw is the first choice, for nothing.
    """

    town: Town
    tick: int
    states: Mapping[Cell, State]
    explored: frozenset[Cell] | None
    script: tuple[int, ...] = ()
    secure: bool = True
    taken: list[int] = field(default_factory=list)
    alternatives: list[tuple[int, ...]] = field(default_factory=list)
    chance: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        self._asked = [
            [cell for cell in self.town.cells if cell.time == time and self.states.get(cell) is None]
            for time in self.town.live(self.tick)
        ]
        self._reached: list[Cell] | None = None
        self._windows_drawn = False

    def _choose(self, cell: Cell, options: Sequence[tuple[int, Fraction]]) -> int:
        if self.explored is not None and cell not in self.explored:
            return options[0][0]
        depth = len(self.taken)
        chosen = self.script[depth] if depth < len(self.script) else 0
        if depth >= len(self.script):
            self.alternatives += [(*self.taken, other) for other in range(1, len(options))]
        self.taken.append(chosen)
        self.chance *= options[chosen][1]
        return options[chosen][0]

    def geometric(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        """Draws 0 to a cap that stands for all beyond it: for every watched location, those just reached, or all."""
        if not self._windows_drawn:
            self._windows_drawn = True
            cells, unit, cap = self.town.windows, self.town.unit or self.town.answer_epsilon, self.town.cap
        elif self._reached is not None:
            cells, unit, cap = self._reached, AT_EPSILON, self.town.cap - self.town.threshold
            self._reached = None
        else:
            return self._ranked(epsilon, size)
        assert size == len(cells)
        q = _power(epsilon, unit)
        options = [*((draw, (1 - q) * q**draw) for draw in range(cap)), (cap, q**cap)]
        return np.array([self._choose(cell, options) for cell in cells], np.int64)

    def _ranked(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:
        """Hot spots' draws, at all locations: 0 to RANKED, and none beyond."""
        q = _power(epsilon, AT_EPSILON)
        options = [(draw, (1 - q) * q**draw) for draw in range(RANKED + 1)]
        return np.array([self._choose(HOT, options) for _ in range(size)], np.int64)

    def reaches(self, epsilon: Fraction, gaps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether a draw reaches each gap, for the cells of a designated time that are not marked."""
        cells, q = self._asked.pop(0), _power(epsilon, AT_EPSILON)
        chosen = []
        for cell, gap in zip(cells, gaps.tolist(), strict=True):
            options = [(0, 1 - q**gap), (1, q**gap)]
            chosen.append(self._choose(cell, [option for option in options if option[1]]) == 1)
        self._reached = [cell for cell, reached in zip(cells, chosen, strict=True) if reached]
        return np.array(chosen, np.bool_)


def _power(drawn: Fraction, unit: Fraction) -> Fraction:
    """e^-ε of what is drawn, where that of a unit is Q."""
    ratio = drawn / unit
    assert ratio.denominator == 1, "noise is drawn at an ε that nobody booked"
    return Q ** int(ratio)


@dataclass(frozen=True)
class Town:
    """A scheme of three locations, two of them watched, and two designated times, with all that is asked of it.

    `epsilon` is a watched location's ε_l; `unit` is the ε that a ratio of 1/Q stands for (default: that of an answer).
    `remembers`: what a tick leaves behind is all that the ledger tells, not only what runs under the present rule.
    """

    window: int
    max_lead: int
    answers: int
    threshold: int
    times: tuple[int, ...] = (90, 150)
    slots: int = 4
    horizon: int = 2
    epsilon: Fraction = Fraction(1)
    watched: tuple[int, ...] = (0, 1)
    unit: Fraction | None = None
    until: int = 0
    remembers: bool = False
    top: int = 2

    @property
    def answer_epsilon(self) -> Fraction:
        """What one noisy answer of a watched location costs."""
        return self.epsilon / self.answers

    @property
    def cap(self) -> int:
        """Noisy counts from here on are one outcome."""
        return max(self.threshold, PEOPLE)

    @property
    def mark_lifetime(self) -> int:
        """W + F."""
        return self.window + self.max_lead

    @cached_property
    def ticks(self) -> range:
        """All ticks that any visit of the first slots can count at."""
        return range(-1, max(self.until, self.slots - 1 + self.window))

    @property
    def windows(self) -> list[Cell]:
        """The cells of watched locations, in registry order."""
        return [Cell(row) for row in self.watched]

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """All cells, watched locations first."""
        return (*self.windows, *(Cell(row, time) for time in self.times for row in range(3)))

    @cached_property
    def parameters(self) -> Parameters:
        """The service's own description of it; one shard."""
        rule = OverTimeRule(self.epsilon, self.answers, self.threshold, self.window, self.max_lead)
        instants = tuple(ORIGIN + time * MINUTE for time in self.times)
        noon = AtTimes("noon", Schedule(instants), AT_EPSILON, self.threshold, self.horizon * HOUR)
        busiest = HotSpots("busiest", Schedule(instants), AT_EPSILON, self.top, self.horizon * HOUR)
        return Parameters(
            name="town",
            grid=SlotGrid(ORIGIN, HOUR),
            max_lead=self.max_lead,
            default_stay=15 * MINUTE,
            release_delay=30 * SECOND,
            tolerance=SECOND,
            registry=Registry(PLACES, 1),
            over_time=(OverTime("stations", self.watched, (rule,) * len(self.watched)),),
            at_times=(noon,) if self.times else (),
            hot_spots=(busiest,) if self.times else (),
        )

    def live(self, tick: int) -> list[int]:
        """The designated times that a tick evaluates."""
        return [time for time in self.times if time < 60 * (tick + 1) <= time + 60 * self.horizon]

    @cached_property
    def _questions(self) -> dict[int, Question]:
        decider = Decider(self.parameters, [0], Walk(self, 0, {}, None), self.parameters.hot_spots)
        return {tick: decider.questions(tick)[0] for tick in self.ticks}

    def read(self, records: Sequence[Sequence[Visit]], *, twice: bool = False) -> tuple[dict[Cell, Counts], int]:
        """By cell what each tick reads, and how many dead letters there were; `twice`: every batch is written twice.

        The records of one moment are read together, in the order of the moments. The reader's clock stands far off;
        the store's is in the first seconds of the slot after the tick that is read.
        """
        clock = SteppedClock(self.parameters.grid.as_of(self.ticks.start))
        windows, letters = MemoryWindows(self.parameters, clock), _Letters()
        windows.begin(0, 0, COMPLETE_FROM_START)
        far_off = SteppedClock(ORIGIN + 1_000 * HOUR)
        reader = Reader(self.parameters, cast("InputLog", None), windows, HASHER, letters, cast("Any", None), far_off)
        waiting = sorted(records, key=lambda visits: visits[0].moment)
        offset, counts = 0, []
        for tick in self.ticks:
            clock.move_to(self.parameters.grid.as_of(tick))
            due = [visits for visits in waiting if visits[0].first_read == tick]
            if due:
                self._ingest(reader, due, offset, twice=twice)
                offset += len(due)
            question = self._questions[tick]
            reading = windows.read({0: question})[0]
            assert reading.settled
            assert (reading.progress, reading.complete_from, reading.evicted_before) == (
                {0: offset},
                COMPLETE_FROM_START,
                COMPLETE_FROM_START,
            )
            counts.append(self._counted(tick, question, reading))
            windows.open([0], tick + 1)
        found = {cell: tuple(at.get(cell, 0) for at in counts) for cell in self.cells}
        return found, len(letters.letters)

    def _ingest(self, reader: Reader, records: Sequence[Sequence[Visit]], offset: int, *, twice: bool) -> None:
        end = offset + len(records)
        stamps = [_stamp_ms(visits[0].moment) for visits in records]
        fetched = Fetched(0, offset, end, [_record(visits) for visits in records], stamps, range(offset, end))
        batch = reader._prepare([fetched])
        reader._write(batch)
        if twice:
            reader._windows.write(batch.spans, batch.accepted.facts)

    def _counted(self, tick: int, question: Question, reading: Reading) -> dict[Cell, int]:
        counts = {Cell(row): reading.counts[row, first] for row, first in question.windows}
        for time, instant in zip(self.live(tick), question.times, strict=True):
            counts |= {Cell(row, time): count for row, count in enumerate(reading.present[instant].tolist())}
        return counts

    def law(
        self, tick: int, counts: Mapping[Cell, int | None], states: Mapping[Cell, State], *cells: Cell
    ) -> dict[Hashable, tuple[Fraction, Any]]:
        """What the tick publishes: outcome → (chance, the state after it), by these cells' draws (none named: all).

        A count of None is that of an unfinished reading; cells not named have 0 and no marks.
        """
        scripts: list[tuple[int, ...]] = [()]
        law: dict[Hashable, tuple[Fraction, Any]] = {}
        while scripts:
            walk = Walk(self, tick, states, frozenset(cells) or None, scripts.pop())
            outcome, after = self._decide(tick, counts, states, walk)
            scripts += walk.alternatives
            before, known = law.get(outcome, (Fraction(0), after))
            assert known == after, "what is decided later follows from what was published alone"
            law[outcome] = (before + walk.chance, known)
        assert sum(chance for chance, _ in law.values()) == 1
        return law

    def _decide(
        self, tick: int, counts: Mapping[Cell, int | None], states: Mapping[Cell, State], walk: Walk
    ) -> tuple[Hashable, Mapping[Cell, State]]:
        state = self._ledger(states)
        decision = Decider(self.parameters, [0], walk).decide(tick, self._evidence(tick, counts), state)
        state.forget(tick, self.parameters.mark_lifetime, self.parameters.grid.as_of(tick) - (self.horizon + 1) * HOUR)
        taken_over, remembered = LedgerState(), self._ledger(states)
        for record in decision.records:
            taken_over.fold(record, self.parameters.grid)
            remembered.fold(record, self.parameters.grid)
        after, folded = self._told(state), self._told(taken_over)
        assert all(folded[cell] == after[cell] for cell in self.at(tick)), "a new owner knows what this one does"
        said = [part for record in decision.records for part in self._seen(record)]
        self._check_truth(counts, said)
        return tuple(said), self._told(remembered) if self.remembers else after

    def final(self, time: int) -> int:
        """The last tick that evaluates a designated time: hot spots are drawn at it, and at no other."""
        return max(tick for tick in self.ticks if time in self.live(tick))

    def ranked_law(self, time: int, counts: tuple[int, ...] | None) -> dict[Hashable, Fraction]:
        """What is published of the hot spots of a time where so many people are at each location (None: unfinished).

        The outcomes whose noisy counts are RANKED at most, which no draw beyond RANKED makes; each with its chance.
        """
        tick = self.final(time)
        cells = {Cell(row, time): None if counts is None else counts[row] for row in range(len(PLACES))}
        scripts: list[tuple[int, ...]] = [()]
        law: dict[Hashable, Fraction] = {}
        while scripts:
            walk = Walk(self, tick, {}, frozenset({HOT}), scripts.pop())
            decider = Decider(self.parameters, [0], walk, self.parameters.hot_spots)
            (record,) = decider.decide(tick, self._evidence(tick, cells), LedgerState()).records[-1:]
            scripts += walk.alternatives
            value = json.loads(record.value)
            assert (value["kind"], value["time"]) == ("hot_spots", format_instant(ORIGIN + time * MINUTE))
            if all(spot["noisy_count"] <= RANKED for spot in value["hot_spots"]):
                outcome = (record.key, record.value, record.headers, record.timestamp_ms)
                law[outcome] = law.get(outcome, Fraction(0)) + walk.chance
        return law

    def at(self, tick: int) -> list[Cell]:
        """The cells that a tick says something about."""
        live = self.live(tick)
        return [cell for cell in self.cells if cell.time is None or cell.time in live]

    def _ledger(self, states: Mapping[Cell, State]) -> LedgerState:
        ledger = LedgerState()
        for cell, state in states.items():
            if cell.time is None:
                ledger.spend("stations", PLACES[cell.row], cast("tuple[Mark, ...]", state or ()))
            elif state is not None:
                noisy = ledger.noisy.setdefault(("noon", ORIGIN + cell.time * MINUTE), {})
                noisy[PLACES[cell.row]] = cast("tuple[int, int]", state)
        return ledger

    def _told(self, ledger: LedgerState) -> dict[Cell, State]:
        """What a ledger's state holds of each cell; of noisy counts only that they are there: nothing asks for more."""
        told: dict[Cell, State] = {}
        for cell in self.cells:
            if cell.time is None:
                marks = ledger.marks_of("stations", PLACES[cell.row])
                told[cell] = tuple(Mark(mark.tick, self.cap, mark.epsilon, mark.until) for mark in marks)
            else:
                noisy = ledger.noisy.get(("noon", ORIGIN + cell.time * MINUTE), {})
                told[cell] = (noisy[PLACES[cell.row]][0], self.cap) if PLACES[cell.row] in noisy else None
        return told

    def _evidence(self, tick: int, counts: Mapping[Cell, int | None]) -> Evidence:
        question = self._questions[tick]
        windows = {(row, first): counts.get(Cell(row), 0) or 0 for row, first in question.windows}
        present = {
            instant: np.array([counts.get(Cell(row, time), 0) or 0 for row in range(len(PLACES))])
            for time, instant in zip(self.live(tick), question.times, strict=True)
        }
        reading = Reading({}, COMPLETE_FROM_START, COMPLETE_FROM_START, NEVER, 0, windows, present)
        return Evidence({0: reading}, {0: None not in counts.values()})

    def _seen(self, record: LedgerRecord) -> list[tuple[Hashable, Any]]:
        """All that the public sees of a record, as (cell, what is said of it); of no cell: what is said of none."""
        value = json.loads(record.value)
        envelope = (record.key, record.headers, record.timestamp_ms)
        if value["kind"] == "over_time":
            cell = Cell(PLACES.index(value["location_id"]))
            if value["status"] == "noisy_count":
                z = value["noisy_count"]
                gap = z - self.threshold + 1
                assert value.pop("p_value") == math.exp(-float(self.answer_epsilon * gap))
            return [(cell, (envelope, self._capped(value)))]
        time = (parse_instant(value["time"]) - ORIGIN) // MINUTE
        noisy = value.pop("noisy_counts")
        said = [(Cell(row, time), self._capped(noisy.get(place))) for row, place in enumerate(PLACES)]
        return [(None, (envelope, self._capped(value))), *said]

    def _capped(self, value: Any) -> Any:
        if isinstance(value, dict):
            return tuple(
                (key, min(got, self.cap) if key in {"noisy_count", "count_at_most"} else self._capped(got))
                for key, got in value.items()
            )
        return tuple(map(self._capped, value)) if isinstance(value, list) else value

    def _check_truth(self, counts: Mapping[Cell, int | None], said: Sequence[tuple[Hashable, Any]]) -> None:
        """No "safe" of a location with as many people as the threshold, or more, and none on unfinished input."""
        complete = None not in counts.values()
        for cell, told in said:
            if not isinstance(cell, Cell):
                assert complete == (dict(told[1])["status"] == "complete")
                continue
            safe = dict(told[1])["status"] == "safe" if cell.time is None else complete and told is None
            count = counts.get(cell, 0)
            assert not safe or (count is not None and count < self.threshold)

    def worst(self, cell: Cell, counts: Counts, neighbours: Counts) -> Ratio:
        """The worst Pr[D]/Pr[D'] of one cell over all outcomes, each tick unfinished or not as an adversary has it."""
        return _worst(self, cell, self.ticks.start, tuple(zip(counts, neighbours, strict=True)), self._start(cell))

    def _start(self, cell: Cell) -> State:
        return () if cell.time is None else None


@cache
def _cell_law(
    town: Town, cell: Cell, tick: int, count: int | None, state: State
) -> dict[Hashable, tuple[Fraction, State]]:
    law = town.law(tick, {cell: count}, {cell: state}, cell)
    return {outcome: (chance, after[cell]) for outcome, (chance, after) in law.items()}


@cache
def _worst(town: Town, cell: Cell, tick: int, pairs: tuple[tuple[int, int], ...], state: State) -> Ratio:
    if all(one == other for one, other in pairs):
        return Fraction(1)
    rest = pairs[1:]
    ratios: list[Ratio] = []
    for count, neighbour in (pairs[0], (None, None)):
        other = _cell_law(town, cell, tick, neighbour, state)
        for outcome, (chance, after) in _cell_law(town, cell, tick, count, state).items():
            if chance == 0:
                continue
            chance_neighbour, after_neighbour = other.get(outcome, (Fraction(0), after))
            if chance_neighbour == 0:
                return math.inf
            assert after == after_neighbour, "what is decided later follows from what was published alone"
            ratios.append(chance / chance_neighbour * _worst(town, cell, tick + 1, rest, after))
    return max(ratios)


@pytest.fixture(scope="session")
def make_town() -> Callable[..., Town]:
    """Makes towns: `make_town(window=2, ahead=1, answers=1, threshold=2)`."""
    return Town


@pytest.fixture(scope="session")
def visit() -> Callable[..., Visit]:
    """Makes visits: `visit("ann", "inn", 70, 110, 3)`, in minutes and half slots."""
    return Visit


@pytest.fixture(scope="session")
def cell_of() -> Callable[..., Cell]:
    """Makes cells: `cell_of(0)` the inn's window, `cell_of(0, 90)` the inn at 01:30."""
    return Cell
