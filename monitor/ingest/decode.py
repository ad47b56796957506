"""Records to visits, in two ways that agree.

`decode` follows the contract, one visit at a time. `decode_records` does the same in bulk: msgspec reads records of
exactly the known keys, whatever it does not like is read as the contract reads it, and ids and times are looked at
all together; a visit that leaves any doubt is judged by the contract (`read_visit`), alone (docs/rules.md, rule 7).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import UNSET, Struct, UnsetType
from numpy.typing import NDArray

from monitor.contracts.visits import REQUIRED, Fault, Reason, Visit, open_record, read_visit
from monitor.ingest.batches import Unreadable
from monitor.ingest.columns import SINGLE, Columns, Refusal, Value, refuse, unreadable
from monitor.ingest.identifiers import valid_identifiers
from monitor.ingest.parse_times import parse_instants

__all__ = ["LONGEST_STAY", "Columns", "Decoded", "Refusal", "decode", "decode_records"]

LONGEST_STAY: Final = 2**61
"""Longer default stays end there, so that sums fit 64 bits (microseconds: 73,000 years)."""

_PLACEHOLDER: Final = "1970-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Decoded:
    """One record as the contract reads it: (index, visit) and (index, fault); index None for the whole record."""

    visits: list[tuple[int, Visit]]
    faults: list[tuple[int | None, Fault]]


def decode(value: bytes | None) -> Decoded:
    """Read one record by the contract, visit by visit."""
    opened = open_record(value)
    if isinstance(opened, Fault):
        return Decoded([], [(None, opened)])
    decoded = Decoded([], [])
    for index, item in enumerate(opened):
        read = read_visit(item)
        if isinstance(read, Fault):
            decoded.faults.append((index, read))
        else:
            decoded.visits.append((index, read))
    return decoded


class _Visit(Struct, forbid_unknown_fields=True, gc=False):
    person_id: str
    location_id: str
    arrived_at: str
    left_at: str | None = None


class _Record(Struct, forbid_unknown_fields=True, gc=False):
    """A batch, or a bare visit; what is neither is left to the contract, and with `visits` it is a batch."""

    visits: list[_Visit] | UnsetType = UNSET
    batch_id: str | UnsetType = UNSET
    person_id: str | UnsetType = UNSET
    location_id: str | UnsetType = UNSET
    arrived_at: str | UnsetType = UNSET
    left_at: str | UnsetType | None = UNSET


@dataclass(frozen=True, slots=True)
class _Gathered:
    """Visits whose keys have the right types: `counts` by record, `gaps` where a record's places are not 0, 1, 2.

    `more`: where a record has many that are none, how many by reason beside those in `faults`, and the first's place.
    """

    visits: list[_Visit] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    gaps: list[tuple[int, list[int]]] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    faults: list[tuple[int, int, Fault]] = field(default_factory=list)
    more: dict[int, tuple[int, Counter[Reason]]] = field(default_factory=dict)


def _bare(record: _Record) -> list[_Visit] | None:
    """A bare visit of exactly the known keys."""
    person, location, arrived = record.person_id, record.location_id, record.arrived_at
    if isinstance(person, UnsetType) or isinstance(location, UnsetType) or isinstance(arrived, UnsetType):
        return None
    left = record.left_at
    return [_Visit(person, location, arrived, None if isinstance(left, UnsetType) else left)]


_decode = msgspec.json.Decoder(_Record).decode


def _fast(value: Value) -> list[_Visit] | None:
    """A record's visits, if it holds nothing but known keys of the right types; None for any doubt."""
    try:
        record = _decode(value)  # type: ignore[arg-type]  # what is no bytes raises TypeError, like any other doubt
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError):
        return None
    if record.visits is UNSET:
        return _bare(record)
    return record.visits


def _typed(item: dict[str, Any]) -> _Visit | None:
    """A visit as the contract's parser read it, if its known keys are there with the right types."""
    person, location, arrived = item.get("person_id"), item.get("location_id"), item.get("arrived_at")
    left = item.get("left_at")
    if type(person) is type(location) is type(arrived) is str and (left is None or type(left) is str):
        return _Visit(person, location, arrived, left)
    return None


