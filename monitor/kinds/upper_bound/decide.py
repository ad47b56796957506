"""Decide the ticks of an `upper_bound` monitor: each complete bucket gets one number, and numbers add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from monitor.kinds.answer_state import AnswerState, SignedMark
from monitor.kinds.base.decider import MonitorDecider, Tally
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.facts_and_questions import BucketCount
from monitor.kinds.parameters import Parameters
from monitor.kinds.upper_bound.keys_and_parameters import UpperBound
from monitor.kinds.upper_bound.record import make_upper_bound_record
from monitor.privacy import upper_bound
from monitor.privacy.one_sided_noise import Noise
from monitor.privacy.over_time import Mark
from monitor.privacy.published_numbers import Number
from monitor.privacy.upper_bound import BucketRule
from monitor.records.output_records import OutputRecord, name_answer
from monitor.records.unknown_causes import FACTS_MISSING, LEDGER_LOST


class _Place(NamedTuple):
    """A watched location of the ledger partition."""

    row: int
    location: str
    shard: int
    rule: BucketRule


class UpperBoundDecider(MonitorDecider[UpperBound]):
    """Decides the ticks of one `upper_bound` monitor for one ledger partition. Only ticks that end a bucket answer."""

    def __init__(
        self, parameters: Parameters, monitor: UpperBound, shards: Sequence[int], noise: Noise, first_window: int
    ) -> None:
        super().__init__(parameters, monitor, shards, noise, first_window)
        registry = parameters.registry
        watched = (
            _Place(row, registry.ids[row], int(registry.shard[row]), rule)
            for row, rule in zip(monitor.rows, monitor.rules, strict=True)
        )
        self._places = [place for place in watched if place.shard in self._shards]

    def list_buckets(self, shard: int, tick: int, state: AnswerState) -> tuple[BucketCount, ...]:
        """Return the buckets in a shard that have no number yet."""
        if not self.monitor.rule.ends_bucket(tick):
            return ()
        return tuple(
            self._ask(place, last)
            for place in self._places
            if place.shard == shard
            for last in self._find_undrawn(place, tick, state)
        )

    def list_ids(self, tick: int, drawn: Collection[tuple[str, int]]) -> list[str]:
        """Return the ce_ids of the answers of a tick, in registry order."""
        del drawn
        if not self.monitor.rule.ends_bucket(tick):
            return []
        return [name_answer(self.monitor.name, place.location, tick) for place in self._places]

    def decide(self, tick: int, evidence: Evidence, state: AnswerState, tally: Tally) -> list[OutputRecord]:
        """Draw the number of each complete bucket once, record the spent ε in `state`, and return the records."""
        if not self.monitor.rule.ends_bucket(tick):
            return []
        ids = [name_answer(self.monitor.name, place.location, tick) for place in self._places]
        new = [place for place, ce_id in zip(self._places, ids, strict=True) if ce_id not in tally.known]
        self._draw(new, tick, evidence, state)
        records = []
        for place, ce_id in zip(self._places, ids, strict=True):
            if ce_id in tally.known:
                records.append(tally.known[ce_id])
                continue
            bound, numbers = self._add_up(place, tick, state)
            status = "unknown" if bound is None else "complete"
            tally.answers[self.monitor.name, status] += 1
            if bound is None and place.shard in evidence.readings:
                tally.unknown.add(
                    (place.shard, FACTS_MISSING if self._find_undrawn(place, tick, state) else LEDGER_LOST)
                )
            records.append(self._write(place, tick, numbers, bound))
        return records

    def _find_undrawn(self, place: _Place, tick: int, state: AnswerState) -> list[int]:
        """Return the last slots of the buckets that still count and may be drawn. The ledger alone decides this."""
        marks = tuple(_read_number(mark) for mark in state.find_marks(self.monitor.name, place.location))
        lost = None if state.lost_at is None else self._parameters.grid.find_slot(state.lost_at)
        buckets = place.rule.list_buckets(tick)
        return [last for last in buckets if upper_bound.may_draw(place.rule, marks, last, lost)]

    def _draw(self, places: Sequence[_Place], tick: int, evidence: Evidence, state: AnswerState) -> None:
        """Draw the numbers of all complete buckets of these places, and record the spent ε in `state`."""
        counts = [
            (place, last, count) for place in places for last, count in self._count_people(place, tick, evidence, state)
        ]
        noise = self._draw_noise([place.rule.answer_epsilon for place, _, _ in counts])
        for (place, last, count), added in zip(counts, noise, strict=True):
            number = upper_bound.draw(place.rule, last, count, added)
            state.spend(self.monitor.name, place.location, (number,))
            if state.repeats_only_signed:
                state.sign(self.monitor.name, place.location, (number,))  # the key signs it with this tick

    def _count_people(
        self, place: _Place, tick: int, evidence: Evidence, state: AnswerState
    ) -> Iterator[tuple[int, int]]:
        """Yield the last slot and the count of each complete bucket of a place that has no number yet."""
        complete_from = evidence.find_complete_from(place.shard)
        if complete_from is None:
            return
        counts = evidence.readings[place.shard].buckets
        for last in self._find_undrawn(place, tick, state):
            asked, first = self._ask(place, last), last - place.rule.window + 1
            if max(complete_from, state.input_since) <= first and asked in counts:
                yield last, counts[asked]

    def _ask(self, place: _Place, last: int) -> BucketCount:
        """Return the question for the people who were reported in one bucket."""
        first = self._parameters.bucket_lengths[place.rule.bucket, place.rule.window]
        return BucketCount(first + place.row, last)

    def _draw_noise(self, epsilons: Sequence[Fraction]) -> list[int]:
        """Draw fresh noise for each number: one draw per ε, as many as there are numbers."""
        groups = {
            epsilon: iter(self._noise.geometric(epsilon, size).tolist()) for epsilon, size in Counter(epsilons).items()
        }
        return [next(groups[epsilon]) for epsilon in epsilons]

    def _add_up(self, place: _Place, tick: int, state: AnswerState) -> tuple[int | None, tuple[Number, ...]]:
        """Return the bound, and the numbers that still count. Of signed answers, only signed numbers are repeated."""
        marks = state.find_marks(self.monitor.name, place.location)
        if state.repeats_only_signed:
            marks = tuple(mark for mark in marks if isinstance(mark, SignedMark))
        published = map(_read_number, marks)
        numbers = tuple(number for number in published if isinstance(number, Number) and number.until >= tick)
        return upper_bound.add_up(place.rule, numbers, tick), numbers

    def _write(self, place: _Place, tick: int, numbers: tuple[Number, ...], bound: int | None) -> OutputRecord:
        parameters, grid, rule = self._parameters, self._parameters.grid, place.rule
        return make_upper_bound_record(
            source=parameters.name,
            monitor=self.monitor.name,
            location_id=place.location,
            epsilon=rule.answer_epsilon,
            tick=tick,
            as_of=grid.as_of(tick),
            window_start=grid.start(parameters.find_window_start(rule.window, tick)),
            bucket_start=grid.start(tick - rule.bucket + 1),
            numbers=numbers,
            bound=bound,
        )


def _read_number(mark: Mark) -> Mark:
    """Return a mark as it was published."""
    return mark.signed if isinstance(mark, SignedMark) else mark
