"""Turn records into visits. msgspec reads records that have only known keys, and ids and times are checked in bulk.

The contract (`monitor.records.visit_contract`) reads all other records, and decides each doubtful visit, independently
of all others (docs/rules.md, rule 7). So the result is that of the contract.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType
from numpy.typing import NDArray

from monitor.ingest.dead_letters import SINGLE, Refusal, Value, refuse, refuse_unreadable
from monitor.kafka.kafka_python_3_0.batches import Unreadable
from monitor.kinds.parameters import Parameters
from monitor.records.fields import ID_BYTES, is_identifier
from monitor.records.visit_contract import (
    REQUIRED,
    Fault,
    Reason,
    is_deleted,
    is_microseconds,
    open_record,
    read_visit,
)
from monitor.time.instants import DAY, SECOND, format_instant

LONGEST_STAY: Final = 2**61
"""The limit of the default stay in microseconds (73,000 years), so that sums fit 64 bits."""

_WHOLE: Final = "0000-00-00T00:00:00"
_FORMS: Final = {
    len(form) + 1: np.frombuffer(f"{form}\n".encode(), np.uint8)
    for form in (f"{_WHOLE}Z", *(f"{_WHOLE}.{'0' * digits}Z" for digits in range(1, 19)))
}
"""The forms of times that are read in bulk, each with a line break, by their length. A `0` stands for any digit."""

_MONTHS: Final = np.arange("0000-01", "10000-02", dtype="M8[M]").astype("M8[us]").view(np.int64)
"""The instant at which each month begins, from January of year 0 on."""

_MICROSECOND_DIGITS: Final = 6
_LONGEST_CHARACTER: Final = 4  # bytes of UTF-8


_Id = Annotated[str, Meta(min_length=1, max_length=ID_BYTES)]


class _Visit(Struct, forbid_unknown_fields=True, gc=False):
    person_id: _Id
    location_id: _Id
    arrived_at: str
    left_at: str | None = None
    consent: bool = False


class _Batch(Struct, forbid_unknown_fields=True, gc=False):
    visits: list[_Visit]
    batch_id: str | UnsetType = UNSET


_read_batch = msgspec.json.Decoder(_Batch).decode
_read_single = msgspec.json.Decoder(_Visit).decode


@dataclass(frozen=True, slots=True)
class Columns:
    """The n valid visits of decoded records, and the refusals, in the order of the records."""

    persons: list[str]
    """Ids, n of them."""
    row: NDArray[np.int64]
    """The registry's row of the location, -1 for a location outside it, shape (n,)."""
    arrived: NDArray[np.int64]
    left: NDArray[np.int64]
    """`arrived`, `left`: instants, shape (n,), left ≥ arrived."""
    record: NDArray[np.int64]
    index: NDArray[np.int64]
    """`record`, `index`: the index of each visit's record, and of the visit in it, shape (n,)."""
    refused: list[Refusal]
    values: Sequence[Value]
    """The values of the decoded records."""
    consent: NDArray[np.bool_] | None = None
    """Whether each visit consents to lower bounds, shape (n,); None if no monitor publishes lower bounds."""

    def select(self, keep: NDArray[np.int64]) -> Columns:
        """Return the visits with some indexes, in this order, with all refusals."""
        return replace(
            self,
            persons=[self.persons[index] for index in keep.tolist()],
            row=self.row[keep],
            arrived=self.arrived[keep],
            left=self.left[keep],
            record=self.record[keep],
            index=self.index[keep],
            consent=None if self.consent is None else self.consent[keep],
        )


class _Gap(NamedTuple):
    """A record of which not all visits were gathered, so that their indexes are not 0, 1, 2 and so on."""

    first: int
    """The position of its first gathered visit in the lists."""
    indexes: list[int]
    """The index in the record of each gathered visit."""


