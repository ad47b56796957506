"""Decide one tick of one `over_time` monitor: counts, marks and noise become answers (Algorithm 3).

A tick decides every watched place, so this module keeps all values that do not change between ticks. The answers of a
tick are kept as objects that most places share, and become records only when they are appended. `over_time.step`
decides one place from its marks alone; the tests compare both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from typing import Final, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from monitor.contracts.over_time_writer import AnswerWriter, OverTimeWriter, encode_marks
from monitor.contracts.parameters import OverTime, Parameters
from monitor.kafka.record_batches import RawRecord, encode_around, encode_value, to_raw
from monitor.privacy import over_time
from monitor.privacy.noise import Noise
from monitor.privacy.over_time import OverTimeAnswer, OverTimeRule, Standing
from monitor.store.facts import Window
from monitor.ticks.ledger import EncodedRecord
from monitor.ticks.readings import Evidence, find_input_since
from monitor.ticks.state import LedgerState

_PORTION: Final = 10_000  # places whose codes are Python objects at the same time


class Records(Sequence[EncodedRecord]):
    """The records of several parts, in order. Parts may build their records on demand."""

    def __init__(self, parts: Iterable[Sequence[EncodedRecord]]) -> None:
        self._parts = tuple(parts)

    def __len__(self) -> int:
        """Return the number of records."""
        return sum(map(len, self._parts))

    def __iter__(self) -> Iterator[EncodedRecord]:
        """Yield the records in order."""
        return chain.from_iterable(self._parts)

    def raw(self) -> Iterator[RawRecord]:
        """Yield the records in order, with encoded headers."""
        return chain.from_iterable(map(to_raw, self._parts))

    def __eq__(self, other: object) -> bool:
        """Return whether another sequence has the same records."""
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # as a list

    @overload
    def __getitem__(self, place: int) -> EncodedRecord: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[EncodedRecord]: ...
    def __getitem__(self, place: int | slice) -> EncodedRecord | Sequence[EncodedRecord]:
        """Return the record or the records at a place."""
        return tuple(self)[place]


class _EncodedAnswer(NamedTuple):
    """The status of an answer, and the end of its record (`AnswerWriter`)."""

    status: str
    end: bytes


class Answers(Sequence[EncodedRecord]):
    """The records of one monitor at one tick, which are built on demand.

    A million records take a gigabyte, and only one of them is needed at a time. `codes`: each place's answer among the
    `shared` ones. `own`: the other answers, by place.
    """

    def __init__(
        self,
        places: _Places,
        writer: OverTimeWriter,
        shared: Sequence[_EncodedAnswer],
        codes: NDArray[np.int64],
        own: Mapping[int, _EncodedAnswer],
    ) -> None:
        self._places = places
        self._writer = writer
        self._shared = shared
        self._codes = codes
        self._own = own

    def __len__(self) -> int:
        """Return the number of watched places."""
        return self._codes.size

    def count_statuses(self) -> Counter[str]:
        """Return the number of answers by status."""
        others = np.ones(len(self), np.bool_)
        others[list(self._own)] = False
        tally = Counter(answer.status for answer in self._own.values())
        for answer, number in zip(self._shared, np.bincount(self._codes[others], minlength=1).tolist(), strict=False):
            if number:
                tally[answer.status] += number
        return tally

    def find_unknown_shards(self) -> list[int]:
        """Return the shards that have an unknown answer."""
        unknown = np.array([answer.status == "unknown" for answer in self._shared], np.bool_)[self._codes]
        for place, answer in self._own.items():
            unknown[place] = answer.status == "unknown"
        return [shard for shard, places in self._places.by_shard.items() if unknown[places].any()]

    @overload
    def __getitem__(self, place: int) -> EncodedRecord: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[EncodedRecord]: ...
    def __getitem__(self, place: int | slice) -> EncodedRecord | Sequence[EncodedRecord]:
        """Return the record or the records at a place."""
        return list(self)[place]

    def __iter__(self) -> Iterator[EncodedRecord]:
        """Yield the records in order."""
        named = [name for name, _ in self._writer.headers].index("ce_id")
        before, after = tuple(self._writer.headers[:named]), tuple(self._writer.headers[named + 1 :])
        for key, value, ce_id in self._writer.write(self._encode_ends()):
            yield EncodedRecord(key, value, (*before, ("ce_id", ce_id), *after), self._writer.timestamp_ms)

    def raw(self) -> Iterator[RawRecord]:
        """Yield the records in order, with encoded headers.

        The headers of the records differ only in the ce_id. The others are encoded once, which is twice as fast.
        """
        (before, after), stamp, join = encode_around(self._writer.headers, "ce_id"), self._writer.timestamp_ms, b"".join
        for key, value, ce_id in self._writer.write(self._encode_ends()):
            yield key, value, join((before, encode_value(ce_id), after)), stamp

    def _encode_ends(self) -> Iterator[tuple[str, bytes]]:
        """Yield the location and the end of each record."""
        ends, own = [answer.end for answer in self._shared], self._own
        for begin in range(0, len(self), _PORTION):
            codes = self._codes[begin : begin + _PORTION].tolist()
            for at, (location, code) in enumerate(
                zip(self._places.locations[begin : begin + _PORTION], codes, strict=True), begin
            ):
                yield location, own[at].end if at in own else ends[code]


class _EncodedStanding:
    """The standing of a place, and its answers without a new mark. Each is encoded once, when it first occurs."""

    def __init__(self, lost_tick: int | None, standing: Standing) -> None:
        self.lost_tick = lost_tick
        self.standing = standing
        self._encoded: dict[str, _EncodedAnswer] = {}

    def is_valid_at(self, tick: int, lost_tick: int | None) -> bool:
        """Return whether the place has this standing at a tick."""
        return self.lost_tick == lost_tick and self.standing.since <= tick <= self.standing.until

    def encode(self, writer: AnswerWriter, kind: int, answer: OverTimeAnswer) -> _EncodedAnswer:
        """Return one of the standing's answers, encoded."""
        known = self._encoded.get(answer.status)
        if known is None:
            end = writer.write(kind, answer, encode_marks(self.standing.run))
            known = self._encoded[answer.status] = _EncodedAnswer(answer.status, end)
        return known


