"""Visits in bulk: one list or array per key, so that acceptance is arithmetic on arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.contracts.dead_letters import encode_visit
from monitor.contracts.visits import Fault, Reason, open_record
from monitor.ingest.batches import Unreadable

Value = bytes | Unreadable | None
"""What the reader got: a record's value, None for a tombstone, or what stands for records that nobody can read."""

SINGLE: Final = 100
"""How many refused visits of one record are dead letters of their own; one more tells of all others."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record (`index` None) or one visit of it that becomes a dead letter.

    `record`: place of the record in what was decoded; `index`: place of the visit in the record. `payload`: the raw
    bytes of a whole record, or the visit as JSON. Holds personal data: never to be logged. `several`: of a refusal that
    tells of more than one, how many by reason; `index` is then the first visit's place, and `payload` the whole record.
    """

    record: int
    index: int | None
    fault: Fault
    payload: bytes
    several: Mapping[Reason, int] | None = None

    @property
    def reason(self) -> Reason:
        """Why, of the closed list."""
        return self.fault.reason

    @property
    def error(self) -> str:
        """Why, in words that hold nothing of the visit."""
        return self.fault.error

    @property
    def count(self) -> int:
        """How many records or visits it tells of."""
        return sum(self.several.values()) if self.several else 1


@dataclass(frozen=True, slots=True)
class Columns:
    """Visits that are valid by themselves, n of them, and what was refused, in the order of the records.

    `persons`, `locations`: ids, n each. `arrived`, `left`: instants, shape (n,), left ≥ arrived. `record`, `index`:
    where each visit comes from, shape (n,). `values`: the records that all were decoded from.
    """

    persons: list[str]
    locations: list[str]
    arrived: NDArray[np.int64]
    left: NDArray[np.int64]
    record: NDArray[np.int64]
    index: NDArray[np.int64]
    refused: list[Refusal]
    values: Sequence[Value]


def by_reason(refused: Iterable[Refusal]) -> Counter[str]:
    """How many records and visits were refused, by reason."""
    told: Counter[str] = Counter()
    for refusal in refused:
        for reason, count in (refusal.several or {refusal.reason: 1}).items():
            told[reason.value] += count
    return told


def unreadable(record: int, value: Unreadable) -> Refusal:
    """The refusal of all records of a batch that could not be read."""
    return Refusal(record, None, value.fault, value.known, {Reason.UNREADABLE_BATCH: value.records})


def refuse(
    values: Sequence[Value],
    faults: Iterable[tuple[int, int, Fault]],
    more: Mapping[int, tuple[int, Mapping[Reason, int]]] | None = None,
) -> list[Refusal]:
    """Make refusals of single visits, given as (record, index, fault), opening each record once for its visits.

    The visit is told as it was sent, with all of its keys. Of many in one record, the first ones are told so, and one
    refusal tells of the others: junk must not cost a dead letter each. `more`: by record, further visits that were
    refused, as the place of the first and how many by reason.
    """
    refused: list[Refusal] = []
    more = more or {}
    for record, group in groupby(sorted(faults), key=itemgetter(0)):
        found = list(group)
        value = values[record]
        raw = value if isinstance(value, bytes) else b""
        visits = open_record(raw)
        for _record, index, fault in found[:SINGLE]:
            payload = b"" if isinstance(visits, Fault) else encode_visit(visits[index])
            refused.append(Refusal(record, index, fault, payload))
        others = Counter(fault.reason for _record, _index, fault in found[SINGLE:])
        first = found[SINGLE][1] if others else None
        if record in more:
            at, counted = more[record]
            others.update(counted)
            first = at if first is None else min(first, at)
        if first is not None:
            refused.append(_others(record, first, others, raw))
    return refused


def _others(record: int, index: int, several: Mapping[Reason, int], raw: bytes) -> Refusal:
    told = ", ".join(f"{count} {reason.value}" for reason, count in sorted(several.items()))
    error = f"visits: expected none that is refused; beside {SINGLE} others of this record: {told}"
    return Refusal(record, index, Fault(Reason.OTHERS_REFUSED, error), raw, several)
