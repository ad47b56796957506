"""Visits in bulk: one list or array per field, so that acceptance is arithmetic on arrays."""

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
from monitor.kafka.kafka_python_3_0.batches import Unreadable

Value = bytes | Unreadable | None
"""A record's value, None for a tombstone, or the placeholder of unreadable records."""

SINGLE: Final = 100
"""The most dead letters for single visits of one record. One more dead letter covers its other refused visits."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record, or one visit of it, that becomes a dead letter. It contains personal data: never log it.

    `record`: the index of the record among the decoded records. `index`: the index of the visit in the record, None for
    the whole record. `payload`: the raw bytes of a whole record, or the visit as JSON. `several`: if the refusal covers
    several visits, their number by reason; then `index` is the index of the first, and `payload` is the whole record.
    """

    record: int
    index: int | None
    fault: Fault
    payload: bytes
    several: Mapping[Reason, int] | None = None

    @property
    def reason(self) -> Reason:
        """The reason, from the closed list."""
        return self.fault.reason

    @property
    def error(self) -> str:
        """The reason in words, without any content of the visit."""
        return self.fault.error

    @property
    def count(self) -> int:
        """The number of records or visits that it covers."""
        return sum(self.several.values()) if self.several else 1


@dataclass(frozen=True, slots=True)
class Columns:
    """The n valid visits of decoded records, and the refusals, in the order of the records.

    `persons`, `locations`: ids, n each. `arrived`, `left`: instants, shape (n,), left ≥ arrived. `record`, `index`: the
    index of each visit's record, and of the visit in it, shape (n,). `values`: the values of the decoded records.
    `consent`: whether each visit consents to lower bounds, shape (n,); None if no monitor publishes lower bounds.
    """

    persons: list[str]
    locations: list[str]
    arrived: NDArray[np.int64]
    left: NDArray[np.int64]
    record: NDArray[np.int64]
    index: NDArray[np.int64]
    refused: list[Refusal]
    values: Sequence[Value]
    consent: NDArray[np.bool_] | None = None


def count_by_reason(refused: Iterable[Refusal]) -> Counter[str]:
    """Count the refused records and visits by reason."""
    counts: Counter[str] = Counter()
    for refusal in refused:
        for reason, count in (refusal.several or {refusal.reason: 1}).items():
            counts[reason.value] += count
    return counts


def refuse_unreadable(record: int, value: Unreadable) -> Refusal:
    """Return the refusal of the unreadable records of a batch."""
    return Refusal(record, None, value.fault, value.raw, {Reason.UNREADABLE_BATCH: value.records})


def refuse(
    values: Sequence[Value],
    faults: Iterable[tuple[int, int, Fault]],
    more: Mapping[int, tuple[int, Mapping[Reason, int]]] | None = None,
) -> list[Refusal]:
    """Return the refusals of single visits, in the order of the records.

    The payload of a refusal is the visit as it was sent, with all of its fields. If many visits of a record are
    refused, only the first ones have their own refusal, and one more covers the others, so that junk cannot flood the
    dead-letter topic.

    Args:
        values: the values of the records.
        faults: the refused visits as (record, index, fault).
        more: by record, further refused visits: the index of the first, and their number by reason.
    """
    refused: list[Refusal] = []
    more = more or {}
    for record, group in groupby(sorted(faults), key=itemgetter(0)):
        of_record = list(group)
        value = values[record]
        raw = value if isinstance(value, bytes) else b""
        visits = open_record(raw)
        for _record, index, fault in of_record[:SINGLE]:
            payload = b"" if isinstance(visits, Fault) else encode_visit(visits[index])
            refused.append(Refusal(record, index, fault, payload))
        others = Counter(fault.reason for _record, _index, fault in of_record[SINGLE:])
        first = of_record[SINGLE][1] if others else None
        if record in more:
            at, counted = more[record]
            others.update(counted)
            first = at if first is None else min(first, at)
        if first is not None:
            refused.append(_refuse_others(record, first, others, raw))
    return refused


def _refuse_others(record: int, index: int, several: Mapping[Reason, int], raw: bytes) -> Refusal:
    counts = ", ".join(f"{count} {reason.value}" for reason, count in sorted(several.items()))
    error = f"visits: expected valid visits; refused besides {SINGLE} others of this record: {counts}"
    return Refusal(record, index, Fault(Reason.OTHERS_REFUSED, error), raw, several)
