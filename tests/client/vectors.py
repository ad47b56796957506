"""Write docs/vectors/, the test vectors for clients in every language: `python -m tests.client.vectors --write`.

The records are those of the service's own writers. The expected answers are written here by hand, not computed by a
client. docs/subscribers.md describes the form.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from monitor.contracts.alerts import OutputRecord
from monitor.privacy.paired import PairedTotals
from monitor.public.instants import DAY, HOUR, MILLISECOND, SECOND, format_instant
from monitor.public.parameters import Registry
from tests.client.records import REGISTRY, SLOTS, dwell, hot_spots, over_time, snapshot

FOLDER: Final = Path(__file__).parents[2] / "docs" / "vectors"

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


def case(description: str, *steps: Json, locations: Sequence[str] = REGISTRY.ids) -> Json:
    """Return a vector."""
    head = {"description": description, "slot_seconds": 3_600, "final_for_seconds": 86_400}
    return head | {"locations": list(locations), "steps": list(steps)}


def _over_time() -> dict[str, Json]:
    answers_again = over_time("market", 13, 0)
    return {
        "safe": case(
            "A safe place has fewer people than the threshold. A place without any record is unknown.",
            at(7, {"market": NOTHING, "nowhere": NOTHING}),
            apply(over_time("market", 7, 0)),
            at(7, {"market": safe(over(7)), "park": NOTHING, "nowhere": NOTHING}),
        ),
        "noisy_count": case(
            "A noisy count is a certain upper bound. The place is then paused, and answers again when its marks end.",
            apply(over_time("market", 6, 12)),
            at(6, {"market": noisy(over(6), 12)}),
            apply(over_time("market", 7, 12, (6, 12))),
            at(7, {"market": paused(over(7), 13)}),
            apply(answers_again),
            at(13, {"market": safe(over(13))}),
        ),
        "unknown": case(
            "If the service did not know its input to be complete, a place is unknown.",
            apply(over_time("market", 6, 0), over_time("market", 7, None)),
            at(7, {"market": unknown("input_incomplete", over(7))}),
            apply(over_time("market", 8, 0)),
            at(8, {"market": safe(over(8))}),
        ),
        "missing_tick": case(
            "A skipped tick has no records. The place becomes unknown until the answer of the next tick.",
            apply(over_time("market", 6, 0)),
            at(7.9, {"market": safe(over(6))}),
            at(8, {"market": unknown("too_old", over(6))}),
            apply(over_time("market", 8, 0)),
            at(8, {"market": safe(over(8))}),
        ),
        "stale": case(
            "Up to and at valid_until an answer is valid. After it, the place is unknown, and has no bounds.",
            apply(over_time("market", 6, 12), over_time("park", 6, 0), over_time("clinic", 6, 12, (5, 12))),
            at(8, {"market": noisy(over(6), 12), "park": safe(over(6)), "clinic": paused(over(6), 12)}, after=0),
            at(
                8,
                {
                    "market": unknown("too_old", over(6)),
                    "park": unknown("too_old", over(6)),
                    "clinic": unknown("too_old", over(6) | {"resumes_at": format_instant(SLOTS.as_of(12))}),
                },
                after=MILLISECOND,
            ),
        ),
        "clock_behind": case(
            "A clock that is more than a slot behind as_of is wrong. It can't judge how old an answer is.",
            apply(over_time("market", 6, 0)),
            at(5, {"market": safe(over(6))}, after=0),
            at(5, {"market": unknown("clock_behind", over(6))}, after=-MILLISECOND),
        ),
    }


def _delivery() -> dict[str, Json]:
    first, second = over_time("market", 6, 12), over_time("market", 7, 12, (6, 12))
    return {
        "duplicates": case(
            "A record may come twice (the same ce_id) and late. Neither changes anything.",
            apply(first, first, second, first, over_time("market", 5, 0), second),
            apply(snapshot(1, 4, {"market": (3, 9)}), snapshot(1, 3), snapshot(1, 4, {"market": (3, 9)})),
            apply(hot_spots(3, {"park": 7}), hot_spots(3, {"park": 7}), hot_spots(2, {"market": 5})),
            at(
                7,
                {
                    "market": paused(over(7), 13) | {"valid_until": format_instant(SLOTS.as_of(9))},
                    "park": noisy(timed(5, 3, monitor="busiest", kind="hot_spots", threshold=None), 7, final=True),
                },
            ),
        ),
        "aborted_transaction": case(
            "The records of an aborted transaction are not visible with read_committed. With read_uncommitted they "
            "are, and the same records come again. What is known is the same in both cases.",
            apply(over_time("market", 6, 0)),
            apply(over_time("market", 7, 12), over_time("park", 7, 0), aborted=True),
            apply(over_time("market", 7, 12), over_time("park", 7, 0)),
            at(7, {"market": noisy(over(7), 12), "park": safe(over(7))}),
        ),
    }


def _designated_times() -> dict[str, Json]:
    unlisted = {place: safe(timed(3)) for place in ("park", "school", "clinic")}
    return {
        "at_times": case(
            "A place that a complete snapshot of its shard does not list is safe. Without a snapshot it is unknown. An "
            "unknown snapshot keeps the noisy counts.",
            apply(snapshot(1, 3, {"market": (3, 9)})),
            at(3, {"market": noisy(timed(3), 9), "clinic": safe(timed(3)), "park": NOTHING, "school": NOTHING}),
            apply(snapshot(0, 3)),
            at(3, {"market": noisy(timed(3), 9)} | unlisted),
            apply(snapshot(1, 4, {"market": (3, 9)}, complete=False)),
            at(
                4,
                {
                    "market": noisy(timed(4), 9, counted=3),
                    "clinic": unknown("input_incomplete", timed(4)),
                    "park": safe(timed(3)),
                },
            ),
        ),
        "at_least": case(
            "Lower bounds come with the final snapshot, and stay if a later one has none. A noisy count is as of its "
            "own tick: if later reports raised the lower bound above it, there is no upper bound.",
            apply(
                snapshot(0, 6, bounds={"park": 2}),
                snapshot(1, 6, {"market": (3, 9), "clinic": (5, 8)}, bounds={"market": 4, "clinic": 11}),
            ),
            at(
                6,
                {
                    "market": noisy(timed(6), 9, 4, counted=3, final=True),
                    "park": safe(timed(6), 2, final=True),
                    "school": safe(timed(6), final=True),
                    "clinic": noisy(timed(6), None, 11, counted=5, final=True),
                },
            ),
            apply(snapshot(0, 7)),
            at(7, {"park": safe(timed(7), 2)}),
        ),
        "final": case(
            "The last answer about a designated time is valid for a day. An answer about a later time replaces it.",
            apply(snapshot(0, 6), snapshot(1, 6, {"market": (3, 9)})),
            at(29.9, {"market": noisy(timed(6), 9, counted=3, final=True), "park": safe(timed(6), final=True)}),
            at(30, {"market": unknown("too_old", timed(6)) | {"as_of": "2026-01-05T04:00:00Z"} | _day(6)}),
            apply(snapshot(0, 27, time=26)),
            at(27, {"market": noisy(timed(6), 9, counted=3, final=True), "park": safe(timed(27, 26))}),
            at(29, {"park": unknown("too_old", timed(27, 26))}),
        ),
        "hot_spots": case(
            "A hot spot's count is a certain upper bound. It compares with no threshold, so other answers come first.",
            apply(hot_spots(2, {"market": 9, "park": 3})),
            at(4, {"market": noisy(_spots(2), 9, final=True), "school": NOTHING}),
            apply(over_time("park", 4, 0)),
            at(4, {"park": safe(over(4))}),
            apply(hot_spots(3, {"school": 5})),
            at(5, {"market": NOTHING, "school": noisy(_spots(3), 5, final=True)}),
            apply(hot_spots(4, None)),
            at(6, {"school": NOTHING}),
        ),
        "dwell": case(
            "Lengths of visits say nothing about any place.",
            apply(dwell(2, PairedTotals(60_000, 12_000, 0, 3_600)), dwell(3, None)),
            at(5, {"market": NOTHING}),
        ),
    }


def _day(tick: int) -> Json:
    return {"valid_until": format_instant(SLOTS.as_of(tick) + DAY)}


def _spots(time: int) -> Json:
    return timed(time + 2, time, monitor="busiest", kind="hot_spots", threshold=None)


def _newer_forms() -> dict[str, Json]:
    sure = event(over_time("market", 6, 0))
    return {
        "newer_schema": case(
            "Unknown fields and types are ignored. A record in a form that is not understood makes its place unknown.",
            apply(event(over_time("market", 6, 0), confidence=0.5, schema="2")),
            apply(
                sure | {"type": "org.location-monitor.over_time.2"}, sure | {"type": "com.example.other", "data": []}
            ),
            at(6, {"market": safe(over(6))}),
            apply(event(over_time("market", 7, 0), status="probably_safe")),
            at(7, {"market": unknown("not_understood", over(7, start=None, threshold=None))}),
            apply(sure),
            at(7, {"market": unknown("not_understood", over(7, start=None, threshold=None))}),
            apply(over_time("market", 8, 0)),
            at(8, {"market": safe(over(8))}),
            apply(event(over_time("market", 9, 12), count_at_most="12")),
            at(9, {"market": unknown("not_understood", over(9, start=None, threshold=None))}),
            apply(event(over_time("market", 10, 0), threshold=0), event(over_time("clinic", 10, 0), window_start="x")),
            at(
                10, dict.fromkeys(("market", "clinic"), unknown("not_understood", over(10, start=None, threshold=None)))
            ),
        ),
        "newer_snapshot": case(
            "A snapshot that is not understood makes the places of its shard unknown.",
            apply(snapshot(0, 3), snapshot(1, 3, {"market": (3, 9)})),
            apply(event(snapshot(1, 4, {"market": (3, 9)}), noisy_counts=...)),
            at(
                4,
                {
                    "market": unknown("not_understood", timed(4, threshold=None)),
                    "clinic": unknown("not_understood", timed(4, threshold=None)),
                    "park": safe(timed(3)),
                },
            ),
        ),
        "unreadable": case(
            "A record that is not JSON, or does not name what it is about, changes nothing.",
            apply(sure),
            apply(*(sure | {"data": data} for data in ("{", "", "[]", "null", {}, {"status": "safe"}))),
            apply(
                event(over_time("market", 7, 12), as_of="2026-01-05 08:00"),
                event(over_time("market", 7, 12), as_of=...),
            ),
            apply(event(over_time("market", 7, 12), location_id=...), event(over_time("market", 7, 12), monitor=7)),
            apply(event(snapshot(1, 7), shard="1"), event(snapshot(1, 7), time=...)),
            at(6, {"market": safe(over(6))}),
        ),
    }


def _configuration_changes() -> dict[str, Json]:
    other = Registry(("market", "park", "school"), 2)
    slower = {"as_of": format_instant(SLOTS.as_of(9)), "window_start": format_instant(SLOTS.start(4))}
    towns = Registry(("東京", "zürich"), 2)
    return {
        "threshold_change": case(
            "Each record says which threshold it is about.",
            apply(over_time("market", 6, 0), event(over_time("market", 7, 0), threshold=20)),
            at(7, {"market": safe(over(7, threshold=20))}),
        ),
        "monitor_removed": case(
            "A monitor that was removed from the configuration leaves its places unknown. A day later it is forgotten.",
            apply(over_time("market", 6, 0), snapshot(1, 6)),
            at(6, {"market": safe(over(6))}),
            apply(*(snapshot(1, tick, time=tick) for tick in range(9, 31, 3))),
            at(30, {"market": unknown("too_old", over(6))}),
            apply(snapshot(1, 31, time=31)),
            at(31, {"market": safe(timed(31, 31))}),
        ),
        "slot_grid_change": case(
            "After a change of the slot grid ticks may have lower numbers. The order of as_of decides.",
            apply(over_time("market", 7, 0), event(over_time("market", 4, 12), **slower)),
            at(9, {"market": noisy(over(9, start=slower["window_start"]), 12)}),
        ),
        "shards_change": case(
            "Snapshots with another number of shards replace the earlier ones, which divide the places differently.",
            apply(snapshot(0, 3), snapshot(1, 3)),
            apply(event(snapshot(0, 4, {"park": (4, 9)}), shards=3), event(snapshot(1, 4), shard=2, shards=3)),
            apply(snapshot(1, 3), snapshot(0, 3)),
            at(4, {"park": noisy(timed(4), 9), "market": safe(timed(4)), "clinic": NOTHING, "school": NOTHING}),
        ),
        "other_registry": case(
            "If the service has other locations than the subscriber, an unlisted place may be unknown to the service.",
            apply(snapshot(0, 3, registry=other), snapshot(1, 3, {"market": (3, 9)}, registry=other)),
            at(
                3,
                {
                    "market": noisy(timed(3), 9),
                    "clinic": unknown("other_registry", timed(3)),
                    "park": unknown("other_registry", timed(3)),
                },
            ),
        ),
        "not_in_registry": case(
            "A place that is not in the subscriber's registry is not safe because it is not listed.",
            apply(snapshot(0, 3), snapshot(1, 3)),
            at(3, {"library": unknown("other_registry", timed(3)), "market": safe(timed(3))}),
        ),
        "utf8": case(
            "Shards and the digest of the registry are computed from the ids in UTF-8.",
            apply(*(snapshot(shard, 3, registry=towns) for shard in (0, 1))),
            at(3, dict.fromkeys(towns.ids, safe(timed(3)))),
            locations=towns.ids,
        ),
        "several_monitors": case(
            "Of several answers the most cautious one counts: a noisy count, else a pause, else unknown, else safe.",
            apply(over_time("market", 3, 0), snapshot(1, 3, {"market": (3, 9)})),
            apply(over_time("clinic", 3, 12, (2, 12))),
            apply(over_time("park", 3, None), over_time("school", 3, 0), snapshot(0, 3)),
            at(
                3,
                {
                    "market": noisy(timed(3), 9),
                    "clinic": paused(over(3), 9),
                    "park": unknown("input_incomplete", over(3)),
                    "school": safe(timed(3)),
                },
            ),
        ),
    }


def vectors() -> dict[str, Json]:
    """Return all vectors by name."""
    return _over_time() | _delivery() | _designated_times() | _newer_forms() | _configuration_changes()


def render(vector: Json) -> str:
    """Return the file of a vector: JSON with one record per line, to keep differences readable."""
    return json.dumps(vector, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.client.vectors --write")
    FOLDER.mkdir(exist_ok=True)
    for name, vector in vectors().items():
        (FOLDER / f"{name}.json").write_text(render(vector), encoding="utf-8")
