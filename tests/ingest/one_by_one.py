"""Records decoded by the contract, one visit at a time: the expectation of tests of decoding in bulk."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.records.visit_contract import Fault, Visit, open_record, read_visit


@dataclass(frozen=True, slots=True)
class Decoded:
    """A record as the contract reads it: (index, visit) and (index, fault); index None for the whole record."""

    visits: list[tuple[int, Visit]]
    faults: list[tuple[int | None, Fault]]


def decode(value: bytes | None) -> Decoded:
    """Read one record by the contract, visit by visit."""
    opened = open_record(value)
    if isinstance(opened, Fault):
        return Decoded([], [(None, opened)])
    decoded = Decoded([], [])
    for index, item in enumerate(opened):
        visit = read_visit(item)
        if isinstance(visit, Fault):
            decoded.faults.append((index, visit))
        else:
            decoded.visits.append((index, visit))
    return decoded
