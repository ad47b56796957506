"""Examples of every record for the AsyncAPI document. Output records are written by the service's own writers."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any, Final, NamedTuple

from monitor.kinds.at_times.record import LaterCount, NoisyCount, make_at_times_record
from monitor.kinds.dwell.record import make_dwell_record
from monitor.kinds.hot_spots.record import make_hot_spots_record
from monitor.kinds.over_time.record import make_over_time_record
from monitor.kinds.upper_bound.record import make_upper_bound_record
from monitor.privacy.over_time import Mark, OverTimeAnswer, OverTimeRule, Status
from monitor.privacy.sum_and_count import SumAndCount
from monitor.privacy.upper_bound import BucketRule, add_up, draw
from monitor.records.checkpoints import hash_answers, make_checkpoint_record, name_log
from monitor.records.dead_letter_record import Origin, encode_visit, make_dead_letter
from monitor.records.merkle import Tree
from monitor.records.output_records import OutputRecord
from monitor.records.owner_record import make_ledger_record, make_owner_record
from monitor.records.signed_notes import Signer
from monitor.records.visits import Fault, Reason
from monitor.time.instants import HOUR, format_instant, parse_instant
from monitor.time.slot_grid import SlotGrid

_GRID: Final = SlotGrid(parse_instant("2026-01-05T00:00:00Z"), HOUR)
_RULE: Final = OverTimeRule(Fraction(1), 1, 10, 168, 1)
_RULE_OF_TWO: Final = OverTimeRule(Fraction(1), 2, 10, 168, 1)
_REGISTRY: Final = "4a44dc15364204a80fe80e9039455cc1608281820fe2b24f1e5233ade6af1dd5"
_NOON: Final = _GRID.start(12)
_TOPIC_ID: Final = "vPp3kQxHRhuWZTdJ0XkQdg"
_VISIT: Final = {
    "person_id": "p-17",
    "location_id": "station-central",
    "arrived_at": "2026-01-05T08:15:00Z",
    "left_at": "2026-01-05T08:40:00Z",
}
_LIMIT: Final = 1_000_000
_NOISY: Final = NoisyCount(14, 12)


class Example(NamedTuple):
    """An example of a record: its name, what it shows, and its value. Visits have no headers.

    `record` is the record of the output topic that the example shows; None for other topics.
    """

    name: str
    summary: str
    payload: Any
    headers: dict[str, str]
    record: OutputRecord | None = None

    @property
    def message(self) -> dict[str, Any]:
        """The example as an AsyncAPI message example."""
        headers = {"headers": self.headers} if self.headers else {}
        return {"name": self.name, "summary": self.summary, **headers, "payload": self.payload}


def make_examples() -> dict[str, tuple[Example, ...]]:
    """Return the examples of each message of the AsyncAPI document."""
    return {
        "visits": (
            Example("batch", "The visits of one person.", {"batch_id": "b-1", "visits": [_VISIT]}, {}),
            Example("visit", "One visit, with consent to lower bounds.", {**_VISIT, "consent": True}, {}),
        ),
        "overTime": (
            _make_output_example("safe", "Fewer than 10 people.", _make_over_time("safe", 8)),
            _make_output_example("noisyCount", "An alarm: at most 12 people.", _make_over_time("noisy_count", 16, 12)),
            _make_output_example(
                "freshCount",
                "Fewer than 10 people reported since the alarm.",
                _make_over_time("safe", 20, rule=_RULE_OF_TWO),
            ),
            _make_output_example("paused", "The budget is spent until the mark ends.", _make_over_time("paused", 17)),
            _make_output_example("unknown", "The input was not known to be complete.", _make_over_time("unknown", 15)),
        ),
        "atTimes": (
            _make_output_example("complete", "Every place of the shard except the museum is safe.", _make_at_times(14)),
            _make_output_example(
                "final", "The last snapshot, with certain lower bounds.", _make_at_times(35, {"museum": 3})
            ),
            _make_output_example("freshCount", "Fewer than 9 people since the second alarm.", _make_fresh_time()),
        ),
        "hotSpots": (_make_output_example("complete", "The two places with the most people.", _make_hot_spots()),),
        "dwell": (_make_output_example("complete", "About 20 visits of 50 minutes.", _make_dwell()),),
        "upperBound": (_make_output_example("complete", "At most 28 people within seven days.", _make_upper_bound()),),
        "checkpoint": (_make_output_example("signed", "The first signed tick, with one answer.", _make_checkpoint()),),
        "owner": (_make_output_example("takeover", "An instance begins to write a partition.", _make_owner()),),
        "ledger": (_make_output_example("first", "The first record of an output partition.", _make_ledger()),),
        "deadLetter": (_make_dead_letter_example(),),
    }


def _make_output_example(name: str, summary: str, record: OutputRecord) -> Example:
    headers = {header: value.decode() for header, value in record.headers}
    return Example(name, summary, json.loads(record.value), headers, record)


def _make_over_time(
    status: Status, tick: int, noisy_count: int | None = None, rule: OverTimeRule = _RULE
) -> OutputRecord:
    """Return the record of a tick. At tick 16 there is a noisy count. If k > 1, later counts begin after it."""
    mark = Mark(16, 12, rule.answer_epsilon, 16 + rule.mark_lifetime - 1)
    is_fresh = rule.answers > 1 and tick > mark.tick
    return make_over_time_record(
        source="town",
        monitor="places",
        location_id="station-central",
        rule=rule,
        tick=tick,
        as_of=_GRID.as_of(tick),
        window_start=_GRID.start(tick - rule.window + 1),
        answer=OverTimeAnswer(status, noisy_count, (mark,) if tick >= mark.tick else (), None),
        resumes_at=_GRID.as_of(mark.until + 1) if status == "paused" else None,
        counted_since=_GRID.as_of(mark.tick) if is_fresh else None,
    )


def _make_upper_bound() -> OutputRecord:
    rule, tick = BucketRule(Fraction(7, 2), 24, 168, 0), 167
    numbers = tuple(draw(rule, last, count, 1) for count, last in enumerate(rule.list_buckets(tick)))
    return make_upper_bound_record(
        source="town",
        monitor="curve",
        location_id="station-central",
        rule=rule,
        tick=tick,
        as_of=_GRID.as_of(tick),
        window_start=_GRID.start(tick - rule.window + 1),
        bucket_start=_GRID.start(tick - rule.bucket + 1),
        numbers=numbers,
        bound=add_up(rule, numbers, tick),
    )


def _make_checkpoint() -> OutputRecord:
    answer = _make_over_time("safe", 8)
    leaf = hash_answers([answer])
    signer = Signer("example.org/town", bytes(range(32)))
    origin = f"{name_log('example.org/town', _TOPIC_ID, 0)}8"
    return make_checkpoint_record("town", signer, origin, 0, 8, _GRID.as_of(8), leaf, Tree().append(leaf))


def _make_at_times(
    tick: int, bounds: dict[str, int] | None = None, *, noisy: NoisyCount = _NOISY, answers: int = 1
) -> OutputRecord:
    return make_at_times_record(
        source="town",
        monitor="midday",
        time=_NOON,
        shard=8,
        shards=16,
        tick=tick,
        as_of=_GRID.as_of(tick),
        complete=True,
        final=bounds is not None,
        registry=_REGISTRY,
        locations=3,
        threshold=9,
        epsilon=Fraction(1),
        noisy_counts={"museum": noisy},
        answers_per_time=answers,
        counts_at_least=None if bounds is None else (Fraction(1, 2), bounds),
    )


def _make_fresh_time() -> OutputRecord:
    third = Fraction(1, 3)
    museum = NoisyCount(14, 12, third, (LaterCount(20, 9, third),), format_instant(_GRID.as_of(20)))
    return _make_at_times(22, noisy=museum, answers=3)


def _make_hot_spots() -> OutputRecord:
    return make_hot_spots_record(
        source="town",
        monitor="busiest",
        time=_NOON,
        tick=35,
        as_of=_GRID.as_of(35),
        registry=_REGISTRY,
        locations=40,
        top=2,
        epsilon=Fraction(1, 2),
        hot_spots=(("museum", 31), ("station-central", 27)),
    )


def _make_dwell() -> OutputRecord:
    return make_dwell_record(
        source="town",
        monitor="lengths",
        time=_NOON,
        tick=35,
        as_of=_GRID.as_of(35),
        registry=_REGISTRY,
        locations=40,
        epsilon=Fraction(1),
        longest=7_200,
        per_person=1,
        totals=SumAndCount(60_000, 84_000, 0, 7_200),
    )


def _make_owner() -> OutputRecord:
    return make_owner_record(
        source="town",
        service="town",
        fingerprint="9f86d081884c7d65",
        input_topic_id=_TOPIC_ID,
        partitions=1,
        lost_at=None,
        input_since=None,
        partition=0,
        at=_GRID.as_of(7) + HOUR // 4,
        input_partitions=8,
    )


def _make_ledger() -> OutputRecord:
    return make_ledger_record(
        source="town",
        service="town",
        partitions=1,
        lost_at=None,
        partition=0,
        at=_GRID.start(0),
        input_topic_id=_TOPIC_ID,
    )


def _make_dead_letter_example() -> Example:
    fault = Fault(Reason.UNKNOWN_LOCATION, "location_id: expected a location of the registry")
    visit = {**_VISIT, "location_id": "station-centrall"}
    value, headers = make_dead_letter(fault, encode_visit(visit), Origin("visits", 3, 1_207), 0, _LIMIT)
    texts = {name: text.decode() for name, text in headers}
    return Example("unknownLocation", "A visit to a place that is not in the registry.", value.decode(), texts)
