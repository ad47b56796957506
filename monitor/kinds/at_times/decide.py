"""Decide the ticks of a monitor of kind `at_times`: noisy counts and lower bounds (Algorithm 4)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction

import numpy as np
from msgspec import UNSET

from monitor.kinds.answer_state import AnswerState
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.at_times.record import LaterCount, NoisyCount, make_at_times_record
from monitor.kinds.base.decide_designated_times import TimedDecider
from monitor.kinds.base.decider import Tally
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, Question
from monitor.privacy import at_least, at_times
from monitor.privacy.published_numbers import TimeNumber
from monitor.records.fields import format_time
from monitor.records.output_records import OutputRecord, name_answer
from monitor.records.unknown_causes import NOT_SIGNED


class AtTimesDecider(TimedDecider[AtTimes]):
    """Decides the ticks of one `at_times` monitor for one ledger partition: a snapshot of each shard and time."""

    def ask(self, tick: int) -> Question:
        """Return the live designated times. If there are lower bounds, those who consented count at the final tick."""
        final = () if self.monitor.at_least is None else tuple(self.find_final_times(tick))
        return Question(times=tuple(self.find_live_times(tick)), consenting=final)

    def list_ids(self, tick: int, drawn: Collection[tuple[str, int]]) -> list[str]:
        """Return the ce_ids of the snapshots of a tick, by time and shard."""
        del drawn
        times = self.find_live_times(tick)
        return [name_answer(self.monitor.name, time, tick, shard) for time in times for shard in self._shards]

    def decide(self, tick: int, evidence: Evidence, state: AnswerState, tally: Tally) -> list[OutputRecord]:
        """Draw the new noisy counts of each shard and live time once, and the lower bounds at the final tick."""
        return [
            record
            for time in self.find_live_times(tick)
            for record in self._decide_at_time(time, tick, evidence, state, tally)
        ]

    def _decide_at_time(
        self,
        time: int,
        tick: int,
        evidence: Evidence,
        state: AnswerState,
        tally: Tally,
    ) -> list[OutputRecord]:
        answered = self._find_answered_rows(state.times.noisy.setdefault((self.monitor.name, time), {}))
        records = []
        for shard in self._shards:
            ce_id = name_answer(self.monitor.name, time, tick, shard)
            if ce_id in tally.known:
                records.append(tally.known[ce_id])
                continue
            rows = answered[shard]
            complete = self.is_complete_at(time, shard, evidence, state, tally)
            if complete and state.repeats_only_signed and not self._are_signed(time, rows, state):
                complete = False
                tally.unknown.add((shard, NOT_SIGNED))
            since = self._draw_noisy_counts(time, tick, shard, rows, evidence, state) if complete else {}
            tally.answers[self.monitor.name, "complete" if complete else "unknown"] += 1
            shown = self._list_noisy_counts(time, sorted(rows), since, state)
            bounds = self._draw_lower_bounds(time, shard, tick, evidence, state) if complete else None
            records.append(self._build_snapshot(time, shard, tick, complete, shown, bounds))
        return records

    def _draw_lower_bounds(
        self, time: int, shard: int, tick: int, evidence: Evidence, state: AnswerState
    ) -> tuple[Fraction, dict[str, int]] | None:
        """Return ε and the lower bounds of a shard at the final tick; None if there are none, or drawn before."""
        monitor, parameters, registry = self.monitor, self._parameters, self._parameters.registry
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

    def _find_answered_rows(self, noisy: Collection[str]) -> dict[int, list[int]]:
        """Return the registry rows of the locations that have a noisy count, by shard."""
        registry = self._parameters.registry
        answered: dict[int, list[int]] = {shard: [] for shard in self._shards}
        for location in noisy:
            row = registry.rows.get(location)
            if row is not None and (shard := int(registry.shard[row])) in answered:
                answered[shard].append(row)
        return answered

    def _are_signed(self, time: int, rows: Iterable[int], state: AnswerState) -> bool:
        """Return whether the key has signed every noisy count of these rows."""
        about, ids = (self.monitor.name, time), self._parameters.registry.ids
        for location in (ids[row] for row in rows):
            signed = {number.tick for number in state.times.find_signed(*about, location)}
            if any(number.tick not in signed for number in state.times.noisy[about][location]):
                return False
        return True

    def _draw_noisy_counts(
        self, time: int, tick: int, shard: int, answered: list[int], evidence: Evidence, state: AnswerState
    ) -> dict[int, int]:
        """Draw the noisy counts of a shard, record them in `state`, and add their rows to `answered`.

        Return by row the tick of its latest noisy count, if only the people reported after it were counted.
        """
        monitor, ids, rows = self.monitor, self._parameters.registry.ids, self._parameters.registry.by_shard[shard]
        about, noisy = (monitor.name, time), state.times.noisy[monitor.name, time]
        marked, starts, since = np.zeros(len(rows), np.bool_), np.full(len(rows), COMPLETE_FROM_START), {}
        for row, place in zip(answered, np.searchsorted(rows, answered).tolist(), strict=True):
            latest = at_times.find_count_start(noisy[ids[row]])
            if latest is not None and at_times.may_answer(monitor.rule, noisy[ids[row]], tick):
                starts[place] = since[row] = latest
            else:
                marked[place] = True
        reading = evidence.readings[shard]
        counts = reading.stamps[time].count_since(starts) if monitor.needed.since_ticks else reading.present[time]
        places, drawn = at_times.step(monitor.rule, marked, counts, self._noise)
        for row, count in zip(rows[places].tolist(), drawn.tolist(), strict=True):
            # With one noisy count per location, a record does not state its ε: it is the whole ε.
            number = TimeNumber(tick, count, monitor.rule.answer_epsilon if monitor.answers > 1 else None)
            if ids[row] not in noisy:
                answered.append(row)
            state.times.spend(*about, ids[row], (number,))
            if state.repeats_only_signed:
                state.times.sign(*about, ids[row], (number,))  # the key signs it with this tick
        return since

    def _list_noisy_counts(
        self, time: int, rows: Iterable[int], since: Mapping[int, int], state: AnswerState
    ) -> dict[str, NoisyCount]:
        """Return the noisy counts of these rows as a record has them. If answers are signed, only signed ones count."""
        about, ids, grid = (self.monitor.name, time), self._parameters.registry.ids, self._parameters.grid
        shown = {}
        for row in rows:
            spent, location = state.times.noisy[about][ids[row]], ids[row]
            numbers = state.times.find_signed(*about, location) if state.repeats_only_signed else spent
            if numbers:
                first, *later = numbers
                counted_since = format_time(grid.as_of(since[row])) if row in since else UNSET
                shown[location] = NoisyCount(*first, tuple(LaterCount(*number) for number in later), counted_since)
        return shown

    def _build_snapshot(
        self,
        time: int,
        shard: int,
        tick: int,
        complete: bool,  # noqa: FBT001  # becomes the record's status
        noisy: Mapping[str, NoisyCount],
        bounds: tuple[Fraction, Mapping[str, int]] | None,
    ) -> OutputRecord:
        monitor, registry = self.monitor, self._parameters.registry
        asked = self.describe(time, tick, len(registry.by_shard[shard]))
        return make_at_times_record(
            **asked,
            shard=shard,
            shards=registry.shards,
            complete=complete,
            final=monitor.is_final(time, asked["as_of"], self._parameters.grid),
            threshold=monitor.threshold,
            epsilon=monitor.epsilon,
            noisy_counts=noisy,
            answers_per_time=monitor.answers,
            counts_at_least=bounds,
        )