@dataclass(frozen=True, slots=True)
class _Gathered:
    """Visits whose fields have the right types, a list for each field; and refusals.

    The fields of a record are checked, looked up and joined while they are in the processor's cache.
    """

    rows: Mapping[str, int]
    """The registry's row of each location."""
    keeps_consent: bool
    """Whether `consent` is gathered."""
    persons: list[str] = field(default_factory=list)
    row: list[int] = field(default_factory=list)
    arrived: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """`arrived`, `left`: by record, the texts of the times, one per line."""
    missing: list[int] = field(default_factory=list)
    """The indexes of visits without `left_at`."""
    doubtful: list[int] = field(default_factory=list)
    """The indexes of visits with an id that is not valid."""
    consent: list[bool] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    """The number of visits by record."""
    gaps: list[_Gap] = field(default_factory=list)
    """One for each record of which not all visits were gathered."""
    refused: list[Refusal] = field(default_factory=list)
    faults: list[tuple[int, int, Fault]] = field(default_factory=list)
    more: dict[int, tuple[int, Counter[Reason]]] = field(default_factory=dict)
    """For each record with many invalid visits, the index of the first one that is not in `faults`, and the number of
    all such visits by reason.
    """

    def add(self, visits: list[_Visit]) -> None:
        """Add the visits of the next record."""
        self.counts.append(len(visits))
        if not visits:
            return
        first = len(self.persons)
        persons = [visit.person_id for visit in visits]
        self.persons.extend(persons)
        if not _are_valid(persons):
            self.doubtful.extend(first + index for index, text in enumerate(persons) if not is_identifier(text))
        locations = [visit.location_id for visit in visits]
        try:
            self.row.extend(list(map(self.rows.__getitem__, locations)))
        except KeyError:
            self._add_unknown(first, locations)
        self.arrived.append("\n".join([visit.arrived_at for visit in visits]))
        left = [visit.left_at for visit in visits]
        try:
            self.left.append("\n".join(left))  # type: ignore[arg-type]  # None raises TypeError
        except TypeError:
            self.missing.extend(first + index for index, text in enumerate(left) if text is None)
            self.left.append("\n".join([text or "" for text in left]))
        if self.keeps_consent:
            self.consent.extend([visit.consent for visit in visits])

    def _add_unknown(self, first: int, locations: list[str]) -> None:
        """Look up locations that are not all in the registry. An id of the registry is valid."""
        rows = [self.rows.get(location, -1) for location in locations]
        self.row.extend(rows)
        self.doubtful.extend(
            first + index for index, row in enumerate(rows) if row < 0 and not is_identifier(locations[index])
        )


