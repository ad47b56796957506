"""The records of the output topic that the public may use, each as one line of JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from monitor.client.subscriber import Published
from monitor.client.subscriber_view import (
    read_alert_subject,
    read_snapshot,
    read_snapshot_subject,
    read_total,
)
from monitor.errors import TimeError
from monitor.kinds.all_answers import TOTALS
from monitor.kinds.at_times.record import AT_TIMES
from monitor.kinds.over_time.record import OVER_TIME
from monitor.records.fields import UNREADABLE
from monitor.time.instants import format_instant, parse_instant

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


class Subject(NamedTuple):
    """What a record is about, as text, and its as_of (an instant). A later record of the same subject replaces it."""

    key: str
    as_of: int


class Snapshot(NamedTuple):
    """What a snapshot of an `at_times` monitor says, by location id, so that a history need not parse it again.

    `complete`, `registry` and the rest are those of the contract. `threshold` is None if the snapshot has a newer form.
    """

    shard: int
    shards: int
    threshold: int | None = None
    complete: bool = False
    registry: str = ""
    noisy_counts: Mapping[str, int] = {}
    counts_at_least: Mapping[str, int] = {}


class Entry(NamedTuple):
    """A record of the output topic. `as_of` is an instant, and `line` the whole record as `replay` writes it.

    `key`: what the record is about: `monitor/location`, `monitor/time/shard` or `monitor/time`. `alarms`: the number of
    noisy counts that its tick drew. `places`: those with a noisy count that still counts. `value_at`: where the value
    begins in the line. `snapshot`: what it says, if it is of an `at_times` monitor. `counted_since`: the as_of of the
    alarm since which it counts (an instant).
    """

    partition: int
    offset: int
    type: str
    key: str
    as_of: int
    alarms: int
    line: bytes
    value_at: int
    snapshot: Snapshot | None = None
    places: tuple[str, ...] = ()
    counted_since: int | None = None

    @property
    def raw(self) -> bytes:
        """The value of the record as JSON."""
        return self.line[self.value_at : -1]


def read_entries(records: Iterable[Published]) -> tuple[list[Entry], int]:
    """Return the records for subscribers as entries, and the number of foreign records.

    A foreign record has a type for subscribers but cannot be read, so the service did not write it. It says nothing
    about any place, and it must not stop the page.
    """
    entries, foreign = [], 0
    for record in records:
        if (kind := _find_type(record)) in PUBLIC:
            entry = _read_entry(kind, record)
            foreign += entry is None
            entries += [] if entry is None else [entry]
    return entries, foreign


def _find_type(record: Published) -> str:
    types = [(value or b"").decode(errors="replace") for name, value in record.headers if name == "ce_type"]
    return types[-1] if types else ""


def _read_entry(kind: str, record: Published) -> Entry | None:
    """Return a consumer's record as an entry; None if it does not name its subject.

    A newer form of a record is kept, because a subscriber must learn that it does not understand the latest answer. So
    a record needs only the fields that `SubscriberView` requires of a newer form.
    """
    try:
        value = _decode(record.value or b"")
        encoded = _encode(value)  # on one line, as server-sent events require
        key, as_of = PUBLIC[kind](encoded)
        snapshot = _read_snapshot(encoded) if kind == AT_TIMES else None
    except (msgspec.MsgspecError, ValueError, RecursionError, TimeError, LookupError):
        return None
    headers = {name: (value or b"").decode(errors="replace") for name, value in record.headers}
    shown = (record.key or b"").decode(errors="replace")
    about = {"key": shown, "headers": headers, "partition": record.partition, "offset": record.offset}
    head = _encode(about)[:-1] + b',"value":'
    line, alarms = b"%s%s}" % (head, encoded), _count_alarms(kind, value)
    places = tuple(snapshot.noisy_counts) if snapshot else _find_marked(kind, value)
    where = record.partition, record.offset
    return Entry(*where, kind, key, as_of, alarms, line, len(head), snapshot, places, _find_start(kind, value))


def _read_alert(value: bytes) -> Subject:
    alert = read_alert_subject(value)
    return Subject(f"{alert.monitor}/{alert.location_id}", parse_instant(alert.as_of))


def _name_shard(value: bytes) -> Subject:
    snapshot = read_snapshot_subject(value)
    if snapshot.shard >= snapshot.shards:
        raise LookupError(f"shard {snapshot.shard} of {snapshot.shards}: there is no such shard")
    time = format_instant(parse_instant(snapshot.time))
    return Subject(f"{snapshot.monitor}/{time}/{snapshot.shard}", parse_instant(snapshot.as_of))


def _read_snapshot(value: bytes) -> Snapshot:
    try:
        read = read_snapshot(value)
    except UNREADABLE:
        newer = read_snapshot_subject(value)
        return Snapshot(newer.shard, newer.shards)
    noisy = {location: answer.noisy_count for location, answer in read.noisy_counts.items()}
    complete = read.status == "complete"
    return Snapshot(read.shard, read.shards, read.threshold, complete, read.registry, noisy, dict(read.bounds))


def _name_total(kind: str, value: bytes) -> Subject:
    snapshot = read_total(kind, value)
    time = format_instant(parse_instant(snapshot.time))
    return Subject(f"{snapshot.monitor}/{time}", parse_instant(snapshot.as_of))


PUBLIC: Final[Mapping[str, Callable[[bytes], Subject]]] = {
    OVER_TIME: _read_alert,
    AT_TIMES: _name_shard,
    **{kind: partial(_name_total, kind) for kind in TOTALS},
}
"""The types of records for subscribers, and how to read their subject. The other types are for the service itself."""


def _find_marked(kind: str, value: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the place of an `over_time` record with marks that still run, and otherwise nothing."""
    return (value["location_id"],) if kind == OVER_TIME and value.get("answers") else ()


def _find_start(kind: str, value: Mapping[str, Any]) -> int | None:
    """Return the instant since which an `over_time` record counts; None without one, or if it has a newer form."""
    since = value.get("counted_since") if kind == OVER_TIME else None
    try:
        return parse_instant(since) if isinstance(since, str) else None
    except TimeError:
        return None


def _count_alarms(kind: str, value: Mapping[str, Any]) -> int:
    """Return how many noisy counts the tick of a record drew; 0 if the record has a newer form."""
    try:
        if kind == AT_TIMES:
            return sum(noisy["tick"] == value["tick"] for noisy in value["noisy_counts"].values())
    except (TypeError, KeyError, AttributeError):
        return 0
    return int(value.get("status") == "noisy_count")
