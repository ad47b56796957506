"""Helpers for tests of decisions: readings, and decisions on complete input."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START, NEVER, Question, Reading, Stamps
from monitor.ledger.ledger_state import LedgerState
from monitor.privacy.over_time import Mark
from monitor.records.output_records import OutputRecord
from monitor.ticks.collect_answers import Decider, Decision
from tests.builders import build_since

ONE = Fraction(1)


def value_of(record: OutputRecord) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(record.value)
    return read


def statuses(decision: Decision) -> dict[str, str]:
    return {record.key.decode(): value_of(record)["status"] for record in decision.records}


def list_keys(decision: Decision) -> list[str]:
    return [record.key.decode() for record in decision.records]


def read(
    questions: Mapping[int, Question],
    people: int | Mapping[int, int] = 0,
    present: Sequence[int] | None = None,
    stamped: int = 10**6,
    **known: int,
) -> dict[int, Reading]:
    """Return readings: `people` at every watched row (or by row), `present` at every designated time.

    All people at a designated time were reported in the slot `stamped`.
    """
    at_time = np.array(present if present is not None else [0, 0, 0])
    places = np.repeat(np.arange(at_time.size), at_time)
    given: dict[str, Any] = {
        "complete_from": COMPLETE_FROM_START,
        "evicted_before": COMPLETE_FROM_START,
        "times_evicted_until": NEVER,
        "time": 0,
    } | known
    return {
        shard: Reading(
            progress={0: 1},
            counts=[
                np.array([people if isinstance(people, int) else people.get(int(row), 0) for row in rows], np.int64)
                for _, rows in question.windows
            ],
            since=build_since(question, lambda row: people if isinstance(people, int) else people.get(row, 0)),
            present=dict.fromkeys(question.times, at_time),
            stamps=dict.fromkeys(question.times, Stamps(places, np.full(places.size, stamped))),
            **given,
        )
        for shard, question in questions.items()
    }


def decide_complete(decider: Decider, tick: int, state: LedgerState, people: Any = 0, **known: Any) -> Decision:
    """Decide a tick with complete readings of all shards."""
    readings = read(decider.build_questions(tick, state), people, **known)
    return decider.decide(tick, Evidence(readings), state)


def make_mark(tick: int, mark_lifetime: int, epsilon: Fraction = ONE) -> Mark:
    return Mark(tick, 9, epsilon, tick + mark_lifetime - 1)
