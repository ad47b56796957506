"""Read from the records of the output topic what an owner needs (docs/architecture.md, section 4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Literal

from msgspec import Struct

from monitor.errors import LedgerError, TimeError
from monitor.privacy.over_time import Mark
from monitor.records.fields import UNREADABLE, make_decoder, read_time
from monitor.records.output_records import AT_TIMES, DWELL, HOT_SPOTS, LEDGER, OVER_TIME, OWNER
from monitor.records.owner_record import LedgerRecord, OwnerRecord


@dataclass(frozen=True, slots=True)
class OverTimeEntry:
    """The answer about one location at a tick, and the marks that ran at this tick."""

    ce_id: str
    monitor: str
    location_id: str
    tick: int
    status: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class AtTimesEntry:
    """The snapshot of one shard at a designated time (an instant), with (tick, noisy count) by location.

    `epsilon` is the ε of each answer that is new in the snapshot. `at_least_epsilon` is the ε of the lower bounds that
    the snapshot drew, None if it drew none.
    """

    ce_id: str
    monitor: str
    time: int
    shard: int
    tick: int
    status: str
    final: bool
    epsilon: Fraction
    noisy_counts: dict[str, tuple[int, int]]
    shards: int = 1
    at_least_epsilon: Fraction | None = None


@dataclass(frozen=True, slots=True)
class HotSpotsEntry:
    """The hot spots or dwell times (`kind`) of a designated time (an instant), which are one answer about all shards.

    `status` shows whether they were drawn, `epsilon` at which ε.
    """

    ce_id: str
    monitor: str
    time: int
    tick: int
    status: str
    epsilon: Fraction
    kind: Literal["hot_spots", "dwell"] = "hot_spots"


LedgerEntry = LedgerRecord | OwnerRecord | OverTimeEntry | AtTimesEntry | HotSpotsEntry


class _OverTime(Struct):
    monitor: str
    location_id: str
    tick: int
    status: Literal["safe", "noisy_count", "paused", "unknown"]
    answers: tuple[Mark, ...]


class _NoisyCount(Struct):
    tick: int
    noisy_count: int


class _AtTimes(Struct):
    monitor: str
    time: str
    shard: int
    tick: int
    status: Literal["complete", "unknown"]
    final: bool
    epsilon: Fraction
    noisy_counts: dict[str, _NoisyCount]
    shards: int = 1
    at_least_epsilon: Fraction | None = None


class _HotSpots(Struct):
    monitor: str
    time: str
    tick: int
    status: Literal["complete", "unknown"]
    epsilon: Fraction


_decode_over_time = make_decoder(_OverTime)
_decode_at_times = make_decoder(_AtTimes)
_decode_hot_spots = make_decoder(_HotSpots)
_decode_owner = make_decoder(OwnerRecord)
_decode_ledger = make_decoder(LedgerRecord)


def _read_over_time(ce_id: str, value: bytes) -> OverTimeEntry:
    record = _decode_over_time(value)
    return OverTimeEntry(ce_id, record.monitor, record.location_id, record.tick, record.status, record.answers)


def _read_at_times(ce_id: str, value: bytes) -> AtTimesEntry:
    record = _decode_at_times(value)
    noisy_counts = {location: (noisy.tick, noisy.noisy_count) for location, noisy in record.noisy_counts.items()}
    return AtTimesEntry(
        ce_id=ce_id,
        monitor=record.monitor,
        time=read_time(record.time),
        shard=record.shard,
        tick=record.tick,
        status=record.status,
        final=record.final,
        epsilon=record.epsilon,
        noisy_counts=noisy_counts,
        shards=record.shards,
        at_least_epsilon=record.at_least_epsilon,
    )


def _read_hot_spots(ce_id: str, value: bytes) -> HotSpotsEntry:
    record = _decode_hot_spots(value)
    return HotSpotsEntry(ce_id, record.monitor, read_time(record.time), record.tick, record.status, record.epsilon)


def _read_dwell(ce_id: str, value: bytes) -> HotSpotsEntry:
    return replace(_read_hot_spots(ce_id, value), kind="dwell")


_READERS: Final[dict[bytes, Callable[[str, bytes], LedgerEntry]]] = {
    OVER_TIME.encode(): _read_over_time,
    AT_TIMES.encode(): _read_at_times,
    HOT_SPOTS.encode(): _read_hot_spots,
    DWELL.encode(): _read_dwell,
    OWNER.encode(): lambda _, value: _decode_owner(value),
    LEDGER.encode(): lambda _, value: _decode_ledger(value),
}


def read_record(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> LedgerEntry | None:
    """Read a record of the output topic; return None for an unknown type of record.

    Raises:
        LedgerError: the record has a known type but cannot be read, so the ε that it spent is not known.
    """
    named = dict(headers)
    reader = _READERS.get(named.get("ce_type") or b"")
    if reader is None:
        return None
    kind = (named["ce_type"] or b"").decode()
    try:
        return reader((named.get("ce_id") or b"").decode(), value or b"")
    except LedgerError as error:
        raise LedgerError(f"{_name_record(key, named)} is invalid: {error}") from error
    except (*UNREADABLE, TimeError) as error:
        raise LedgerError(
            f"{_name_record(key, named)} cannot be read as {kind}: {error}. The ε that it spent is not known; check "
            "which other producers write to kafka.topics.alerts"
        ) from error


def _name_record(key: bytes | None, headers: Mapping[str, bytes | None]) -> str:
    """Return what identifies a record. The ce_id of a record without a tick contains the output partition."""
    return f"the ledger record with key {key or b''!r} and ce_id {headers.get('ce_id') or b''!r}"
