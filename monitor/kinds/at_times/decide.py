"""Decide the ticks of a monitor of kind `at_times`: noisy counts and lower bounds (Algorithm 4)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from monitor.kinds.answer_state import AnswerState, SignedNumber
from monitor.kinds.at_times.monitor import AtTimes
from monitor.kinds.at_times.record import LaterCount, NoisyCount, make_at_times_record
from monitor.kinds.decider import Tally
from monitor.kinds.designated_times.decide import TimedDecider
from monitor.kinds.evidence import Evidence
from monitor.kinds.facts import Question
from monitor.privacy import at_least, at_times
from monitor.privacy.at_times import AtTimesRule, Number
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
        monitor, ids = self.monitor, self._parameters.registry.ids
        noisy = state.times.noisy.setdefault((monitor.name, time), {})
        marked, only_signed = self._find_marked_rows(noisy), state.repeats_only_signed
        records = []
        for shard in self._shards:
            ce_id = name_answer(monitor.name, time, tick, shard)
            if ce_id in tally.known:
                records.append(tally.known[ce_id])
                continue
            complete = self.is_complete_at(time, shard, evidence, state, tally)
            hidden = {row for row in marked[shard] if only_signed and not _is_signed(noisy[ids[row]])}
            if complete and hidden:
                complete = False
                tally.unknown.add((shard, NOT_SIGNED))
            if complete:
                present = evidence.readings[shard].present
                for row, count in self._draw_noisy_counts(shard, marked[shard], present[time]):
                    number = Number(tick, count, None)
                    noisy[ids[row]] = (SignedNumber(*number) if only_signed else number,)
                    marked[shard].append(row)
            tally.answers[monitor.name, "complete" if complete else "unknown"] += 1
            shown = {ids[row]: _list(noisy[ids[row]]) for row in sorted(marked[shard]) if row not in hidden}
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

    def _find_marked_rows(self, noisy: Collection[str]) -> dict[int, list[int]]:
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
        shard: int,
        marked_rows: Sequence[int],
        counts: NDArray[np.int64],
    ) -> list[tuple[int, int]]:
        """Return the rows with new noisy counts, and these counts. `counts` has the people at each row of the shard."""
        rows = self._parameters.registry.by_shard[shard]
        marked = np.zeros(len(rows), np.bool_)
        marked[np.searchsorted(rows, marked_rows)] = True
        rule = AtTimesRule(self.monitor.epsilon, self.monitor.threshold)
        places, noisy_counts = at_times.step(rule, marked, counts, self._noise)
        return [(int(rows[place]), int(count)) for place, count in zip(places, noisy_counts, strict=True)]

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
            counts_at_least=bounds,
        )


def _is_signed(numbers: Iterable[Number]) -> bool:
    return all(isinstance(number, SignedNumber) for number in numbers)


def _list(numbers: Sequence[Number]) -> NoisyCount:
    """Return the noisy counts of a location as a record has them."""
    first, *later = numbers
    return NoisyCount(*first, later=tuple(LaterCount(*one) for one in later))
