"""Decide one tick of one ledger partition: readings, marks and noise become records (Algorithms 3 and 4).

The module is pure except for the noise, which is passed in. The order of records is public (docs/rules.md, rule 11):
monitors by kind, then as configured, locations as in the registry, designated times by time, shards by number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from monitor.kinds.all_kinds import KINDS
from monitor.kinds.answer_state import AnswerState
from monitor.kinds.base.decider import MonitorDecider, Tally
from monitor.kinds.base.keys_and_parameters import Monitor
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.facts_and_questions import Question
from monitor.kinds.parameters import Parameters
from monitor.ledger.ledger_state import LedgerState
from monitor.privacy.one_sided_noise import Noise
from monitor.records.output_records import OutputRecord


@dataclass(frozen=True, slots=True)
class Decision:
    """The records of one tick, and the number of answers by (monitor, status)."""

    records: Sequence[OutputRecord]
    answers: Mapping[tuple[str, str], int]
    unknown: Collection[tuple[int, str]] = ()
    """The shards with a reading that have an unknown answer, each with the cause (`monitor.records.unknown_causes`)."""
    checkpoint: OutputRecord | None = None
    """The signature of the records, if answers are signed."""
    lost: int = 0
    """The number of answers that a killed owner has appended without a signature. They are not published again."""


class Decider:
    """Decides the ticks of one ledger partition.

    Args:
        parameters: the parameters of the service.
        shards: the shards of this ledger partition.
        noise: the source of one-sided noise.
        totals: the monitors about all places that this partition answers. One answer covers all shards.
    """

    def __init__(
        self, parameters: Parameters, shards: Sequence[int], noise: Noise, totals: Sequence[Monitor] = ()
    ) -> None:
        self._parameters = parameters
        self._shards = tuple(shards)
        self._deciders: list[MonitorDecider[Any]] = []
        windows = 0
        for monitor in parameters.monitors:
            if monitor.scope != "all places" or monitor in totals:
                decider = KINDS[monitor.kind].decider(parameters, monitor, self._shards, noise, windows)
                self._deciders.append(decider)
                windows += len(decider.list_windows(shard=0, tick=0))

    def build_questions(self, tick: int, state: AnswerState) -> dict[int, Question]:
        """Return the question to ask each shard at a tick. The earlier answers in `state` decide where counts begin."""
        asked = [(decider.monitor.scope == "all places", decider.ask(tick)) for decider in self._deciders]
        everywhere = _merge(tick, (question for of_all, question in asked if of_all))
        here = _merge(tick, (question for _, question in asked))
        questions = {
            shard: replace(
                here,
                windows=tuple(window for one in self._deciders for window in one.list_windows(shard, tick)),
                since=tuple({each: None for one in self._deciders for each in one.list_since(shard, tick, state)}),
                buckets=tuple({each: None for one in self._deciders for each in one.list_buckets(shard, tick, state)}),
            )
            for shard in self._shards
        }
        if not everywhere.times:
            return questions
        return {shard: questions.get(shard, everywhere) for shard in range(self._parameters.registry.shards)}

    def list_ids(self, tick: int, drawn: Collection[tuple[str, int]] = ()) -> list[str]:
        """Return the ce_ids of the answers of a tick, in their order.

        `drawn`: the monitors and designated times whose only answer was drawn. They are left out.
        """
        return [ce_id for decider in self._deciders for ce_id in decider.list_ids(tick, drawn)]

    def decide(
        self, tick: int, evidence: Evidence, state: LedgerState, known: Mapping[str, OutputRecord] | None = None
    ) -> Decision:
        """Draw every answer of a tick once, and record the spent ε in `state`.

        `known`: the answers of the tick that the ledger contains, by ce_id. They are drawn already.
        """
        tally = Tally(known or {})
        records = [record for decider in self._deciders for record in decider.decide(tick, evidence, state, tally)]
        state.last_tick = tick
        return Decision(records, tally.answers, tally.unknown)


def _merge(tick: int, questions: Iterable[Question]) -> Question:
    """Return the question for all designated times of some questions."""
    times, consenting, stays = set[int](), set[int](), set[int]()
    for question in questions:
        times.update(question.times)
        consenting.update(question.consenting)
        stays.update(question.stays)
    return Question((), tuple(sorted(times)), tick, tuple(sorted(consenting)), tuple(sorted(stays)))