class _Places:
    """The watched places of one monitor and one ledger partition, in registry order.

    `kinds`: the number of each place's rule in `rules`, the distinct rules. `groups`: by ε of one answer, the places
    whose noise is drawn at this ε. `codes`: each place's first code in `Answers` (known; the next one is unknown).
    `thresholds`: each place's threshold. `by_shard`: the places of each shard.
    """

    def __init__(self, parameters: Parameters, monitor: OverTime, indices: Sequence[int]) -> None:
        registry = parameters.registry
        self.rows = [monitor.rows[n] for n in indices]
        self.locations = [registry.ids[row] for row in self.rows]
        self.rules: list[OverTimeRule] = []
        known: dict[OverTimeRule, int] = {}
        of_object: dict[int, int] = {}  # rules are slow to hash, and places share them
        self.kinds: list[int] = []
        for n in indices:
            rule = monitor.rules[n]
            kind = of_object.get(id(rule))
            if kind is None:
                kind = of_object[id(rule)] = known.setdefault(rule, len(known))
                self.rules[kind:] = self.rules[kind:] or [rule]
            self.kinds.append(kind)
        groups: dict[Fraction, list[int]] = {}
        epsilons = [rule.answer_epsilon for rule in self.rules]
        for at, kind in enumerate(self.kinds):
            groups.setdefault(epsilons[kind], []).append(at)
        self.groups = {epsilon: np.array(places, np.int64) for epsilon, places in groups.items()}
        self.codes = 2 * np.array(self.kinds, np.int64)
        self.thresholds = np.array([rule.threshold for rule in self.rules], np.int64)[self.codes // 2]
        rows = np.array(self.rows, np.int64)
        shards = registry.shard[rows]
        self.by_shard = {int(shard): np.flatnonzero(shards == shard) for shard in np.unique(shards)}
        self.rows_by_shard = {shard: rows[places] for shard, places in self.by_shard.items()}


class OverTimeDecider:
    """Decides the ticks of one `over_time` monitor for one ledger partition.

    Args:
        parameters: the parameters of the service.
        monitor: the monitor.
        number: its number among the `over_time` monitors, which is that of its window in the questions.
        shards: the shards of this ledger partition.
        noise: the source of one-sided noise.
    """

    def __init__(
        self, parameters: Parameters, monitor: OverTime, number: int, shards: Iterable[int], noise: Noise
    ) -> None:
        self._parameters = parameters
        self.monitor = monitor
        self._number = number
        self._noise = noise
        owned, shard = set(shards), parameters.registry.shard
        indices = [n for n, row in enumerate(monitor.rows) if int(shard[row]) in owned]
        self._places = _Places(parameters, monitor, indices)
        self._writer = AnswerWriter(parameters, self._places.rules)
        self._marked = np.zeros(len(indices), np.bool_)
        self._standings: dict[int, _EncodedStanding] = {}
        self._basis: tuple[LedgerState, int] | None = None

    def find_window(self, shard: int, tick: int) -> Window:
        """Return the window of the monitor's places in a shard."""
        rows = self._places.rows_by_shard.get(shard, ())
        return self._parameters.find_window_start(self.monitor.window, tick), rows

    def decide(self, tick: int, evidence: Evidence, state: LedgerState) -> Answers:
        """Draw every answer of a tick once, and record the spent ε in `state`.

        Most places have no marks, and a noisy count below the threshold. They share their answers, and are found with
        arrays, so that a place needs 0.1 µs instead of 3 µs. All others are decided one by one.
        """
        places = self._places
        lost_tick = None if state.lost_at is None else self._parameters.grid.find_slot(state.lost_at)
        self._check_basis(state)
        clear = [over_time.find_standing(rule, (), tick, lost_tick) for rule in places.rules]
        noise, (counts, known) = self._draw_noise(), self._count_people(tick, evidence, state)
        odd = (noise < 0) | (counts < 0)  # refused when they are decided
        single = np.flatnonzero(self._marked | odd | (known & (counts + noise >= places.thresholds)))
        own: dict[int, _EncodedAnswer] = {}
        for at, count, is_known, drawn in zip(
            *(each.tolist() for each in (single, counts[single], known[single], noise[single])), strict=True
        ):
            given = count if is_known else None
            if self._marked[at]:
                own[at] = self._decide_marked(at, tick, given, drawn, state, lost_tick)
                continue
            answer = over_time.decide_answer(
                places.rules[places.kinds[at]], clear[places.kinds[at]], tick, given, drawn
            )
            if answer.noisy_count is not None:
                own[at] = self._spend(at, answer, state)
        self._basis = state, state.revision
        shared = [
            self._encode(kind, over_time.decide_answer(rule, clear[kind], tick, count, 0))
            for kind, rule in enumerate(places.rules)
            for count in (0, None)
        ]
        writer = OverTimeWriter(self._parameters, self.monitor, tick)
        return Answers(places, writer, shared, places.codes + ~known, own)

    def _encode(self, kind: int, answer: OverTimeAnswer) -> _EncodedAnswer:
        return _EncodedAnswer(answer.status, self._writer.write(kind, answer, encode_marks(answer.marks)))

    def _check_basis(self, state: LedgerState) -> None:
        """Find the places with marks again if the marks of the state have changed since this decider's last tick."""
        basis = self._basis
        if basis is None or basis[0] is not state or basis[1] != state.revision:
            name = self.monitor.name
            self._standings.clear()
            self._marked[:] = [(name, location) in state.marks for location in self._places.locations]

    def _decide_marked(
        self,
        at: int,
        tick: int,
        count: int | None,
        noise: int,
        state: LedgerState,
        lost_tick: int | None,
    ) -> _EncodedAnswer:
        """Decide a place that has marks. Its standing is computed again only when it changes."""
        kind = self._places.kinds[at]
        rule, known = self._places.rules[kind], self._standings.get(at)
        if known is None or not known.is_valid_at(tick, lost_tick):
            name, location = self.monitor.name, self._places.locations[at]
            standing = over_time.find_standing(rule, state.find_marks(name, location), tick, lost_tick)
            if standing.run:
                state.spend(name, location, standing.run)  # a changed rule may have lengthened marks
            self._marked[at] = (name, location) in state.marks
            known = self._standings[at] = _EncodedStanding(lost_tick, standing)
        answer = over_time.decide_answer(rule, known.standing, tick, count, noise)
        return (
            known.encode(self._writer, kind, answer) if answer.noisy_count is None else self._spend(at, answer, state)
        )

    def _spend(self, at: int, answer: OverTimeAnswer, state: LedgerState) -> _EncodedAnswer:
        """Record the mark of a noisy answer. The earlier standing, even one without marks, is no longer valid."""
        self._standings.pop(at, None)
        self._marked[at] = True
        state.spend(self.monitor.name, self._places.locations[at], answer.marks)
        return self._encode(self._places.kinds[at], answer)

    def _draw_noise(self) -> NDArray[np.int64]:
        """Draw fresh noise for every location, whether or not it is used (docs/rules.md, rule 3): one draw per ε."""
        noise = np.zeros(len(self._places.rows), np.int64)
        for epsilon, places in self._places.groups.items():
            noise[places] = self._noise.geometric(epsilon, places.size)
        return noise

    def _count_people(
        self, tick: int, evidence: Evidence, state: LedgerState
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the number of distinct people in each window, and which of these numbers come from complete facts."""
        places, start = self._places, self._parameters.find_window_start(self.monitor.window, tick)
        counts = np.zeros(len(places.rows), np.int64)
        known = np.zeros(len(places.rows), np.bool_)
        for shard, at in places.by_shard.items():
            if _is_complete(shard, start, evidence, state):
                counts[at] = evidence.readings[shard].counts[self._number]
                known[at] = True
        return counts, known


def _is_complete(shard: int, start: int, evidence: Evidence, state: LedgerState) -> bool:
    """Return whether a shard has a reading whose windows from the slot `start` on contain all visits."""
    complete_from = evidence.find_complete_from(shard)
    return complete_from is not None and max(complete_from, find_input_since(state)) <= start
