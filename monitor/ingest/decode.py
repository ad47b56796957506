"""Turn records into visits, in two ways with equal results.

`decode` follows the contract, one visit at a time. `decode_records` works in bulk: msgspec reads records that have only
known keys, the contract's parser reads the others, and ids and times are checked in bulk. The contract (`read_visit`)
decides each doubtful visit, independently of all others (docs/rules.md, rule 7).
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
from monitor.ingest.columns import SINGLE, Columns, Refusal, Value, refuse, refuse_unreadable
from monitor.ingest.identifiers import check_identifiers
from monitor.ingest.parse_times import parse_instants
from monitor.kafka.kafka_python_3_0.batches import Unreadable

__all__ = ["LONGEST_STAY", "Columns", "Decoded", "Refusal", "decode", "decode_records"]

LONGEST_STAY: Final = 2**61
"""The limit of the default stay in microseconds (73,000 years), so that sums fit 64 bits."""

_PLACEHOLDER: Final = "1970-01-01T00:00:00Z"


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


class _Visit(Struct, forbid_unknown_fields=True, gc=False):
    person_id: str
    location_id: str
    arrived_at: str
    left_at: str | None = None
    consent: bool = False


class _Record(Struct, forbid_unknown_fields=True, gc=False):
    """A batch, or a bare visit. With `visits` it is a batch. The contract's parser reads all other records."""

    visits: list[_Visit] | UnsetType = UNSET
    batch_id: str | UnsetType = UNSET
    person_id: str | UnsetType = UNSET
    location_id: str | UnsetType = UNSET
    arrived_at: str | UnsetType = UNSET
    left_at: str | UnsetType | None = UNSET
    consent: bool = False


@dataclass(frozen=True, slots=True)
class _Gathered:
    """Visits whose fields have the right types, and refusals.

    `counts`: the number of visits by record. `gaps`: for each record whose visits are not at the places 0, 1, 2, …, the
    index of its first visit in `visits`, and the places of its visits. `more`: for each record with many invalid
    visits, the place of the first one that is not in `faults`, and the number of all such visits by reason.
    """

    visits: list[_Visit] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    gaps: list[tuple[int, list[int]]] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    faults: list[tuple[int, int, Fault]] = field(default_factory=list)
    more: dict[int, tuple[int, Counter[Reason]]] = field(default_factory=dict)


def _read_bare(record: _Record) -> list[_Visit] | None:
    """Return the visit of a record with the keys of a bare visit; None for other records."""
    person, location, arrived = record.person_id, record.location_id, record.arrived_at
    if isinstance(person, UnsetType) or isinstance(location, UnsetType) or isinstance(arrived, UnsetType):
        return None
    left = record.left_at
    return [_Visit(person, location, arrived, None if isinstance(left, UnsetType) else left, record.consent)]


_decode = msgspec.json.Decoder(_Record).decode


def _read_fast(value: Value) -> list[_Visit] | None:
    """Return a record's visits if it has only known keys of the right types; None otherwise."""
    try:
        record = _decode(value)  # type: ignore[arg-type]  # other values raise TypeError
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError):
        return None
    if record.visits is UNSET:
        return _read_bare(record)
    return record.visits


def _to_visit(item: dict[str, Any]) -> _Visit | None:
    """Return a visit if the known keys exist with the right types; None otherwise."""
    person, location, arrived = item.get("person_id"), item.get("location_id"), item.get("arrived_at")
    left, consent = item.get("left_at"), item.get("consent", False)
    if type(person) is type(location) is type(arrived) is str and (left is None or type(left) is str):
        return _Visit(person, location, arrived, left, consent) if type(consent) is bool else None
    return None


