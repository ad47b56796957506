"""The whole service in memory with enumerated noise: records → reader → windows → decisions → ledger.

Everything between the reports and the published records is the service's own code; only the noise is given. Counts
follow from the records without chance, so the readings (`Town.read`) represent a stream. Given a reading and the
ledger, the records that a tick publishes have a law of exact fractions (`Town.law`). A *cell* has a budget: it is a
location of an `over_time` monitor, or a location at a designated time. Cells draw independently (`test_cells.py`
enumerates them jointly), so the worst ratio Pr[D]/Pr[D'] of a stream is the product of the worst ratios of its cells
(`Town.worst`).

Decisions depend on draws only, never on q = e^-ε. So the enumeration at a rational q is exact, and the ε of n answers
is a ratio of q^-n. Noisy counts from max(T, people) on are one outcome, because the law is memoryless and they have the
same ratio.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, cast

import numpy as np

from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, NEVER, Question, Reading, Since, Stamps
from monitor.kinds.hot_spots.keys_and_parameters import HotSpots
from monitor.kinds.parameters import Parameters
from monitor.ledger.ledger_state import LedgerState
from monitor.privacy.over_time import Mark, OverTimeRule
from monitor.privacy.published_numbers import TimeNumber
from monitor.records.output_records import OutputRecord
from monitor.ticks.collect_answers import Decider
from monitor.time.instants import HOUR, MINUTE, format_instant, parse_instant
from monitor.time.schedule import Schedule
from tests.builders import ORIGIN, build_counts, build_parameters, select, watch
from tests.privacy_service.cells import (
    AT_EPSILON,
    HOT,
    PEOPLE,
    PLACES,
    RANKED,
    Cell,
    Counts,
    Ratio,
    State,
    Visit,
    read_digit,
)
from tests.privacy_service.driving import Driver
from tests.privacy_service.walk import Walk


@dataclass(frozen=True)
class Town:
    """A town of three locations, two of them watched, with two designated times.

    `epsilon` is the ε_l of a watched location. `unit` is the ε of a ratio of 1/Q (default: the ε of an answer).
    `accept_ahead`: how many slots ahead a visit may begin (default: F).
    `remembers`: a tick keeps all marks of the ledger, not only the marks that run under the present rule.
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
    accept_ahead: int | None = None
    answers_per_time: int = 1

    def __hash__(self) -> int:
        """Return a hash of the integer fields, because laws are cached by town and hashing fractions is slow."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.window, self.max_lead, self.answers, self.threshold, self.times, self.watched))

    @property
    def answer_epsilon(self) -> Fraction:
        """The ε of one noisy answer of a watched location."""
        return self.epsilon / self.answers

    @property
    def number_epsilon(self) -> Fraction:
        """The ε of one noisy count about a designated time, which is a ratio of 1/Q."""
        return AT_EPSILON / self.answers_per_time

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
        """All ticks that may count a visit of the first slots."""
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
        """The parameters of the service, with one shard."""
        rule = OverTimeRule(self.epsilon, self.answers, self.threshold, self.window, self.max_lead)
        instants = tuple(ORIGIN + time * MINUTE for time in self.times)
        noon = AtTimes(
            "noon",
            Schedule(instants),
            AT_EPSILON,
            self.threshold,
            self.horizon * HOUR,
            answers=self.answers_per_time,
        )
        busiest = HotSpots("busiest", Schedule(instants), AT_EPSILON, self.top, self.horizon * HOUR)
        return build_parameters(
            PLACES,
            max_lead=self.max_lead,
            accept_ahead=self.accept_ahead,
            over_time=[watch("stations", self.watched, rule)],
            at_times=[noon] if self.times else [],
            hot_spots=[busiest] if self.times else [],
        )

    def live(self, tick: int) -> list[int]:
        """Return the designated times that a tick evaluates."""
        return [time for time in self.times if time < 60 * (tick + 1) <= time + 60 * self.horizon]

    @cached_property
    def _walk(self) -> Walk:
        return Walk(self)

    @cached_property
    def _decider(self) -> Decider:
        return Decider(self.parameters, [0], self._walk)

    @cached_property
    def _ranking(self) -> Decider:
        """A decider that draws the hot spots too."""
        return Decider(self.parameters, [0], self._walk, select(self.parameters, HotSpots))

    @cached_property
    def _questions(self) -> dict[int, Question]:
        ask = self._ranking.build_questions
        return {tick: self._ask_all(tick, ask(tick, LedgerState())[0]) for tick in self.ticks}

    def _ask_all(self, tick: int, question: Question) -> Question:
        """Return the question with the counts since every earlier tick, if several answers per window are allowed."""
        starts, begins = (range(self.ticks.start, tick) if self.answers > 1 else ()), tick - self.window + 1
        return replace(question, since=tuple(Since(begins, since, row) for since in starts for row in self.watched))

    @cached_property
    def _driver(self) -> Driver:
        questions = {tick: (question, self.live(tick)) for tick, question in self._questions.items()}
        return Driver(self.parameters, questions)

    def read(
        self, records: Sequence[Sequence[Visit]], *, twice: bool = False, known: bool = True
    ) -> tuple[dict[Cell, Counts], int]:
        """Return the counts of each tick by cell, and the number of dead letters (see `Driver.read`)."""
        counts, letters = self._driver.read(records, twice=twice, known=known)
        return {cell: tuple(at.get(cell, 0) for at in counts) for cell in self.cells}, letters

    def law(
        self, tick: int, counts: Mapping[Cell, int | None], states: Mapping[Cell, State], *cells: Cell
    ) -> dict[Hashable, tuple[Fraction, Any]]:
        """Return the law of a tick: outcome → (chance, the state after it), by the draws of these cells (default: all).

        A count of None is an incomplete reading. Cells that are not given have count 0 and no marks.
        """
        question = self._decider.build_questions(tick, self._ledger(states))[0]
        evidence = self.evidence(tick, counts, question)
        scripts: list[tuple[int, ...]] = [()]
        law: dict[Hashable, tuple[Fraction, Any]] = {}
        while scripts:
            walk = self._walk
            walk.begin(tick, states, frozenset(cells) or None, scripts.pop())
            outcome, after = self._decide(tick, counts, states, evidence)
            scripts += walk.alternatives
            before, known = law.get(outcome, (Fraction(0), after))
            assert known == after, "the state must follow from the published records alone"
            law[outcome] = (before + walk.chance, known)
        assert sum(chance for chance, _ in law.values()) == 1
        return law

    def _decide(
        self, tick: int, counts: Mapping[Cell, int | None], states: Mapping[Cell, State], evidence: Evidence
    ) -> tuple[Hashable, Mapping[Cell, State]]:
        state = self._ledger(states)
        decision = self._decider.decide(tick, evidence, state)
        state.forget(tick, self.parameters.mark_lifetime, self.parameters.grid.as_of(tick) - (self.horizon + 1) * HOUR)
        taken_over = LedgerState()
        for record in decision.records:
            taken_over.fold(record, self.parameters.grid)
        after, folded = self._states_of(state), self._states_of(taken_over)
        assert all(folded[cell] == after[cell] for cell in self.at(tick)), "a new owner must know the same state"
        parts = [part for record in decision.records for part in self._public_parts(record)]
        self._check_truth(tick, counts, parts)
        return tuple(parts), self._remember(states, decision.records) if self.remembers else after

    def _remember(self, states: Mapping[Cell, State], records: Sequence[OutputRecord]) -> Mapping[Cell, State]:
        """Return the states after these records, with all marks."""
        ledger = self._ledger(states)
        for record in records:
            ledger.fold(record, self.parameters.grid)
        return self._states_of(ledger)

    def final(self, time: int) -> int:
        """Return the last tick that evaluates a designated time, which draws its hot spots."""
        return max(tick for tick in self.ticks if time in self.live(tick))

    def ranked_law(self, time: int, counts: tuple[int, ...] | None) -> dict[Hashable, Fraction]:
        """Return the law of the hot spots of a time with these counts by location (None: an incomplete reading).

        It has the outcomes whose noisy counts are at most RANKED; no draw beyond RANKED results in them.
        """
        tick = self.final(time)
        cells = {Cell(row, time): None if counts is None else counts[row] for row in range(len(PLACES))}
        scripts: list[tuple[int, ...]] = [()]
        law: dict[Hashable, Fraction] = {}
        while scripts:
            walk = self._walk
            walk.begin(tick, {}, frozenset({HOT}), scripts.pop())
            (record,) = self._ranking.decide(tick, self.evidence(tick, cells), LedgerState()).records[-1:]
            scripts += walk.alternatives
            value = json.loads(record.value)
            assert (value["kind"], value["time"]) == ("hot_spots", format_instant(ORIGIN + time * MINUTE))
            if all(spot["noisy_count"] <= RANKED for spot in value["hot_spots"]):
                outcome = (record.key, record.value, record.headers, record.timestamp_ms)
                law[outcome] = law.get(outcome, Fraction(0)) + walk.chance
        return law

    def at(self, tick: int) -> list[Cell]:
        """Return the cells that a tick answers."""
        live = self.live(tick)
        return [cell for cell in self.cells if cell.time is None or cell.time in live]

    def answers_about(self, cell: Cell, tick: int) -> bool:
        """Return whether a tick answers a cell."""
        return cell.row in self.watched if cell.time is None else cell.time in self.live(tick)

    def _ledger(self, states: Mapping[Cell, State]) -> LedgerState:
        ledger = LedgerState()
        for cell, state in states.items():
            if cell.time is None:
                ledger.spend("stations", PLACES[cell.row], cast("tuple[Mark, ...]", state))
            elif state:
                noisy = ledger.times.noisy.setdefault(("noon", ORIGIN + cell.time * MINUTE), {})
                noisy[PLACES[cell.row]] = cast("tuple[TimeNumber, ...]", state)
        return ledger

    def _states_of(self, ledger: LedgerState) -> dict[Cell, State]:
        """Return the state of each cell in a ledger; noisy counts are capped, because nothing depends on them."""
        states: dict[Cell, State] = {}
        for cell in self.cells:
            if cell.time is None:
                marks = ledger.find_marks("stations", PLACES[cell.row])
                states[cell] = tuple(Mark(mark.tick, self.cap, mark.epsilon, mark.until) for mark in marks)
            else:
                noisy = ledger.times.noisy.get(("noon", ORIGIN + cell.time * MINUTE), {})
                numbers = noisy.get(PLACES[cell.row], ())
                states[cell] = tuple(number._replace(noisy_count=self.cap) for number in numbers)
        return states

    def evidence(self, tick: int, counts: Mapping[Cell, int | None], asked: Question | None = None) -> Evidence:
        question = asked or self._questions[tick]
        windows = build_counts(question, lambda row: read_digit(counts.get(Cell(row), 0) or 0, None))
        since = {each: read_digit(counts.get(Cell(each.row), 0) or 0, each.tick) for each in question.since}
        people = {
            instant: [counts.get(Cell(row, time), 0) or 0 for row in range(len(PLACES))]
            for time, instant in zip(self.live(tick), question.times, strict=True)
        }
        present = {at: np.array([read_digit(count, None) for count in of]) for at, of in people.items()}
        stamps = {at: _make_stamps(tick, of) for at, of in people.items() if self.answers_per_time > 1}
        numbers = COMPLETE_FROM_START, COMPLETE_FROM_START, NEVER, 0
        reading = Reading({}, *numbers, windows, present, since=since, stamps=stamps)
        return Evidence({} if None in counts.values() else {0: reading})

    def _public_parts(self, record: OutputRecord) -> list[tuple[Hashable, Any]]:
        """Return the public parts of a record as (cell, part); the cell is None for parts that belong to no cell."""
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
        parts = [(Cell(row, time), self._capped(noisy.get(place))) for row, place in enumerate(PLACES)]
        return [(None, (envelope, self._capped(value))), *parts]

    def _capped(self, value: Any) -> Any:
        if isinstance(value, dict):
            return tuple(
                (key, min(number, self.cap) if key in {"noisy_count", "count_at_most"} else self._capped(number))
                for key, number in value.items()
            )
        return tuple(map(self._capped, value)) if isinstance(value, list) else value

    def _check_truth(self, tick: int, counts: Mapping[Cell, int | None], parts: Sequence[tuple[Hashable, Any]]) -> None:
        """Check that no location with at least `threshold` people, and none with incomplete input, is "safe".

        If the record says since when it counts, these are the people reported since.
        """
        complete = None not in counts.values()
        for cell, part in parts:
            if not isinstance(cell, Cell):
                assert complete == (dict(part[1])["status"] == "complete")
                continue
            since, count = None, counts.get(cell, 0)
            if cell.time is None:
                value = dict(part[1])
                safe = value["status"] == "safe"
            else:
                value = dict(part or ())
                last = dict(value["later"][-1]) if value.get("later") else value
                # Without a number of this tick, a fresh count is below the threshold.
                safe = complete and (not value or ("counted_since" in value and last["tick"] != tick))
            if at := value.get("counted_since"):
                since = self.parameters.grid.find_slot(parse_instant(at)) - 1
            assert not safe or (count is not None and read_digit(count, since) < self.threshold)

    def worst(self, cell: Cell, counts: Counts, neighbours: Counts) -> Ratio:
        """Return the worst ratio of one cell over all outcomes; the adversary chooses which ticks are incomplete."""
        stages = ((self.ticks.start, self),)
        return find_worst(stages, cell, self.ticks.start, tuple(zip(counts, neighbours, strict=True)))


def _make_stamps(tick: int, counts: Sequence[int]) -> Stamps:
    """Return stamps from which the counts of each location since every earlier tick follow."""
    people: list[tuple[int, int]] = []
    for row, count in enumerate(counts):
        since = [*(read_digit(count, start) for start in (None, *range(-1, tick))), 0]
        for stamp, (more, less) in enumerate(pairwise(since), -1):
            people += [(row, stamp)] * (more - less)
    return Stamps(*np.array(people, np.int64).reshape(-1, 2).T)


Stages = tuple[tuple[int, Town], ...]
"""The first tick of each town, in their order: a configuration that changes."""


def find_town(stages: Stages, tick: int) -> Town:
    """Return the town of a tick."""
    return next(town for begins, town in reversed(stages) if begins <= tick)


@cache
def _cell_law(
    town: Town, cell: Cell, tick: int, count: int | None, state: State
) -> dict[Hashable, tuple[Fraction, State]]:
    law = town.law(tick, {cell: count}, {cell: state}, cell)
    return {outcome: (chance, after[cell]) for outcome, (chance, after) in law.items()}


Pairs = tuple[tuple[int, int], ...]
"""The counts of a cell under D and D', by tick."""


