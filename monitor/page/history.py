"""What was published about one place: per monitor, the periods in which its answer stayed the same.

Hot spots are left out, because they are compared with no threshold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from monitor.client.designated_time import calls_others_safe, make_interval
from monitor.contracts.alerts import AT_TIMES, AtTimesSnapshot, NoisyCountAlert, OverTimeAlert, PausedAlert
from monitor.page.board import Board
from monitor.page.entries import Entry
from monitor.public.instants import format_instant
from monitor.public.parameters import Parameters, Registry, find_shard

_NOT_UNDERSTOOD: Final = {"state": "unknown"}  # a newer form of a record

_encode: Final = msgspec.json.Encoder().encode


class _Shard(msgspec.Struct):
    """The shard that a snapshot of an `at_times` monitor is about, which each of them on the board names."""

    shard: int
    shards: int


_read_shard: Final = msgspec.json.Decoder(_Shard).decode  # many times faster than the whole contract


def write_history(
    location_id: str, row: int, board: Board, parameters: Parameters, earlier: Sequence[Registry] = ()
) -> bytes:
    """Return the history of a place as JSON, the latest period first. `earlier`: registries that were used before."""
    known = [one for one in (parameters.registry, *earlier) if location_id in one.rows]
    periods = [
        *_list_over_time(location_id, row, board, parameters),
        *_list_at_times(location_id, board, parameters, known),
    ]
    periods.sort(key=lambda period: (period["until"], period["monitor"]), reverse=True)
    return _encode({"id": location_id, "history": periods})


def _list_over_time(location_id: str, row: int, board: Board, parameters: Parameters) -> Iterator[dict[str, Any]]:
    for monitor in parameters.over_time:
        if row in monitor.rows:
            entries = board.list_by_key(f"{monitor.name}/{location_id}")
            answers = ((entry.as_of, _read_alert(entry)) for entry in entries)
            yield from _join({"monitor": monitor.name, "kind": "over_time"}, answers)


def _list_at_times(
    location_id: str, board: Board, parameters: Parameters, known: Sequence[Registry]
) -> Iterator[dict[str, Any]]:
    for monitor in parameters.at_times:
        for key in board.list_keys(f"{monitor.name}/"):
            time = key.split("/")[1]
            # A monitor of another kind may have had this name. Its records have no shard.
            snapshots = (entry for entry in board.list_by_key(key) if entry.type == AT_TIMES)
            entries = (entry for entry in snapshots if _is_about(entry, location_id))
            answers = ((entry.as_of, _read_snapshot(entry, location_id, known)) for entry in entries)
            yield from _join({"monitor": monitor.name, "kind": "at_times", "time": time}, answers)


def _is_about(entry: Entry, location_id: str) -> bool:
    """Return whether a snapshot is about the shard of a place, by the number of shards that it had then."""
    about = _read_shard(entry.raw)
    return find_shard(location_id, about.shards) == about.shard


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


def _read_alert(entry: Entry) -> dict[str, Any]:
    try:
        alert = OverTimeAlert.model_validate_json(entry.raw).root
    except ValidationError:
        return _NOT_UNDERSTOOD
    answer: dict[str, Any] = {"state": alert.status, "threshold": alert.threshold}
    if isinstance(alert, NoisyCountAlert):
        answer["count_at_most"] = alert.count_at_most
    elif isinstance(alert, PausedAlert):
        answer["resumes_at"] = alert.resumes_at
    elif alert.status == "safe":
        answer["count_at_most"] = alert.threshold - 1
    return answer


def _read_snapshot(entry: Entry, location_id: str, known: Sequence[Registry]) -> dict[str, Any]:
    """Return the answer of a snapshot about a place. `known`: the registries that have this place."""
    try:
        snapshot = AtTimesSnapshot.model_validate_json(entry.raw)
    except ValidationError:
        return _NOT_UNDERSTOOD
    answer: dict[str, Any] = {"state": "unknown", "threshold": snapshot.threshold}
    noisy, least = snapshot.noisy_counts.get(location_id), snapshot.counts_at_least.get(location_id, 0)
    most: int | None = None
    if noisy is not None:
        answer["state"], most = "noisy_count", make_interval(least, noisy.noisy_count)[1]
    elif any(calls_others_safe(snapshot, registry) for registry in known):
        answer["state"], most = "safe", snapshot.threshold - 1
    return answer | ({} if most is None else {"count_at_most": most}) | ({"count_at_least": least} if least else {})
