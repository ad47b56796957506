"""Read from the records of the output topic what an owner needs (docs/architecture.md, section 4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal

import msgspec
from msgspec import Struct

from monitor.errors import EpsilonError, LedgerError, TimeError
from monitor.privacy.epsilon import parse_recorded
from monitor.privacy.over_time import Mark
from monitor.records.charges_record import Charges
from monitor.records.output_records import AT_TIMES, DWELL, HOT_SPOTS, LEDGER, OVER_TIME, OWNER
from monitor.records.owner_record import LEDGER_VERSION
from monitor.time.instants import parse_instant


class OwnerEntry(Struct, frozen=True):
    """The owner of the partition. `lost_at` is unparsed text, `input_since` is a slot.

    `tick` is set if the record is about a tick that had nothing to answer, `incomplete` if the answers of a tick that
    the partition lacks are lost.
    """

    service: str
    fingerprint: str
    input_topic_id: str
    partitions: int
    lost_at: str | None
    input_since: int | None
    input_partitions: int
    charges: Charges | None = None
    tick: int | None = None
    incomplete: int | None = None


class StartEntry(Struct, frozen=True):
    """The first record of the partition. `lost_at` is unparsed text."""

    ledger: int
    service: str
    partitions: int
    lost_at: str | None
    input_topic_id: str


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


LedgerEntry = StartEntry | OwnerEntry | OverTimeEntry | AtTimesEntry | HotSpotsEntry


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


_parse_instant = lru_cache(maxsize=4096)(parse_instant)


@lru_cache(maxsize=1024)
def _parse_epsilon(epsilon: str) -> Fraction:
    return parse_recorded(epsilon)


def _decode_epsilon(_: type, value: object) -> Fraction:
    """Return the ε of a record: `Fraction` is the one type of the records that msgspec does not know."""
    if not isinstance(value, str):
        raise EpsilonError(f"ε is a JSON {type(value).__name__}: expected a string")
    return _parse_epsilon(value)


_decode_over_time = msgspec.json.Decoder(_OverTime, dec_hook=_decode_epsilon).decode
_decode_at_times = msgspec.json.Decoder(_AtTimes, dec_hook=_decode_epsilon).decode
_decode_hot_spots = msgspec.json.Decoder(_HotSpots, dec_hook=_decode_epsilon).decode
_decode_owner = msgspec.json.Decoder(OwnerEntry).decode
_decode_start = msgspec.json.Decoder(StartEntry).decode


def _read_over_time(ce_id: str, value: bytes) -> OverTimeEntry:
    record = _decode_over_time(value)
    return OverTimeEntry(ce_id, record.monitor, record.location_id, record.tick, record.status, record.answers)


def _read_at_times(ce_id: str, value: bytes) -> AtTimesEntry:
    record = _decode_at_times(value)
    noisy_counts = {location: (noisy.tick, noisy.noisy_count) for location, noisy in record.noisy_counts.items()}
    return AtTimesEntry(
        ce_id=ce_id,
        monitor=record.monitor,
        time=_parse_instant(record.time),
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
    return HotSpotsEntry(ce_id, record.monitor, _parse_instant(record.time), record.tick, record.status, record.epsilon)


def _read_dwell(ce_id: str, value: bytes) -> HotSpotsEntry:
    return replace(_read_hot_spots(ce_id, value), kind="dwell")


def _read_owner(_: str, value: bytes) -> OwnerEntry:
    entry = _decode_owner(value)
    if entry.lost_at is not None:
        _parse_instant(entry.lost_at)
    _check_charges(entry.charges)
    return entry


def _check_charges(charges: Charges | None) -> None:
    if charges is not None:
        shares = (epsilon for place in charges.places or () for epsilon in place.shares)
        for epsilon in (*shares, *(time.epsilon for time in charges.times or ())):
            _parse_epsilon(epsilon)


def _read_start(_: str, value: bytes) -> StartEntry:
    entry = _decode_start(value)
    if entry.lost_at is not None:
        _parse_instant(entry.lost_at)
    if entry.ledger != LEDGER_VERSION:
        raise LedgerError(
            f"the ledger has format {entry.ledger}: expected {LEDGER_VERSION}; run a version of location-monitor that "
            f"writes format {entry.ledger}"
        )
    return entry


_READERS: Final[dict[bytes, Callable[[str, bytes], LedgerEntry]]] = {
    OVER_TIME.encode(): _read_over_time,
    AT_TIMES.encode(): _read_at_times,
    HOT_SPOTS.encode(): _read_hot_spots,
    DWELL.encode(): _read_dwell,
    OWNER.encode(): _read_owner,
    LEDGER.encode(): _read_start,
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
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TimeError, EpsilonError) as error:
        raise LedgerError(
            f"{_name_record(key, named)} cannot be read as {kind}: {error}. The ε that it spent is not known; check "
            "which other producers write to kafka.topics.alerts"
        ) from error


def _name_record(key: bytes | None, headers: Mapping[str, bytes | None]) -> str:
    """Return what identifies a record. The ce_id of a record without a tick contains the output partition."""
    return f"the ledger record with key {key or b''!r} and ce_id {headers.get('ce_id') or b''!r}"