def _are_valid(ids: list[str]) -> bool:
    """Return whether ids of 1 to 256 characters are certainly valid; False if each has to be checked."""
    text = "".join(ids)
    return text.isprintable() and (text.isascii() or max(map(len, ids)) <= ID_BYTES // _LONGEST_CHARACTER)


def _read_known(value: Value) -> list[_Visit] | None:
    """Return a record's visits if it has only known keys of the right types; None otherwise."""
    if not isinstance(value, bytes):
        return None
    try:
        return _read_batch(value).visits if b'"visits"' in value else [_read_single(value)]
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _to_visit(item: dict[str, Any]) -> _Visit | None:
    """Return a visit if the known keys exist with valid ids and the right types; None otherwise."""
    person, location, arrived = item.get("person_id"), item.get("location_id"), item.get("arrived_at")
    left, consent = item.get("left_at"), item.get("consent", False)
    # As text, all times are then read in bulk.
    arrived, left = (format_instant(time) if is_microseconds(time) else time for time in (arrived, left))
    if (
        not type(person) is type(location) is type(arrived) is str
        or not is_identifier(person)
        or not is_identifier(location)
    ):
        return None
    if is_deleted(item) or type(consent) is not bool or not (left is None or type(left) is str):
        return None
    return _Visit(person, location, arrived, left, consent)


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
        gathered.gaps.append(_Gap(len(gathered.persons), indexes))
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


def _gather(parameters: Parameters, values: Sequence[Value]) -> _Gathered:
    gathered = _Gathered(parameters.registry.rows, parameters.counts_consent)
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


def parse_instants(lines: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the instants of lines, and which of them were understood; shape (n,) each.

    Times in UTC are understood, such as 2026-11-20T08:15:00Z or 2026-11-20T08:15:00.000Z. Such a line has the instant
    that `parse_instant` returns. The contract reads the others, and their instants have no meaning here.
    """
    characters = np.frombuffer(f"{lines}\n".encode("ascii", "replace"), np.uint8)
    ends = np.flatnonzero(characters == ord("\n"))
    lengths = np.diff(ends, prepend=-1)
    if (form := _FORMS.get(int(lengths[0]))) is not None and (lengths == form.size).all():
        return _parse_lines(characters.reshape(-1, form.size), form)
    instants, fits = np.zeros(ends.size, np.int64), np.zeros(ends.size, np.bool_)
    for length, form in _FORMS.items():
        of_length = np.flatnonzero(lengths == length)
        of_form = characters[ends[of_length, None] + np.arange(1 - length, 1)]
        instants[of_length], fits[of_length] = _parse_lines(of_form, form)
    return instants, fits


def _parse_lines(lines: NDArray[np.uint8], form: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the instants of lines with the length of a form, and which of them have this form and exist."""
    digits = np.ascontiguousarray(lines.T) - form[:, None]  # unsigned: a lower character is a large difference
    most = np.where(form == ord("0"), 9, 0).astype(np.uint8)
    fits = (digits <= most[:, None]).all(axis=0)
    pairs = [10 * digits[first] + digits[first + 1] for first in (0, 2, 5, 8, 11, 14, 17)]
    century, year, month, day, hour, minute, second = pairs
    months = (100 * century.astype(np.int64) + year) * 12 + month - 1
    begin, end = _MONTHS.take(months, mode="clip"), _MONTHS.take(months + 1, mode="clip")
    instants = begin + (day.astype(np.int64) - 1) * DAY
    fits &= (months >= 12) & (month > 0) & (month <= 12) & (day > 0) & (instants < end)  # noqa: PLR2004  # a date
    fits &= (hour < 24) & (minute < 60) & (second < 60)  # noqa: PLR2004  # a time of day
    instants += ((hour.astype(np.int64) * 60 + minute) * 60 + second) * SECOND
    for power, digit in enumerate(digits[len(_WHOLE) + 1 : -2][:_MICROSECOND_DIGITS], 1):
        instants += digit * np.int64(SECOND // 10**power)
    return instants, fits


def decode_records(parameters: Parameters, values: Sequence[Value]) -> Columns:
    """Return the visits and the refusals of many records, as columns.

    Args:
        parameters: the compiled configuration.
        values: the values of the records, None for a tombstone, and placeholders of unreadable records.
    """
    gathered = _gather(parameters, values)
    columns, doubtful = _make_columns(parameters, values, gathered)
    if doubtful.size:
        columns = _decide_doubtful(parameters, columns, gathered, doubtful)
    if gathered.faults:
        columns.refused.extend(refuse(values, gathered.faults, gathered.more))
        columns.refused.sort(key=lambda refusal: (refusal.record, -1 if refusal.index is None else refusal.index))
    return columns


def _find_default_stay(parameters: Parameters) -> int:
    return min(parameters.default_stay, LONGEST_STAY)


def _parse_times(texts: list[str], counts: list[int]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the instants of all visits, and which were understood. `texts`: the lines of each record with visits."""
    instants, fits = parse_instants("\n".join(texts))
    if fits.size > sum(counts):  # a text contains a line break, so the contract reads all times of its record
        sizes = (count - 1 for count in counts if count)
        texts = [text if text.count("\n") == size else "\n" * size for text, size in zip(texts, sizes, strict=True)]
        instants, fits = parse_instants("\n".join(texts))
    return instants, fits


def _make_columns(
    parameters: Parameters, values: Sequence[Value], gathered: _Gathered
) -> tuple[Columns, NDArray[np.int64]]:
    """Return the gathered visits as columns, and the indexes of those that only the contract can decide."""
    record, index = _locate_visits(gathered)
    if record.size:
        arrived, fits = _parse_times(gathered.arrived, gathered.counts)
        left, left_fits = _parse_times(gathered.left, gathered.counts)
        left[gathered.missing] = arrived[gathered.missing] + _find_default_stay(parameters)
        left_fits[gathered.missing] = True
        fits &= left_fits & (left >= arrived)
        fits[gathered.doubtful] = False
    else:
        arrived, left, fits = record, record, np.empty(0, np.bool_)
    row = np.array(gathered.row, np.int64)
    consent = np.array(gathered.consent, np.bool_) if gathered.keeps_consent else None
    columns = Columns(gathered.persons, row, arrived, left, record, index, gathered.refused, values, consent)
    return columns, np.flatnonzero(~fits)


def _decide_doubtful(
    parameters: Parameters, columns: Columns, gathered: _Gathered, doubtful: NDArray[np.int64]
) -> Columns:
    """Read doubtful visits by the contract: fill in their times, and remove those that it refuses."""
    default_stay = _find_default_stay(parameters)
    keep = np.ones(columns.record.size, np.bool_)
    for record, indexes in groupby(doubtful.tolist(), key=columns.record.tolist().__getitem__):
        visits = open_record(columns.values[record])
        for index in indexes:
            visit = read_visit(visits[columns.index[index]])
            if isinstance(visit, Fault):
                keep[index] = False
                gathered.faults.append((record, int(columns.index[index]), visit))
                continue
            columns.arrived[index] = visit.arrived_at
            columns.left[index] = visit.arrived_at + default_stay if visit.left_at is None else visit.left_at
    return columns if keep.all() else columns.select(np.flatnonzero(keep))
