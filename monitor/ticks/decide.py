"""Decide one tick of one ledger partition: readings, marks and noise become records (Algorithms 3 and 4).

The module is pure except for the noise, which is passed in. The order of records is public (docs/rules.md, rule 11):
monitors as configured, locations as in the registry, designated times by time, shards by number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from monitor.kinds.at_times.monitor import AtTimes
from monitor.kinds.at_times.record import make_at_times_record
from monitor.kinds.designated_times.monitor import Timed, Total
from monitor.kinds.designated_times.record import DesignatedTime
from monitor.kinds.dwell.monitor import Dwell
from monitor.kinds.dwell.record import make_dwell_record
from monitor.kinds.facts import Question, Reading
from monitor.kinds.hot_spots.monitor import HotSpots
from monitor.kinds.hot_spots.record import make_hot_spots_record
from monitor.kinds.over_time.monitor import OverTime
from monitor.kinds.parameters import Parameters
from monitor.ledger.signed_log import SignedCount
from monitor.ledger.state import LedgerState
from monitor.privacy import at_least, at_times, dwell, hot_spots
from monitor.privacy.at_times import AtTimesRule
from monitor.privacy.noise import Noise
from monitor.records.output_records import OutputRecord, name_answer
from monitor.records.unknown_causes import FACTS_MISSING, LEDGER_LOST, NOT_SIGNED
from monitor.ticks.decide_over_time import OverTimeDecider
from monitor.ticks.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Decision:
    """The records of one tick, and the number of answers by (monitor, status).

    `unknown`: the shards with a reading that have an unknown answer, each with the cause
    (`monitor.records.unknown_causes`). `checkpoint`: the signature of the records, if answers are signed. `lost`: the
    number of answers that a killed owner has appended without a signature. They are not published again.
    """

    records: Sequence[OutputRecord]
    answers: Mapping[tuple[str, str], int]
    unknown: Collection[tuple[int, str]] = ()
    checkpoint: OutputRecord | None = None
    lost: int = 0


@dataclass(frozen=True, slots=True)
class _Tally:
    """A decision while it is made: `answers` and `unknown` of `Decision`, and the answers that the ledger contains."""

    known: Mapping[str, OutputRecord]
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    unknown: set[tuple[int, str]] = field(default_factory=set)


class Decider:
    """Decides the ticks of one ledger partition.

    Args:
        parameters: the parameters of the service.
        shards: the shards of this ledger partition.
        noise: the source of one-sided noise.
        totals: the monitors of hot spots and dwell times that this partition answers. One answer covers all shards.
    """

    def __init__(
        self, parameters: Parameters, shards: Sequence[int], noise: Noise, totals: Sequence[Total] = ()
    ) -> None:
        self._parameters = parameters
        self._noise = noise
        self._shards = tuple(shards)
        self._totals = tuple(totals)
        self._watched = [
            OverTimeDecider(parameters, monitor, number, shards, noise)
            for number, monitor in enumerate(parameters.select(OverTime))
        ]

    def build_questions(self, tick: int) -> dict[int, Question]:
        """Return the question to ask each shard at a tick."""
        parameters = self._parameters
        live = {
            time
            for monitor in parameters.select(AtTimes)
            for time in monitor.list_live_times(parameters.grid.as_of(tick))
        }
        questions = {
            shard: Question(
                tuple(watched.find_window(shard, tick) for watched in self._watched), tuple(sorted(live)), tick
            )
            for shard in self._shards
        }
        bounded = (monitor for monitor in parameters.select(AtTimes) if monitor.at_least is not None)
        consenting = {time for monitor in bounded for time in self._find_final_times(monitor, tick)}
        if consenting:
            instants = tuple(sorted(consenting))
            questions = {shard: replace(question, consenting=instants) for shard, question in questions.items()}
        final = {time for monitor in self._totals for time in self._find_final_times(monitor, tick)}
        if not final:
            return questions
        stays = {
            time
            for monitor in self._totals
            if isinstance(monitor, Dwell)
            for time in self._find_final_times(monitor, tick)
        }
        return {
            shard: replace(question, times=tuple(sorted(final.union(question.times))), stays=tuple(sorted(stays)))
            for shard in range(parameters.registry.shards)
            for question in (questions.get(shard, Question(tick=tick)),)
        }

    def _find_final_times(self, monitor: Timed, tick: int) -> list[int]:
        """Return the designated times for which this tick is the final one."""
        as_of = self._parameters.grid.as_of(tick)
        return [time for time in monitor.list_live_times(as_of) if monitor.is_final(time, as_of, self._parameters.grid)]

    def list_ids(self, tick: int, drawn: Collection[tuple[str, int]] = ()) -> list[str]:
        """Return the ce_ids of the answers of a tick, in their order. `drawn`: totals that are left out."""
        as_of = self._parameters.grid.as_of(tick)
        ids = [ce_id for watched in self._watched for ce_id in watched.list_ids(tick)]
        for timed in self._parameters.select(AtTimes):
            times = timed.list_live_times(as_of)
            ids += [name_answer(timed.name, time, tick, shard) for time in times for shard in self._shards]
        for total in self._totals:
            times = self._find_final_times(total, tick)
            due = [time for time in times if (total.name, time) not in drawn]
            ids += [name_answer(total.name, time, tick) for time in due]
        return ids

    def decide(
        self, tick: int, evidence: Evidence, state: LedgerState, known: Mapping[str, OutputRecord] | None = None
    ) -> Decision:
        """Draw every answer of a tick once, and record the spent ε in `state`.

        `known`: the answers of the tick that the ledger contains, by ce_id. They are drawn already.
        """
        tally = _Tally(known or {})
        records: list[OutputRecord] = []
        for watched in self._watched:
            records += self._decide_over_time(watched, tick, evidence, state, tally)
        for timed in self._parameters.select(AtTimes):
            for time in timed.list_live_times(self._parameters.grid.as_of(tick)):
                records += self._decide_at_time(timed, time, tick, evidence, state, tally)
        for total in self._totals:
            for time in self._find_final_times(total, tick):
                records += self._decide_total(total, time, tick, evidence, state, tally)
        state.last_tick = tick
        return Decision(records, tally.answers, tally.unknown)

    @staticmethod
    def _decide_over_time(
        watched: OverTimeDecider, tick: int, evidence: Evidence, state: LedgerState, tally: _Tally
    ) -> list[OutputRecord]:
        answers = watched.decide(tick, evidence, state, tally.known)
        drawn = [(shard, answer.status) for shard, answer in zip(watched.shards, answers, strict=True) if answer]
        tally.answers.update((watched.monitor.name, status) for _, status in drawn)
        unknown = {shard for shard, status in drawn if status == "unknown"}
        tally.unknown.update((shard, FACTS_MISSING) for shard in unknown & evidence.readings.keys())
        return watched.write(tick, answers, state, tally.known)

    def _decide_at_time(
        self,
        monitor: AtTimes,
        time: int,
        tick: int,
        evidence: Evidence,
        state: LedgerState,
        tally: _Tally,
    ) -> list[OutputRecord]:
        ids, noisy = self._parameters.registry.ids, state.times.noisy.setdefault((monitor.name, time), {})
        marked, only_signed = self._find_marked_rows(noisy), state.repeats_only_signed
        records = []
        for shard in self._shards:
            ce_id = name_answer(monitor.name, time, tick, shard)
            if ce_id in tally.known:
                records.append(tally.known[ce_id])
                continue
            complete = self._is_complete_at(time, shard, evidence, state, tally)
            hidden = {row for row in marked[shard] if only_signed and not isinstance(noisy[ids[row]], SignedCount)}
            if complete and hidden:
                complete = False
                tally.unknown.add((shard, NOT_SIGNED))
            if complete:
                present = evidence.readings[shard].present
                for row, count in self._draw_noisy_counts(monitor, shard, marked[shard], present[time]):
                    noisy[ids[row]] = SignedCount(tick, count) if only_signed else (tick, count)
                    marked[shard].append(row)
            tally.answers[monitor.name, "complete" if complete else "unknown"] += 1
            shown = {ids[row]: noisy[ids[row]] for row in sorted(marked[shard]) if row not in hidden}
            bounds = self._draw_lower_bounds(monitor, time, shard, tick, evidence, state) if complete else None
            records.append(self._build_snapshot(monitor, time, shard, tick, complete, shown, bounds))
        return records

    def _draw_lower_bounds(
        self, monitor: AtTimes, time: int, shard: int, tick: int, evidence: Evidence, state: LedgerState
    ) -> tuple[Fraction, dict[str, int]] | None:
        """Return ε and the lower bounds of a shard at the final tick; None if there are none, or drawn before."""
        parameters, registry = self._parameters, self._parameters.registry
        is_final = monitor.is_final(time, parameters.grid.as_of(tick), parameters.grid)
        if monitor.at_least is None or not is_final:
            return None
        if not state.times.may_draw_bounds(monitor.name, time, shard, registry.shards):
            return None
        state.times.record_bounds(monitor.name, time, shard, registry.shards)
        rows, counts = registry.by_shard[shard], evidence.readings[shard].consenting[time]
        places, bounds = at_least.step(monitor.at_least, counts, self._noise)
        drawn = {registry.ids[int(rows[place])]: int(bound) for place, bound in zip(places, bounds, strict=True)}
        return monitor.at_least, drawn

    def _find_marked_rows(self, noisy: Mapping[str, tuple[int, int]]) -> dict[int, list[int]]:
        """Return the registry rows of the locations that have a noisy count, by shard."""
        registry = self._parameters.registry
        marked: dict[int, list[int]] = {shard: [] for shard in self._shards}
        for location in noisy:
            row = registry.rows.get(location)
            if row is not None and (shard := int(registry.shard[row])) in marked:
                marked[shard].append(row)
        return marked

    def _draw_noisy_counts(
        self,
        monitor: AtTimes,
        shard: int,
        marked_rows: Sequence[int],
        counts: NDArray[np.int64],
    ) -> list[tuple[int, int]]:
        """Return the rows with new noisy counts, and these counts. `counts` has the people at each row of the shard."""
        rows = self._parameters.registry.by_shard[shard]
        marked = np.zeros(len(rows), np.bool_)
        marked[np.searchsorted(rows, marked_rows)] = True
        rule = AtTimesRule(monitor.epsilon, monitor.threshold)
        places, noisy_counts = at_times.step(rule, marked, counts, self._noise)
        return [(int(rows[place]), int(count)) for place, count in zip(places, noisy_counts, strict=True)]

    def _build_snapshot(
        self,
        monitor: AtTimes,
        time: int,
        shard: int,
        tick: int,
        complete: bool,  # noqa: FBT001  # becomes the record's status
        noisy: Mapping[str, tuple[int, int]],
        bounds: tuple[Fraction, Mapping[str, int]] | None,
    ) -> OutputRecord:
        registry = self._parameters.registry
        asked = self._describe(monitor, time, tick, len(registry.by_shard[shard]))
        return make_at_times_record(
            **asked,
            shard=shard,
            shards=registry.shards,
            complete=complete,
            final=monitor.is_final(time, asked["as_of"], self._parameters.grid),
            threshold=monitor.threshold,
            epsilon=monitor.epsilon,
            noisy_counts=noisy,
            counts_at_least=bounds,
        )

    def _describe(self, monitor: AtTimes | Total, time: int, tick: int, locations: int) -> DesignatedTime:
        parameters = self._parameters
        return {
            "source": parameters.name,
            "monitor": monitor.name,
            "time": time,
            "tick": tick,
            "as_of": parameters.grid.as_of(tick),
            "registry": parameters.registry.digest,
            "locations": locations,
        }

    def _decide_total(
        self,
        monitor: Total,
        time: int,
        tick: int,
        evidence: Evidence,
        state: LedgerState,
        tally: _Tally,
    ) -> list[OutputRecord]:
        """Return the one answer about a designated time; nothing if it was already drawn, under a shorter horizon."""
        ce_id = name_answer(monitor.name, time, tick)
        if ce_id in tally.known:
            return [tally.known[ce_id]]
        if (monitor.name, time) in state.times.drawn:
            return []
        shards = range(self._parameters.registry.shards)
        incomplete = [shard for shard in shards if not self._is_complete_at(time, shard, evidence, state, tally)]
        complete = not incomplete
        if complete:
            state.times.drawn.add((monitor.name, time))
        tally.answers[monitor.name, "complete" if complete else "unknown"] += 1
        asked = self._describe(monitor, time, tick, len(self._parameters.registry.ids))
        if isinstance(monitor, Dwell):
            stays, rule = (stay for shard in shards for stay in evidence.readings[shard].stays[time]), monitor.rule
            totals = dwell.step(rule, stays, self._noise) if complete else None
            kept = {"longest": rule.longest, "per_person": rule.per_person}
            return [make_dwell_record(**asked, **kept, epsilon=rule.epsilon, totals=totals)]
        if not isinstance(monitor, HotSpots):
            raise TypeError(monitor.kind)
        drawn = self._draw_hot_spots(monitor, time, evidence) if complete else None
        return [make_hot_spots_record(**asked, top=monitor.top, epsilon=monitor.epsilon, hot_spots=drawn)]

    def _draw_hot_spots(self, monitor: HotSpots, time: int, evidence: Evidence) -> list[tuple[str, int]]:
        registry = self._parameters.registry
        counts = np.zeros(len(registry.ids), np.int64)
        for shard, rows in enumerate(registry.by_shard):
            counts[rows] = evidence.readings[shard].present[time]
        highest, noisy_counts = hot_spots.step(monitor.epsilon, monitor.top, counts, self._noise)
        return [(registry.ids[row], int(n)) for row, n in zip(highest, noisy_counts, strict=True)]

    def _is_complete_at(self, time: int, shard: int, evidence: Evidence, state: LedgerState, tally: _Tally) -> bool:
        """Return whether the answers about τ are known, and every visit at τ that was reported before as_of is counted.

        If a shard with a reading is not complete, `tally` gets the cause.
        """
        reading = evidence.readings.get(shard)
        if reading is None:
            return False
        cause = self._find_cause(time, reading, state)
        if cause is not None:
            tally.unknown.add((shard, cause))
        return cause is None

    def _find_cause(self, time: int, reading: Reading, state: LedgerState) -> str | None:
        """Return why a shard with a reading cannot be answered at τ; None if it can."""
        if state.lost_at is not None and time < state.lost_at:
            return LEDGER_LOST
        complete_from = max(reading.complete_from, state.input_since)
        is_complete = complete_from <= self._parameters.grid.find_slot(time) and time > reading.times_evicted_until
        return None if is_complete else FACTS_MISSING
