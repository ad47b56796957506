"""Decide the ticks of an `over_time` monitor: counts, marks and noise become answers (Algorithm 3)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from monitor.kinds.answer_state import AnswerState, SignedMark
from monitor.kinds.base.decider import MonitorDecider, Tally
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.facts_and_questions import Since, Window
from monitor.kinds.over_time.keys_and_parameters import OverTime
from monitor.kinds.over_time.record import OverTimeWriter
from monitor.kinds.parameters import Parameters
from monitor.privacy import over_time
from monitor.privacy.one_sided_noise import Noise
from monitor.privacy.over_time import OverTimeAnswer, OverTimeRule
from monitor.records.output_records import OutputRecord, name_answer
from monitor.records.unknown_causes import FACTS_MISSING

_Key = TypeVar("_Key", int, Fraction)


class OverTimeDecider(MonitorDecider[OverTime]):
    """Decides the ticks of one `over_time` monitor for one ledger partition.

    Its places are the watched locations of the partition, numbered in registry order.
    """

    def __init__(
        self, parameters: Parameters, monitor: OverTime, shards: Sequence[int], noise: Noise, first_window: int
    ) -> None:
        super().__init__(parameters, monitor, shards, noise, first_window)
        registry, rows = parameters.registry, np.array(monitor.rows, np.int64)
        owned = np.flatnonzero(np.isin(registry.shard[rows], list(shards)))
        self._locations = [registry.ids[row] for row in rows[owned].tolist()]
        self._rules = [monitor.rules[n] for n in owned.tolist()]
        self._rows: list[int] = rows[owned].tolist()
        self._shard_of_place: list[int] = registry.shard[rows[owned]].tolist()
        self._places_by_shard = _group(self._shard_of_place)
        self._rows_by_shard = {shard: rows[owned][places] for shard, places in self._places_by_shard.items()}
        self._places_by_epsilon = _group(rule.answer_epsilon for rule in self._rules)

    def list_windows(self, shard: int, tick: int) -> tuple[Window, ...]:
        """Return the window of the monitor's places in a shard."""
        rows = self._rows_by_shard.get(shard, ())
        return ((self._parameters.find_window_start(self.monitor.window, tick), rows),)

    def list_since(self, shard: int, tick: int, state: AnswerState) -> tuple[Since, ...]:
        """Return the counts of the places in a shard that may answer while a mark runs."""
        places = self._places_by_shard.get(shard)
        return () if places is None else tuple(self._ask_since(places.tolist(), tick, state).values())

    def _ask_since(self, places: Iterable[int], tick: int, state: AnswerState) -> dict[int, Since]:
        """Return, by place, the count to read of each of these places that may answer while a mark runs."""
        if not self.monitor.needed.since_ticks:
            return {}  # with one answer per window, a place with a running mark is paused
        start, asked = self._parameters.find_window_start(self.monitor.window, tick), {}
        for place in places:
            rule, marks = self._rules[place], state.find_marks(self.monitor.name, self._locations[place])
            latest = over_time.find_count_start(rule, marks, tick)
            if latest is not None and over_time.may_answer(rule, marks, tick):
                asked[place] = Since(start, latest, self._rows[place])
        return asked

    def list_ids(self, tick: int, drawn: Collection[tuple[str, int]]) -> list[str]:
        """Return the ce_ids of the answers of a tick, in registry order."""
        del drawn
        return [name_answer(self.monitor.name, location, tick) for location in self._locations]

    def decide(self, tick: int, evidence: Evidence, state: AnswerState, tally: Tally) -> list[OutputRecord]:
        """Draw the answer of each place once, record the spent ε in `state`, and return the records."""
        answers = self._draw(tick, evidence, state, tally.known)
        drawn = [(shard, answer.status) for shard, answer in zip(self._shard_of_place, answers, strict=True) if answer]
        tally.answers.update((self.monitor.name, status) for _, status in drawn)
        unknown = {shard for shard, status in drawn if status == "unknown"}
        tally.unknown.update((shard, FACTS_MISSING) for shard in unknown & evidence.readings.keys())
        return self._write(tick, answers, state, tally.known)

    def _draw(
        self, tick: int, evidence: Evidence, state: AnswerState, known: Mapping[str, OutputRecord]
    ) -> list[OverTimeAnswer | None]:
        """Draw the answer of each place once, and record the spent ε in `state`. None: the ledger has the answer."""
        name, only_signed = self.monitor.name, state.repeats_only_signed
        lost_tick = None if state.lost_at is None else self._parameters.grid.find_slot(state.lost_at)
        noise, counts = self._draw_noise(), self._count_people(tick, evidence, state)
        decided = [ce_id in known for ce_id in self.list_ids(tick, ())] if known else [False] * len(self._locations)
        places = zip(self._locations, self._rules, counts, noise.tolist(), decided, strict=True)
        answers: list[OverTimeAnswer | None] = []
        for location, rule, count, drawn, is_decided in places:
            if is_decided:
                answers.append(None)
                continue
            marks = state.find_marks(name, location)
            answer = over_time.step(rule, marks, tick, count, drawn, lost_tick=lost_tick)
            state.spend(name, location, answer.marks)  # also if a changed rule has lengthened them
            if only_signed and answer.status == "noisy_count":
                state.sign(name, location, answer.marks[-1:])  # the key signs it with this tick
            answers.append(answer)
        return answers

    def _write(
        self, tick: int, answers: Iterable[OverTimeAnswer | None], state: AnswerState, known: Mapping[str, OutputRecord]
    ) -> list[OutputRecord]:
        """Return the records of the answers of a tick, in registry order. The ledger has those that are None."""
        parameters, grid = self._parameters, self._parameters.grid
        as_of, start = grid.as_of(tick), grid.start(parameters.find_window_start(self.monitor.window, tick))
        only_signed = state.repeats_only_signed
        writer = OverTimeWriter(parameters.name, self.monitor.name, tick, as_of, start)
        records = []
        for location, rule, answer in zip(self._locations, self._rules, answers, strict=True):
            if answer is None:
                records.append(known[name_answer(self.monitor.name, location, tick)])
                continue
            resumes_at = None if answer.resumes_at is None else grid.as_of(answer.resumes_at)
            since = None if answer.counted_since is None else grid.as_of(answer.counted_since)
            shown = _select_signed(rule, answer, tick) if only_signed else answer
            records.append(writer.write(location, rule, shown, resumes_at, since))
        return records

    def _draw_noise(self) -> NDArray[np.int64]:
        """Draw fresh noise for every place, whether or not it is used (docs/rules.md, rule 3): one draw per ε."""
        noise = np.zeros(len(self._locations), np.int64)
        for epsilon, places in self._places_by_epsilon.items():
            noise[places] = self._noise.geometric(epsilon, places.size)
        return noise

    def _count_people(self, tick: int, evidence: Evidence, state: AnswerState) -> list[int | None]:
        """Return the number of distinct people in the window of each place; None where facts are missing.

        Where a mark runs, only what was reported after its tick is counted.
        """
        start = self._parameters.find_window_start(self.monitor.window, tick)
        counts: list[int | None] = [None] * len(self._locations)
        for shard, places in self._places_by_shard.items():
            if _is_complete(shard, start, evidence, state):
                people = evidence.readings[shard].counts[self._first_window].tolist()
                for place, count in zip(places.tolist(), people, strict=True):
                    counts[place] = count
        for place, asked in self._ask_since(range(len(counts)), tick, state).items():
            if counts[place] is not None:
                counts[place] = evidence.readings[self._shard_of_place[place]].since.get(asked)
        return counts


def _select_signed(rule: OverTimeRule, answer: OverTimeAnswer, tick: int) -> OverTimeAnswer:
    """Return an answer that repeats only signed noisy counts. Anybody may have written the others."""
    signed = tuple(mark.signed for mark in answer.marks if isinstance(mark, SignedMark))
    drawn = answer.marks[-1:] if answer.status == "noisy_count" else ()
    running = over_time.select_running_marks(over_time.extend_marks(rule, signed), tick)
    return answer._replace(marks=(*running, *drawn))


def _group(keys: Iterable[_Key]) -> dict[_Key, NDArray[np.int64]]:
    """Return the places that have each key, given the key of each place."""
    grouped: dict[_Key, list[int]] = {}
    for place, key in enumerate(keys):
        grouped.setdefault(key, []).append(place)
    return {key: np.array(places, np.int64) for key, places in grouped.items()}


def _is_complete(shard: int, start: int, evidence: Evidence, state: AnswerState) -> bool:
    """Return whether a shard has a reading whose windows from the slot `start` on contain all visits."""
    complete_from = evidence.find_complete_from(shard)
    return complete_from is not None and max(complete_from, state.input_since) <= start
