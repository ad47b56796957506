"""What was published about one place: per monitor, the periods in which its answer stayed the same.

Hot spots are left out, because they are compared with no threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import UNSET

from monitor.client.describe_records import alert_status
from monitor.client.designated_time import find_upper_bound
from monitor.client.subscriber_view import read_alert
from monitor.kinds.locations import Registry, find_shard
from monitor.kinds.monitor import Monitor
from monitor.kinds.parameters import Parameters
from monitor.page.board import Board
from monitor.page.entries import Entry, Snapshot
from monitor.records.fields import UNREADABLE
from monitor.time.instants import format_instant

MOST_PERIODS: Final = 2_000
"""The most periods of one history: the latest ones."""

_NOT_UNDERSTOOD: Final = {"state": "unknown"}  # a newer form of a record

_encode: Final = msgspec.json.Encoder().encode


def prepare_history(
    location_id: str, row: int, board: Board, parameters: Parameters, earlier: Sequence[Registry] = ()
) -> Callable[[], bytes]:
    """Select the records about a place. Return the function that writes its history as JSON, the latest moment first.

    That function does not read the board, so another thread may call it. `earlier`: registries that were used before.
    """
    alerts = [
        (_describe(monitor), tuple(board.list_by_key(f"{monitor.name}/{location_id}")))
        for monitor in parameters.monitors
        if monitor.scope == "place" and row in monitor.needed.rows
    ]
    snapshots = [
        selected
        for monitor in parameters.monitors
        if monitor.scope == "shard"
        for selected in _select_snapshots(monitor, location_id, board)
    ]
    known = {one.digest for one in (parameters.registry, *earlier) if location_id in one.rows}

    def write() -> bytes:
        periods: list[dict[str, Any]] = []
        for about, entries in alerts:
            periods += _join(about, ((entry.as_of, _read_alert(entry)) for entry in entries))
        for about, read in snapshots:
            periods += _join(about, ((as_of, _read_snapshot(one, location_id, known)) for as_of, one in read))
        periods.sort(key=_find_moment, reverse=True)
        return _encode({"id": location_id, "history": periods[:MOST_PERIODS]})

    return write


def _select_snapshots(
    monitor: Monitor, location_id: str, board: Board
) -> Iterator[tuple[dict[str, Any], list[tuple[int, Snapshot]]]]:
    """Yield the snapshots of the shard of a place, with their as_of, for each designated time.

    The shard follows from the number of shards that a snapshot had then. A monitor of another kind may have had this
    name: its records are no snapshots.
    """
    shard_of = cache(lambda shards: find_shard(location_id, shards))
    for key in board.list_keys(monitor.name):
        about = {**_describe(monitor), "time": key.split("/")[1]}
        read = [(entry.as_of, entry.snapshot) for entry in board.list_by_key(key) if entry.snapshot is not None]
        yield about, [(as_of, one) for as_of, one in read if shard_of(one.shards) == one.shard]


def _describe(monitor: Monitor) -> dict[str, Any]:
    return {"monitor": monitor.name, "kind": monitor.kind}


def _join(about: Mapping[str, Any], answers: Iterable[tuple[int, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the periods of equal answers: `since` and `until` are the as_of of the first and the last of them."""
    periods: list[dict[str, Any]] = []
    previous: dict[str, Any] | None = None
    for as_of, answer in answers:
        at = format_instant(as_of)
        if answer == previous:
            periods[-1]["until"] = at
        else:
            periods.append({**about, **answer, "since": at, "until": at})
        previous = answer
    return periods


def _find_moment(period: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the sort key of a period: the designated time or else its start, then when it was published."""
    return period.get("time", period["since"]), period["since"], period["monitor"]


def _read_alert(entry: Entry) -> dict[str, Any]:
    try:
        alert = read_alert(entry.raw)
    except UNREADABLE:
        return _NOT_UNDERSTOOD
    answer: dict[str, Any] = {"state": alert_status(alert), "threshold": alert.threshold}
    if alert.upper_bound is not None and alert.counted_since is not UNSET:
        answer |= {"counted_since": alert.counted_since, "since_at_most": alert.upper_bound}
    elif alert.upper_bound is not None:
        answer["count_at_most"] = alert.upper_bound
    if alert.status == "paused":
        answer["resumes_at"] = alert.resumes_at
    return answer


def _read_snapshot(snapshot: Snapshot, location_id: str, known: Collection[str]) -> dict[str, Any]:
    """Return the answer of a snapshot about a place. `known`: the digests of the registries that have this place."""
    if snapshot.threshold is None:
        return _NOT_UNDERSTOOD
    answer: dict[str, Any] = {"state": "unknown", "threshold": snapshot.threshold}
    noisy, least = snapshot.noisy_counts.get(location_id), snapshot.counts_at_least.get(location_id, 0)
    most: int | None = None
    if noisy is not None:
        answer["state"], most = "noisy_count", find_upper_bound(least, noisy)
    elif snapshot.complete and snapshot.registry in known:  # as `calls_others_safe`
        answer["state"], most = "safe", snapshot.threshold - 1
    return answer | ({} if most is None else {"count_at_most": most}) | ({"count_at_least": least} if least else {})
