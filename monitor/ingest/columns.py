"""Visits in bulk: one list or array per key, so that acceptance is arithmetic on arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.contracts.dead_letters import visit_payload
from monitor.contracts.visits import Fault, Reason, open_record


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record (`index` None) or one visit of it that becomes a dead letter.

    `record`: place of the record in what was decoded; `index`: place of the visit in the record. `payload`: the raw
    bytes of a whole record, or the visit as JSON. Holds personal data: never to be logged.
    """

    record: int
    index: int | None
    fault: Fault
    payload: bytes

    @property
    def reason(self) -> Reason:
        """Why, of the closed list."""
        return self.fault.reason

    @property
    def error(self) -> str:
        """Why, in words that hold nothing of the visit."""
        return self.fault.error


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
    values: Sequence[bytes | None]


def refuse(values: Sequence[bytes | None], faults: Iterable[tuple[int, int, Fault]]) -> list[Refusal]:
    """Make refusals of single visits, given as (record, index, fault), opening each record once for its visits.

    The visit is told as it was sent, with all of its keys.
    """
    refused: list[Refusal] = []
    opened, visits = -1, open_record(b"[]")
    for record, index, fault in sorted(faults):
        if record != opened:
            opened, visits = record, open_record(values[record])
        payload = b"" if isinstance(visits, Fault) else visit_payload(visits[index])
        refused.append(Refusal(record, index, fault, payload))
    return refused