def begin_at(stages: Stages, tick: int) -> Stages:
    """Return the stages from a tick on. Changes with the same future are the same then."""
    while len(stages) > 1 and stages[1][0] <= tick:
        stages = stages[1:]
    return ((tick, stages[0][1]), *stages[1:])


def drop_equal_end(pairs: Pairs) -> Pairs:
    """Return the pairs up to the last one that differs."""
    end = len(pairs)
    while end and pairs[end - 1][0] == pairs[end - 1][1]:
        end -= 1
    return pairs[:end]


def find_worst(stages: Stages, cell: Cell, tick: int, pairs: Pairs) -> Ratio:
    """Return the worst ratio of one cell from a tick on, if it has no answers yet."""
    return _worst(begin_at(stages, tick), cell, drop_equal_end(pairs), ())


@cache
def _worst(stages: Stages, cell: Cell, pairs: Pairs, state: State) -> Ratio:
    if not pairs:
        return Fraction(1)
    (tick, town), rest = stages[0], pairs[1:]
    later = begin_at(stages, tick + 1)
    if not town.answers_about(cell, tick):
        return _worst(later, cell, rest, state)
    ratios: list[Ratio] = []
    for count, neighbour in (pairs[0], (None, None)):
        neighbour_law = _cell_law(town, cell, tick, neighbour, state)
        for outcome, (chance, after) in _cell_law(town, cell, tick, count, state).items():
            if chance == 0:
                continue
            chance_neighbour, after_neighbour = neighbour_law.get(outcome, (Fraction(0), after))
            if chance_neighbour == 0:
                return math.inf
            assert after == after_neighbour, "the state must follow from the published records alone"
            ratios.append(chance / chance_neighbour * _worst(later, cell, rest, after))
    return max(ratios)
