"""The parts of the test vectors: steps, records as CloudEvents, and expected answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from monitor.contracts.alerts import OutputRecord
from monitor.contracts.instants import DAY, HOUR, SECOND, format_instant
from tests.tools.client.records import REGISTRY, SLOTS

Json = dict[str, Any]

NOTHING: Final[Json] = {
    "state": "unknown",
    "reason": "nothing_published",
    "as_of": None,
    "valid_until": None,
    "count_at_most": None,
    "count_at_least": 0,
    "about": None,
}


def event(record: OutputRecord, **changes: Any) -> Json:
    """Return a record as a CloudEvent, with changed fields of the value. A field `...` is removed."""
    headers = {name: value.decode() for name, value in record.headers}
    data = {name: value for name, value in (json.loads(record.value) | changes).items() if value is not ...}
    attributes = {name: headers[f"ce_{name}"] for name in ("type", "id", "source", "time")}
    return {**attributes, "data": data}


def apply(*records: OutputRecord | Json, aborted: bool = False) -> Json:
    """Return the step that adds records. Those of an aborted transaction are marked."""
    events = [record if isinstance(record, dict) else event(record) for record in records]
    return {"records": [{"aborted": True, **each} for each in events] if aborted else events}


def at(tick: float, known: dict[str, Json], after: int = 5 * SECOND) -> Json:
    """Return the step that states what is known shortly after a tick (`after`: in microseconds)."""
    return {"at": format_instant(int(SLOTS.start(0) + (tick + 1) * HOUR) + after), "known": known}


def answer(state: str, reason: str, about: Json, *, counted: float | None = None, final: bool = False) -> Json:
    """Return an answer about `about`, whose key `tick` is the tick of its record, without bounds."""
    about = dict(about)
    as_of = SLOTS.start(0) + int((about.pop("tick") + 1) * HOUR)
    shown = as_of if counted is None else SLOTS.start(0) + int((counted + 1) * HOUR)
    return {
        "state": state,
        "reason": reason,
        "as_of": format_instant(shown),
        "valid_until": format_instant(as_of + (DAY if final else 2 * HOUR)),
        "count_at_most": None,
        "count_at_least": 0,
        "about": about,
    }


def over(tick: int, **changes: Any) -> Json:
    """Return what an `over_time` answer of the monitor `places` is about: the five slots up to a tick."""
    start, end = format_instant(SLOTS.start(tick - 4)), format_instant(SLOTS.as_of(tick))
    about = {"monitor": "places", "kind": "over_time", "start": start, "end": end, "threshold": 10, "resumes_at": None}
    return about | {"tick": tick} | changes


def timed(tick: float, time: int = 2, **changes: Any) -> Json:
    """Return what an answer about a designated time is about: half an hour into slot `time`."""
    moment = format_instant(SLOTS.start(time) + HOUR // 2)
    about = {"monitor": "midday", "kind": "at_times", "start": moment, "end": moment, "threshold": 8}
    return about | {"resumes_at": None, "tick": tick} | changes


def safe(about: Json, least: int = 0, *, final: bool = False) -> Json:
    bounds = {"count_at_most": about["threshold"] - 1, "count_at_least": least}
    return answer("safe", "below_threshold", about, final=final) | bounds


def noisy(about: Json, most: int | None, least: int = 0, *, counted: float | None = None, final: bool = False) -> Json:
    bounds = {"count_at_most": most, "count_at_least": least}
    return answer("noisy_count", "noisy", about, counted=counted, final=final) | bounds


def paused(about: Json, resumes: int) -> Json:
    return answer("paused", "budget_spent", about | {"resumes_at": format_instant(SLOTS.as_of(resumes))})


def unknown(reason: str, about: Json, *, final: bool = False) -> Json:
    return answer("unknown", reason, about, final=final)


def case(description: str, *steps: Json, locations: Sequence[str] = REGISTRY.ids, slot: int = HOUR) -> Json:
    """Return a vector. `slot`: the length of a slot, in microseconds."""
    head = {"description": description, "slot_seconds": slot // SECOND, "final_for_seconds": 86_400}
    return head | {"locations": list(locations), "steps": list(steps)}
