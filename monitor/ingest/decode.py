"""Turn records into visits. msgspec reads records that have only known keys, and ids and times are checked in bulk.

The contract (`monitor.contracts.visits`) reads all other records, and decides each doubtful visit, independently of all
others (docs/rules.md, rule 7). So the result is that of the contract.
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

from monitor.contracts.visits import ID_BYTES, REQUIRED, Fault, Reason, is_identifier, open_record, read_visit
from monitor.ingest.columns import SINGLE, Columns, Refusal, Value, refuse, refuse_unreadable
from monitor.kafka.kafka_python_3_0.batches import Unreadable

LONGEST_STAY: Final = 2**61
"""The limit of the default stay in microseconds (73,000 years), so that sums fit 64 bits."""

_LEAST: Final = "0000-00-00T00:00:00Z"
_MOST: Final = "9999-99-99T99:99:99Z"
"""The common form of times: each character is between those of `_LEAST` and `_MOST`."""

_DAYS: Final = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 0], np.uint8)
"""The number of days of each month, 0 for months that do not exist."""

_LONGEST_CHARACTER: Final = 4  # bytes of UTF-8


class _Visit(Struct, forbid_unknown_fields=True, gc=False):
    person_id: str
    location_id: str
    arrived_at: str
    left_at: str | None = None
    consent: bool = False


class _Batch(Struct, forbid_unknown_fields=True, gc=False):
    visits: list[_Visit]
    batch_id: str | UnsetType = UNSET


_read_batch = msgspec.json.Decoder(_Batch).decode
_read_single = msgspec.json.Decoder(_Visit).decode


@dataclass(frozen=True, slots=True)
class _Gathered:
    """Visits whose fields have the right types, a list for each field; and refusals.

    `counts`: the number of visits by record. `gaps`: for each record whose visits do not have the indexes 0, 1, 2, …,
    the index of its first visit in the lists, and the indexes of its visits. `more`: for each record with many invalid
    visits, the index of the first one that is not in `faults`, and the number of all such visits by reason.
    """

    persons: list[str] = field(default_factory=list)
    locations: list[str] = field(default_factory=list)
    arrived: list[str] = field(default_factory=list)
    left: list[str | None] = field(default_factory=list)
    consent: list[bool] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    gaps: list[tuple[int, list[int]]] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    faults: list[tuple[int, int, Fault]] = field(default_factory=list)
    more: dict[int, tuple[int, Counter[Reason]]] = field(default_factory=dict)

    def add(self, visits: list[_Visit]) -> None:
        """Add the visits of the next record. Their fields are read while the visits are in the processor's cache."""
        self.persons.extend([visit.person_id for visit in visits])
        self.locations.extend([visit.location_id for visit in visits])
        self.arrived.extend([visit.arrived_at for visit in visits])
        self.left.extend([visit.left_at for visit in visits])
        self.consent.extend([visit.consent for visit in visits])
        self.counts.append(len(visits))


def _read_known(value: Value) -> list[_Visit] | None:
    """Return a record's visits if it has only known keys of the right types; None otherwise."""
    if not isinstance(value, bytes):
        return None
    try:
        return _read_batch(value).visits if b'"visits"' in value else [_read_single(value)]
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _to_visit(item: dict[str, Any]) -> _Visit | None:
    """Return a visit if the known keys exist with the right types; None otherwise."""
    person, location, arrived = item.get("person_id"), item.get("location_id"), item.get("arrived_at")
    left, consent = item.get("left_at"), item.get("consent", False)
    if type(person) is type(location) is type(arrived) is str and (left is None or type(left) is str):
        return _Visit(person, location, arrived, left, consent) if type(consent) is bool else None
    return None


def _read_by_contract(record: int, value: Value, gathered: _Gathered) -> list[_Visit]:
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
        gathered.gaps.append((len(gathered.persons), indexes))
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
    for record, value in enumerate(values):
        visits = _read_known(value)
        gathered.add(_read_by_contract(record, value, gathered) if visits is None else visits)
    return gathered


def _locate_visits(gathered: _Gathered) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the record of each visit, and the visit's index in it."""
    counts = np.array(gathered.counts, np.int64)
    record = np.repeat(np.arange(counts.size), counts)
    index = np.arange(record.size) - np.repeat(np.cumsum(counts) - counts, counts)
    for start, indexes in gathered.gaps:
        index[start : start + len(indexes)] = indexes
    return record, index


