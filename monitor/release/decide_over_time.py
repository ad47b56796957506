"""Decide one tick of one `over_time` monitor: counts, marks and noise become answers (Algorithm 3).

A tick decides every watched place, so this module keeps what does not change from tick to tick. The answers of a tick
are kept as objects that most places share, and become records only when they are appended. `over_time.step` decides
one place from its marks alone; the tests compare both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from typing import NamedTuple, overload

import numpy as np

from monitor.contracts.over_time_writer import NO_MARKS, OverTimeWriter, encode_marks
from monitor.privacy import over_time
from monitor.privacy.noise import Noise
from monitor.privacy.over_time import OverTimeAnswer, OverTimeRule, Standing
from monitor.public.parameters import OverTime, Parameters
from monitor.release.ledger import EncodedRecord
from monitor.release.readings import Evidence, input_since
from monitor.release.state import LedgerState


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


class _Answers(Sequence[EncodedRecord]):
    """The records of one monitor at one tick, which are built on demand.

    A million records take a gigabyte, and only one of them is needed at a time.
    """

    def __init__(self, places: _Places, writer: OverTimeWriter, answers: Sequence[_EncodedAnswer]) -> None:
        self._places = places
        self._writer = writer
        self._answers = answers

    def __len__(self) -> int:
        """Return the number of watched places."""
        return len(self._answers)

    @overload
    def __getitem__(self, place: int) -> EncodedRecord: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[EncodedRecord]: ...
    def __getitem__(self, place: int | slice) -> EncodedRecord | Sequence[EncodedRecord]:
        """Return the record or the records at a place."""
        places = range(len(self))[place]
        records = list(self._build(places if isinstance(places, range) else [places]))
        return records if isinstance(place, slice) else records[0]

    def __iter__(self) -> Iterator[EncodedRecord]:
        """Yield the records in order."""
        return self._build(range(len(self)))

    def _build(self, wanted: Iterable[int]) -> Iterator[EncodedRecord]:
        places, answers = self._places, self._answers
        written = self._writer.write((places.locations[at], places.kinds[at], *answers[at]) for at in wanted)
        return map(EncodedRecord._make, written)


class _EncodedAnswer(NamedTuple):
    """An answer, and its running marks as bytes of its record."""

    answer: OverTimeAnswer
    marks: bytes


class _EncodedStanding(NamedTuple):
    """The standing of a place, and its running marks as bytes of a record."""

    lost_tick: int | None
    standing: Standing
    marks: bytes


class _Places:
    """The watched places of one monitor and one ledger partition, in registry order.

    `kinds`: the number of each place's rule in `rules`, the distinct rules. `groups`: by ε of one answer, the places
    whose noise is drawn at it.
    """

    def __init__(self, parameters: Parameters, monitor: OverTime, indices: Sequence[int]) -> None:
        registry = parameters.registry
        self.rows = [monitor.rows[n] for n in indices]
        self.shards: list[int] = registry.shard[self.rows].tolist() if self.rows else []
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


class OverTimeDecider:
    """Decides the ticks of one `over_time` monitor for one ledger partition.

    Args:
        parameters: the parameters of the service.
        monitor: the monitor.
        shards: the shards of this ledger partition.
        noise: the source of one-sided noise.
    """

    def __init__(self, parameters: Parameters, monitor: OverTime, shards: Iterable[int], noise: Noise) -> None:
        self._parameters = parameters
        self.monitor = monitor
        self._noise = noise
        owned, shard = set(shards), parameters.registry.shard
        indices = [n for n, row in enumerate(monitor.rows) if int(shard[row]) in owned]
        self._places = _Places(parameters, monitor, indices)
        self._standings: dict[int, _EncodedStanding] = {}
        self._basis: tuple[LedgerState, int] | None = None

    def windows(self, tick: int) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield the shard and the window of each place: (row, first slot)."""
        start = self._parameters.window_start(self.monitor.window, tick)
        for shard, row in zip(self._places.shards, self._places.rows, strict=True):
            yield shard, (row, start)

    def decide(self, tick: int, evidence: Evidence, state: LedgerState) -> tuple[Sequence[EncodedRecord], list[str]]:
        """Draw every answer of a tick once, and record the spent ε in `state`; return the records and the statuses."""
        places, monitor, parameters = self._places, self.monitor, self._parameters
        lost_tick = None if state.lost_at is None else parameters.grid.slot_of(state.lost_at)
        self._check_basis(state)
        clear = [over_time.find_standing(rule, (), tick, lost_tick) for rule in places.rules]
        noise, counts = self._draw_noise(), self._counts(tick, evidence, state)
        encoded: list[_EncodedAnswer] = []
        shared: dict[
            int, _EncodedAnswer
        ] = {}  # places without marks share their answers; the key is the answer's identity
        for at, (location, kind, count, drawn) in enumerate(
            zip(places.locations, places.kinds, counts, noise, strict=True)
        ):
            if (monitor.name, location) in state.marks:
                encoded.append(self._decide_marked(at, tick, count, drawn, state, lost_tick))
                continue
            answer = over_time.answer(places.rules[kind], clear[kind], tick, count, drawn)
            if answer.noisy_count is not None:
                encoded.append(self._spend(at, answer, state))
            else:
                encoded.append(
                    shared.get(id(answer)) or shared.setdefault(id(answer), _EncodedAnswer(answer, NO_MARKS))
                )
        self._basis = state, state.revision
        writer = OverTimeWriter(parameters, monitor, places.rules, tick)
        return _Answers(places, writer, encoded), [each.answer.status for each in encoded]

    def _check_basis(self, state: LedgerState) -> None:
        """Forget the standings if the marks of the state have changed since the last tick of this decider."""
        basis = self._basis
        if basis is None or basis[0] is not state or basis[1] != state.revision:
            self._standings.clear()

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
        name, location, rule = self.monitor.name, self._places.locations[at], self._places.rules[self._places.kinds[at]]
        known = self._standings.get(at)
        if known is None or known.lost_tick != lost_tick or not known.standing.since <= tick <= known.standing.until:
            standing = over_time.find_standing(rule, state.marks_of(name, location), tick, lost_tick)
            state.spend(name, location, standing.run)  # a changed rule may have lengthened marks
            known = self._standings[at] = _EncodedStanding(lost_tick, standing, encode_marks(standing.run))
        answer = over_time.answer(rule, known.standing, tick, count, noise)
        if answer.noisy_count is None:
            return _EncodedAnswer(answer, known.marks)
        return self._spend(at, answer, state)

    def _spend(self, at: int, answer: OverTimeAnswer, state: LedgerState) -> _EncodedAnswer:
        """Record the mark of a noisy answer. The earlier standing, even one without marks, is no longer valid."""
        self._standings.pop(at, None)
        state.spend(self.monitor.name, self._places.locations[at], answer.marks)
        return _EncodedAnswer(answer, encode_marks(answer.marks))

    def _draw_noise(self) -> Sequence[int]:
        """Draw fresh noise for every location, whether or not it is used (docs/rules.md, rule 3): one draw per ε."""
        noise = np.zeros(len(self._places.rows), np.int64)
        for epsilon, places in self._places.groups.items():
            noise[places] = self._noise.geometric(epsilon, places.size)
        drawn: list[int] = noise.tolist()
        return drawn

    def _counts(self, tick: int, evidence: Evidence, state: LedgerState) -> Iterator[int | None]:
        """Yield the distinct people in each window; None if visits reported before as_of may be missing."""
        start = self._parameters.window_start(self.monitor.window, tick)
        known = {shard: _known_counts(shard, start, evidence, state) for shard in set(self._places.shards)}
        for shard, row in zip(self._places.shards, self._places.rows, strict=True):
            counts = known[shard]
            yield None if counts is None else counts[row, start]


def _known_counts(
    shard: int, start: int, evidence: Evidence, state: LedgerState
) -> Mapping[tuple[int, int], int] | None:
    """Return the counts of a shard; None if windows from the slot `start` on may lack visits."""
    complete_from = evidence.complete_from(shard)
    if complete_from is None or max(complete_from, input_since(state)) > start:
        return None
    return evidence.readings[shard].counts
