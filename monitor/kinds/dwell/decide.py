"""Decide the final tick of a monitor of kind `dwell`."""

from __future__ import annotations

from dataclasses import replace

from monitor.kinds.base.decide_designated_times import TotalDecider
from monitor.kinds.base.record_of_designated_times import DesignatedTime
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.dwell.keys_and_parameters import Dwell
from monitor.kinds.dwell.record import NoisyTotals, make_dwell_record
from monitor.kinds.facts_and_questions import Question
from monitor.privacy import dwell
from monitor.privacy.sum_and_count import SumAndCount
from monitor.records.output_records import OutputRecord


class DwellDecider(TotalDecider[Dwell]):
    """Draws the number of visits and their mean length of each designated time, at its final tick."""

    def ask(self, tick: int) -> Question:
        """Return the designated times for which this tick is the final one. The lengths of visits are read."""
        question = super().ask(tick)
        return replace(question, stays=question.times)

    def draw(self, asked: DesignatedTime, evidence: Evidence | None) -> OutputRecord:
        """Draw the totals once, and return their record."""
        rule, time = self.monitor.rule, asked["time"]
        totals = None
        if evidence is not None:
            shards = range(self._parameters.registry.shards)
            stays = (stay for shard in shards for stay in evidence.readings[shard].stays[time])
            totals = estimate(dwell.step(rule, stays, self._noise))
        kept = {"longest": rule.longest, "per_person": rule.per_person}
        return make_dwell_record(**asked, **kept, epsilon=rule.epsilon, totals=totals)


def estimate(totals: SumAndCount) -> NoisyTotals:
    """Return the totals with their estimates: the number of visits, and their mean length in seconds."""
    mean = totals.mean
    return NoisyTotals(totals.above_low, totals.below_high, float(totals.count), None if mean is None else float(mean))