def parse_instants(texts: Sequence[str | None]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the instants of texts, and which texts were understood; shape (n,) each.

    Only the form 2026-11-20T08:15:00Z is understood. Such a text has the instant that `parse_instant` returns. The
    contract reads the others, and their instants have no meaning here.
    """
    if not texts:
        return np.empty(0, np.int64), np.empty(0, np.bool_)
    try:
        instants, fits = _parse_lines("\n".join(texts))  # type: ignore[arg-type]  # None raises TypeError
    except (TypeError, ValueError):
        fits = np.zeros(1, np.bool_)
    if fits.all():  # then no text contains a line break, so each line is one text
        return instants, fits
    width = len(_LEAST)
    return _parse_lines("\n".join([text if text and len(text) == width else "?" * width for text in texts]))


def _parse_lines(lines: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the instants of lines of equal length, and which lines were understood.

    Raises:
        ValueError: the characters are not a number of whole lines.
    """
    characters = np.frombuffer(f"{lines}\n".encode("ascii", "replace"), np.uint8).reshape(-1, len(_LEAST) + 1)
    least, most = (np.frombuffer(f"{form}\n".encode(), np.uint8) for form in (_LEAST, _MOST))
    fits = ((characters - least) <= (most - least)).all(axis=1)  # unsigned: a lower character is a large difference
    fits &= _find_existing(characters - ord("0"))
    instants, width = np.zeros(fits.size, "M8[us]"), len("2026-11-20T08:15:00")
    instants[fits] = np.ascontiguousarray(characters[fits, :width]).view(f"S{width}").ravel().astype("M8[us]")
    return instants.view(np.int64), fits


def _find_existing(digits: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return which times of the common form exist. numpy must not parse the others: it can crash the process."""
    pairs = (10 * digits[:, first] + digits[:, first + 1] for first in (0, 2, 5, 8, 11, 14, 17))
    century, year, month, day, hour, minute, second = pairs
    is_leap_day = (month == 2) & (day == 29) & (year % 4 == 0) & ((year > 0) | (century % 4 == 0))  # noqa: PLR2004  # a date
    is_day = (day > 0) & (day <= _DAYS.take(month, mode="clip")) | is_leap_day
    exists: NDArray[np.bool_] = (century + year > 0) & is_day & (hour < 24) & (minute < 60) & (second < 60)  # noqa: PLR2004  # a time of day
    return exists


def check_identifiers(ids: list[str]) -> NDArray[np.bool_]:
    """Return which ids are valid (`is_identifier`); shape (n,)."""
    lengths = set(map(len, ids)) or {0}
    if "".join(ids).isprintable() and min(lengths) > 0 and max(lengths) <= ID_BYTES // _LONGEST_CHARACTER:
        return np.ones(len(ids), np.bool_)
    return np.array([is_identifier(text) for text in ids], np.bool_)


def decode_records(values: Sequence[Value], default_stay: int, *, with_consent: bool = False) -> Columns:
    """Return the visits and the refusals of many records, as columns.

    Args:
        values: the values of the records, None for a tombstone, and placeholders of unreadable records.
        default_stay: the duration of a visit without `left_at`, in microseconds.
        with_consent: whether to fill in the column of consent. `consent` is validated in any case.
    """
    gathered = _gather(values)
    persons, locations = gathered.persons, gathered.locations
    arrived, fits = parse_instants(gathered.arrived)
    left, left_fits = parse_instants(gathered.left)
    missing = [index for index in np.flatnonzero(~left_fits).tolist() if gathered.left[index] is None]
    left[missing], left_fits[missing] = arrived[missing] + min(default_stay, LONGEST_STAY), True
    fits &= left_fits & check_identifiers(persons) & check_identifiers(locations) & (left >= arrived)
    record, index = _locate_visits(gathered)
    consent = np.array(gathered.consent, np.bool_) if with_consent else None
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
    for index in doubtful.tolist():
        ids = {"person_id": gathered.persons[index], "location_id": gathered.locations[index]}
        visit = read_visit({**ids, "arrived_at": gathered.arrived[index], "left_at": gathered.left[index]})
        if isinstance(visit, Fault):
            keep[index] = False
            gathered.faults.append((int(columns.record[index]), int(columns.index[index]), visit))
            continue
        stay = min(default_stay, LONGEST_STAY)
        columns.arrived[index] = visit.arrived_at
        columns.left[index] = visit.arrived_at + stay if visit.left_at is None else visit.left_at
    if keep.all():
        return columns
    kept = np.flatnonzero(keep).tolist()
    return Columns(
        [columns.persons[index] for index in kept],
        [columns.locations[index] for index in kept],
        columns.arrived[keep],
        columns.left[keep],
        columns.record[keep],
        columns.index[keep],
        columns.refused,
        columns.values,
        None if columns.consent is None else columns.consent[keep],
    )