def _read_slowly(record: int, value: Value, gathered: _Gathered) -> list[_Visit]:
    """Return a record's visits as the contract's parser reads them, and refuse each invalid visit."""
    if isinstance(value, Unreadable):
        gathered.refused.append(refuse_unreadable(record, value))
        return []
    opened = open_record(value)
    if isinstance(opened, Fault):
        gathered.refused.append(Refusal(record, None, opened, value or b""))
        return []
    likely = [index for index, item in enumerate(opened) if type(item) is dict and len(item) >= len(REQUIRED)]
    if len(likely) < len(opened):
        _refuse_junk(record, opened, len(opened) - len(likely), gathered)
    visits, indexes = [], []
    for index in likely:
        visit = _to_visit(opened[index])
        if visit is not None:
            visits.append(visit)
            indexes.append(index)
        elif isinstance(fault := read_visit(opened[index]), Fault):
            gathered.faults.append((record, index, fault))
    if len(indexes) < len(opened):
        gathered.gaps.append((len(gathered.visits), indexes))
    return visits


def _refuse_junk(record: int, opened: list[Any], count: int, gathered: _Gathered) -> None:
    """Refuse items with too few keys for a visit. Only items that get a separate dead letter are read."""
    indexes = (index for index, item in enumerate(opened) if type(item) is not dict or len(item) < len(REQUIRED))
    for index in islice(indexes, SINGLE):
        fault = read_visit(opened[index])
        if isinstance(fault, Fault):  # always true; narrows the type
            gathered.faults.append((record, index, fault))
    if count > SINGLE:
        gathered.more[record] = next(indexes), Counter({Reason.NOT_A_VISIT: count - SINGLE})


def _gather(values: Sequence[Value]) -> _Gathered:
    gathered = _Gathered()
    visits, counts = gathered.visits, gathered.counts
    for record, value in enumerate(values):
        of_record = _read_fast(value)
        if of_record is None:
            of_record = _read_slowly(record, value, gathered)
        visits += of_record
        counts.append(len(of_record))
    return gathered


def _locate_visits(gathered: _Gathered) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the record of each visit, and the visit's place in it."""
    counts = np.array(gathered.counts, np.int64)
    record = np.repeat(np.arange(counts.size), counts)
    index = np.arange(record.size) - np.repeat(np.cumsum(counts) - counts, counts)
    for start, indexes in gathered.gaps:
        index[start : start + len(indexes)] = indexes
    return record, index


def _parse_departures(
    texts: list[str | None], arrived: NDArray[np.int64], default_stay: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return when visits ended, and which texts were understood. A missing end is the arrival plus the default stay."""
    try:
        return parse_instants(texts)  # type: ignore[arg-type]  # joining raises TypeError where one is missing
    except TypeError:
        given = np.array([text is not None for text in texts], np.bool_)
    left, fits = parse_instants([_PLACEHOLDER if text is None else text for text in texts])
    return np.where(given, left, arrived + min(default_stay, LONGEST_STAY)), fits


def decode_records(values: Sequence[Value], default_stay: int, *, with_consent: bool = False) -> Columns:
    """Read many records at once, and return as columns the visits and refusals that `decode` finds in each record.

    Args:
        values: the values of the records, None for a tombstone, and placeholders of unreadable records.
        default_stay: the duration of a visit without `left_at`, in microseconds.
        with_consent: whether to fill in the column of consent. `consent` is validated in any case.
    """
    gathered = _gather(values)
    visits = gathered.visits
    persons = [visit.person_id for visit in visits]
    locations = [visit.location_id for visit in visits]
    arrived, fits = parse_instants([visit.arrived_at for visit in visits])
    left, left_fits = _parse_departures([visit.left_at for visit in visits], arrived, default_stay)
    fits &= left_fits & check_identifiers(persons) & check_identifiers(locations) & (left >= arrived)
    record, index = _locate_visits(gathered)
    consent = np.array([visit.consent for visit in visits], np.bool_) if with_consent else None
    columns = Columns(persons, locations, arrived, left, record, index, gathered.refused, values, consent)
    if not fits.all():
        columns = _decide_doubtful(columns, gathered, np.flatnonzero(~fits), default_stay)
    if gathered.faults:
        columns.refused.extend(refuse(values, gathered.faults, gathered.more))
        columns.refused.sort(key=lambda refusal: (refusal.record, -1 if refusal.index is None else refusal.index))
    return columns


def _decide_doubtful(columns: Columns, gathered: _Gathered, doubtful: NDArray[np.int64], default_stay: int) -> Columns:
    """Read doubtful visits by the contract: fill in their times, and remove those that it refuses."""
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
        None if columns.consent is None else columns.consent[keep],
    )