def _slow(record: int, value: Value, gathered: _Gathered) -> list[_Visit]:
    """A record's visits as the contract's parser reads it; what is none is refused alone."""
    if isinstance(value, Unreadable):
        gathered.refused.append(unreadable(record, value))
        return []
    opened = open_record(value)
    if isinstance(opened, Fault):
        gathered.refused.append(Refusal(record, None, opened, value or b""))
        return []
    likely = [index for index, item in enumerate(opened) if type(item) is dict and len(item) >= len(REQUIRED)]
    if len(likely) < len(opened):
        _junk(record, opened, len(opened) - len(likely), gathered)
    visits, indexes = [], []
    for index in likely:
        visit = _typed(opened[index])
        if visit is not None:
            visits.append(visit)
            indexes.append(index)
        elif isinstance(fault := read_visit(opened[index]), Fault):
            gathered.faults.append((record, index, fault))
    if len(indexes) < len(opened):
        gathered.gaps.append((len(gathered.visits), indexes))
    return visits


def _junk(record: int, opened: list[Any], count: int, gathered: _Gathered) -> None:
    """Refuse what has too few keys for a visit: at most so many are looked at as become dead letters of their own."""
    indexes = (index for index, item in enumerate(opened) if type(item) is not dict or len(item) < len(REQUIRED))
    for index in islice(indexes, SINGLE):
        fault = read_visit(opened[index])
        if isinstance(fault, Fault):  # it always is
            gathered.faults.append((record, index, fault))
    if count > SINGLE:
        gathered.more[record] = next(indexes), Counter({Reason.NOT_A_VISIT: count - SINGLE})


def _gather(values: Sequence[Value]) -> _Gathered:
    gathered = _Gathered()
    visits, counts = gathered.visits, gathered.counts
    for record, value in enumerate(values):
        found = _fast(value)
        if found is None:
            found = _slow(record, value, gathered)
        visits += found
        counts.append(len(found))
    return gathered


def _places(gathered: _Gathered) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Record, and place in the record, of each visit."""
    counts = np.array(gathered.counts, np.int64)
    record = np.repeat(np.arange(counts.size), counts)
    index = np.arange(record.size) - np.repeat(np.cumsum(counts) - counts, counts)
    for start, indexes in gathered.gaps:
        index[start : start + len(indexes)] = indexes
    return record, index


def _departures(
    texts: list[str | None], arrived: NDArray[np.int64], default_stay: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """When visits ended; those that don't say last for the default stay."""
    try:
        return parse_instants(texts)  # type: ignore[arg-type]  # joining raises TypeError where one is missing
    except TypeError:
        given = np.array([text is not None for text in texts], np.bool_)
    left, fits = parse_instants([_PLACEHOLDER if text is None else text for text in texts])
    return np.where(given, left, arrived + min(default_stay, LONGEST_STAY)), fits


def decode_records(values: Sequence[Value], default_stay: int) -> Columns:
    """Read many records at once: the same visits and refusals as `decode` of each, as columns.

    Args:
        values: the records' values, None for a tombstone; and what stands for records that nobody can read.
        default_stay: how long a visit without `left_at` lasts, in microseconds.
    """
    gathered = _gather(values)
    visits = gathered.visits
    persons = [visit.person_id for visit in visits]
    locations = [visit.location_id for visit in visits]
    arrived, fits = parse_instants([visit.arrived_at for visit in visits])
    left, left_fits = _departures([visit.left_at for visit in visits], arrived, default_stay)
    fits &= left_fits & valid_identifiers(persons) & valid_identifiers(locations) & (left >= arrived)
    record, index = _places(gathered)
    columns = Columns(persons, locations, arrived, left, record, index, gathered.refused, values)
    if not fits.all():
        columns = _judged(columns, gathered, np.flatnonzero(~fits), default_stay)
    if gathered.faults:
        columns.refused.extend(refuse(values, gathered.faults, gathered.more))
        columns.refused.sort(key=lambda refusal: (refusal.record, -1 if refusal.index is None else refusal.index))
    return columns


def _judged(columns: Columns, gathered: _Gathered, doubtful: NDArray[np.int64], default_stay: int) -> Columns:
    """Let the contract judge doubtful visits: fill in what it reads, take out what it refuses."""
    keep = np.ones(len(columns.persons), np.bool_)
    for place in doubtful.tolist():
        visit = read_visit(msgspec.structs.asdict(gathered.visits[place]))
        if isinstance(visit, Fault):
            keep[place] = False
            gathered.faults.append((int(columns.record[place]), int(columns.index[place]), visit))
            continue
        stay = min(default_stay, LONGEST_STAY)
        columns.arrived[place] = visit.arrived_at
        columns.left[place] = visit.arrived_at + stay if visit.left_at is None else visit.left_at
    if keep.all():
        return columns
    kept = np.flatnonzero(keep).tolist()
    return Columns(
        [columns.persons[place] for place in kept],
        [columns.locations[place] for place in kept],
        columns.arrived[keep],
        columns.left[keep],
        columns.record[keep],
        columns.index[keep],
        columns.refused,
        columns.values,
    )
