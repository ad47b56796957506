"""The records of the output topic that the public may use, with what the page asks of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from monitor.client.describe_records import alert_status
from monitor.client.state_from_records import (
    read_alert,
    read_alert_subject,
    read_bound,
    read_snapshot,
    read_snapshot_subject,
    read_total,
)
from monitor.client.topic_consumer import Published
from monitor.errors import TimeError
from monitor.kinds.all_answers import TOTALS
from monitor.kinds.at_times.record import AT_TIMES
from monitor.kinds.over_time.record import OVER_TIME
from monitor.kinds.upper_bound.record import UPPER_BOUND
from monitor.records.fields import UNREADABLE
from monitor.time.instants import format_instant, parse_instant

BY_PLACE: Final = frozenset((OVER_TIME, UPPER_BOUND))
"""The types of records that are about one place each."""

_decode: Final = msgspec.json.Decoder().decode


class Subject(NamedTuple):
    """What a record is about, as text, and its as_of (an instant). A later record of the same subject replaces it."""

    key: str
    as_of: int


class Snapshot(NamedTuple):
    """What a snapshot of an `at_times` monitor says, by location id, so that a history need not parse it again.

    `complete`, `registry` and the rest are those of the contract. `threshold` is None if the snapshot has a newer form.
    `noisy_counts` has the certain upper bound of each location with noisy counts, and `fresh` what a history shows
    beside it about a count that started afresh.
    """

    shard: int
    shards: int
    threshold: int | None = None
    complete: bool = False
    registry: str = ""
    noisy_counts: Mapping[str, int] = {}
    counts_at_least: Mapping[str, int] = {}
    fresh: Mapping[str, Mapping[str, Any]] = {}


class Entry(NamedTuple):
    """A record of the output topic. `as_of` is an instant, and `value` the record as it was published.

    `key`: what the record is about: `monitor/location`, `monitor/time/shard` or `monitor/time`. `alarms`: the number of
    noisy counts that its tick drew. `places`: those with a noisy count that still counts. `said`: of a record
    about one place, the answer as a history shows it. `snapshot`: what it says, if it is of an `at_times` monitor.
    `counted_since`: the as_of of the alarm since which it counts (an instant).
    """

    type: str
    key: str
    as_of: int
    alarms: int
    value: bytes
    said: Mapping[str, Any] | None = None
    snapshot: Snapshot | None = None
    places: tuple[str, ...] = ()
    counted_since: int | None = None


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
    raw = record.value or b""
    try:
        value = _decode(raw)
        key, as_of = PUBLIC[kind](raw)
        snapshot = _read_snapshot(raw) if kind == AT_TIMES else None
    except (msgspec.MsgspecError, ValueError, RecursionError, TimeError, LookupError):
        return None
    said = _SAID[kind](raw) if kind in BY_PLACE else None
    places = tuple(snapshot.noisy_counts) if snapshot else _find_marked(kind, value)
    return Entry(kind, key, as_of, _count_alarms(kind, value), raw, said, snapshot, places, _find_start(kind, value))


NOT_UNDERSTOOD: Final[Mapping[str, Any]] = {"state": "unknown"}
"""What a history says about a newer form of a record."""


def _read_said(value: bytes) -> Mapping[str, Any]:
    """Return the answer of an `over_time` record as a history shows it."""
    try:
        alert = read_alert(value)
    except UNREADABLE:
        return NOT_UNDERSTOOD
    answer: dict[str, Any] = {"state": alert_status(alert), "threshold": alert.threshold}
    if alert.upper_bound is not None and alert.counted_since is not UNSET:
        answer |= {"counted_since": alert.counted_since, "since_at_most": alert.upper_bound}
    elif alert.upper_bound is not None:
        answer["count_at_most"] = alert.upper_bound
    if alert.status == "paused":
        answer["resumes_at"] = alert.resumes_at
    return answer


def _read_said_bound(value: bytes) -> Mapping[str, Any]:
    """Return the answer of an `upper_bound` record as a history shows it."""
    bound = read_bound(value).upper_bound
    return NOT_UNDERSTOOD if bound is None else {"state": "bounded", "count_at_most": bound}


_SAID: Final = {OVER_TIME: _read_said, UPPER_BOUND: _read_said_bound}


def _read_alert(value: bytes) -> Subject:
    alert = read_alert_subject(value)
    return Subject(f"{alert.monitor}/{alert.location_id}", parse_instant(alert.as_of))


def _read_bound(value: bytes) -> Subject:
    bound = read_bound(value)
    return Subject(f"{bound.monitor}/{bound.location_id}", parse_instant(bound.as_of))


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
    noisy, fresh = dict[str, int](), dict[str, Mapping[str, Any]]()
    for location, answer in read.noisy_counts.items():
        noisy[location] = answer.upper_bound
        if read.is_below_since(location):
            noisy[location] = read.find_upper_bound(location) or 0
            since = {"counted_since": answer.counted_since, "since_at_most": read.threshold - 1}
            fresh[location] = {"state": "below_since", **since}
        elif answer.later:
            fresh[location] = {"since_at_most": answer.numbers[-1].noisy_count}
    complete = read.status == "complete"
    return Snapshot(read.shard, read.shards, read.threshold, complete, read.registry, noisy, dict(read.bounds), fresh)


def _name_total(kind: str, value: bytes) -> Subject:
    snapshot = read_total(kind, value)
    time = format_instant(parse_instant(snapshot.time))
    return Subject(f"{snapshot.monitor}/{time}", parse_instant(snapshot.as_of))


PUBLIC: Final[Mapping[str, Callable[[bytes], Subject]]] = {
    OVER_TIME: _read_alert,
    AT_TIMES: _name_shard,
    UPPER_BOUND: _read_bound,
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
            numbers = [
                number for noisy in value["noisy_counts"].values() for number in (noisy, *noisy.get("later", ()))
            ]
            return sum(number["tick"] == value["tick"] for number in numbers)
    except (TypeError, KeyError, AttributeError):
        return 0
    return int(value.get("status") == "noisy_count")
