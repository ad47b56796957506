"""Decide the ticks of a monitor of designated times: what all of these kinds share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from typing import TypeVar

from monitor.kinds.answer_state import AnswerState
from monitor.kinds.base.decider import MonitorDecider, Tally
from monitor.kinds.base.monitor_of_designated_times import Timed, Total
from monitor.kinds.base.record_of_designated_times import DesignatedTime
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.facts_and_questions import Question, Reading
from monitor.records.output_records import OutputRecord, name_answer
from monitor.records.unknown_causes import FACTS_MISSING, LEDGER_LOST

M = TypeVar("M", bound=Timed)
T = TypeVar("T", bound=Total)


class TimedDecider(MonitorDecider[M]):
    """Decides the ticks of one monitor of designated times for one ledger partition."""

    def find_live_times(self, tick: int) -> list[int]:
        """Return the designated times that this tick evaluates."""
        return self.monitor.list_live_times(self._parameters.grid.as_of(tick))

    def find_final_times(self, tick: int) -> list[int]:
        """Return the designated times for which this tick is the final one."""
        as_of, grid = self._parameters.grid.as_of(tick), self._parameters.grid
        return [time for time in self.monitor.list_live_times(as_of) if self.monitor.is_final(time, as_of, grid)]

    def describe(self, time: int, tick: int, locations: int) -> DesignatedTime:
        """Return the first fields of a record about a designated time."""
        parameters = self._parameters
        return {
            "source": parameters.name,
            "monitor": self.monitor.name,
            "time": time,
            "tick": tick,
            "as_of": parameters.grid.as_of(tick),
            "registry": parameters.registry.digest,
            "locations": locations,
        }

    def is_complete_at(self, time: int, shard: int, evidence: Evidence, state: AnswerState, tally: Tally) -> bool:
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

    def _find_cause(self, time: int, reading: Reading, state: AnswerState) -> str | None:
        """Return why a shard with a reading cannot be answered at τ; None if it can."""
        if state.lost_at is not None and time < state.lost_at:
            return LEDGER_LOST
        complete_from = max(reading.complete_from, state.input_since)
        is_complete = complete_from <= self._parameters.grid.find_slot(time) and time > reading.times_evicted_until
        return None if is_complete else FACTS_MISSING


class TotalDecider(TimedDecider[T]):
    """Decides the one answer about each designated time, which covers all shards."""

    def ask(self, tick: int) -> Question:
        """Return the designated times for which this tick is the final one."""
        return Question(times=tuple(self.find_final_times(tick)))

    def list_ids(self, tick: int, drawn: Collection[tuple[str, int]]) -> list[str]:
        """Return the ce_ids of the answers of a tick, by time."""
        due = [time for time in self.find_final_times(tick) if (self.monitor.name, time) not in drawn]
        return [name_answer(self.monitor.name, time, tick) for time in due]

    def decide(self, tick: int, evidence: Evidence, state: AnswerState, tally: Tally) -> list[OutputRecord]:
        """Draw the answer about each designated time for which this tick is the final one."""
        return [
            record
            for time in self.find_final_times(tick)
            for record in self._decide_total(time, tick, evidence, state, tally)
        ]

    def _decide_total(
        self, time: int, tick: int, evidence: Evidence, state: AnswerState, tally: Tally
    ) -> list[OutputRecord]:
        """Return the one answer about a designated time; nothing if it was already drawn, under a shorter horizon."""
        monitor, registry = self.monitor, self._parameters.registry
        ce_id = name_answer(monitor.name, time, tick)
        if ce_id in tally.known:
            return [tally.known[ce_id]]
        if (monitor.name, time) in state.times.drawn:
            return []
        shards = range(registry.shards)
        incomplete = [shard for shard in shards if not self.is_complete_at(time, shard, evidence, state, tally)]
        complete = not incomplete
        if complete:
            state.times.drawn.add((monitor.name, time))
        tally.answers[monitor.name, "complete" if complete else "unknown"] += 1
        asked = self.describe(time, tick, len(registry.ids))
        return [self.draw(asked, evidence if complete else None)]

    @abstractmethod
    def draw(self, asked: DesignatedTime, evidence: Evidence | None) -> OutputRecord:
        """Draw the answer about a designated time, and return its record; "unknown" without evidence."""
