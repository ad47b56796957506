"""What was published about one place: per monitor, the periods in which its answer stayed the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from monitor.page.board import Board
from monitor.public.instants import format_instant
from monitor.public.parameters import Parameters

_encode: Final = msgspec.json.Encoder().encode


def history_json(location_id: str, row: int, board: Board, parameters: Parameters) -> bytes:
    """Return the history of a place as JSON, the latest period first."""
    periods = [*_over_time(location_id, row, board, parameters), *_at_times(location_id, row, board, parameters)]
    periods.sort(key=lambda period: (period["until"], period["monitor"]), reverse=True)
    return _encode({"id": location_id, "history": periods})


def _over_time(location_id: str, row: int, board: Board, parameters: Parameters) -> Iterator[dict[str, Any]]:
    for monitor in parameters.over_time:
        if row in monitor.rows:
            entries = board.of_key(f"{monitor.name}/{location_id}")
            answers = ((entry.as_of, _read_alert(entry.value)) for entry in entries)
            yield from _join({"monitor": monitor.name, "kind": "over_time"}, answers)


def _at_times(location_id: str, row: int, board: Board, parameters: Parameters) -> Iterator[dict[str, Any]]:
    shard = int(parameters.registry.shard[row])
    for monitor in parameters.at_times:
        for key in board.keys(f"{monitor.name}/"):
            _monitor, time, found = key.split("/")
            if int(found) == shard:
                answers = ((entry.as_of, _read_snapshot(entry.value, location_id)) for entry in board.of_key(key))
                yield from _join({"monitor": monitor.name, "kind": "at_times", "time": time}, answers)


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


def _read_alert(value: Mapping[str, Any]) -> dict[str, Any]:
    answer = {"state": value["status"], "threshold": value["threshold"]}
    if value["status"] == "safe":
        answer["count_at_most"] = value["threshold"] - 1
    return answer | {name: value[name] for name in ("count_at_most", "resumes_at") if name in value}


def _read_snapshot(value: Mapping[str, Any], location_id: str) -> dict[str, Any]:
    noisy = value["noisy_counts"].get(location_id)
    state = "noisy_count" if noisy else "safe" if value["status"] == "complete" else "unknown"
    answer: dict[str, Any] = {"state": state, "threshold": value["threshold"]}
    if state != "unknown":
        answer["count_at_most"] = noisy["noisy_count"] if noisy else value["threshold"] - 1
    bounds = value.get("counts_at_least", {})
    return answer | ({"count_at_least": bounds[location_id]} if location_id in bounds else {})
