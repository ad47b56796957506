"""Write docs/vectors/, the test vectors for clients in every language: `python -m tests.tools.client.vectors --write`.

The records are those of the service's own writers. The expected answers are written here by hand, not computed by a
client. docs/subscribers.md describes the form.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from monitor.contracts.instants import DAY, HOUR, MILLISECOND, format_instant
from monitor.contracts.parameters import Registry, find_shard
from monitor.contracts.slot_grid import SlotGrid
from monitor.privacy.paired import PairedTotals
from tests.tools.client.newer_forms import newer_forms
from tests.tools.client.records import SLOTS, dwell, hot_spots, over_time, snapshot
from tests.tools.client.vector_parts import (
    NOTHING,
    Json,
    apply,
    at,
    case,
    event,
    noisy,
    over,
    paused,
    safe,
    timed,
    unknown,
)

FOLDER: Final = Path(__file__).parents[3] / "docs" / "vectors"

MANY: Final = 3_000_000_001
"""A number of shards with which 2^32 modulo it, times a remainder, exceeds the exact integers of JavaScript."""


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


def _configuration_changes() -> dict[str, Json]:
    other = Registry(("market", "park", "school"), 2)
    slower = {"as_of": format_instant(SLOTS.as_of(9)), "window_start": format_instant(SLOTS.start(4))}
    halved, expired = SlotGrid(SLOTS.start(0), 2 * HOUR), {"valid_until": format_instant(SLOTS.as_of(7))}
    about = over(3, start=format_instant(halved.start(-3)))  # tick 1 of `halved` ends with tick 3 of SLOTS
    towns = Registry(("東京", "zürich"), 2)
    return {
        "long_slots": case(
            "With slots of more than an hour, places are forgotten after 24 slots without a record, not after a day.",
            apply(over_time("market", 1, 0, grid=halved), over_time("park", 14, 0, grid=halved)),
            at(29, {"market": unknown("too_old", about) | expired}),
            apply(over_time("park", 25, 0, grid=halved)),
            at(51, {"market": unknown("too_old", about) | expired}),
            apply(over_time("park", 26, 0, grid=halved)),
            at(53, {"market": NOTHING}),
            slot=2 * HOUR,
        ),
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
        "many_shards": case(
            "Any number of shards divides the places. A snapshot of a shard that does not exist changes nothing.",
            apply(
                *(
                    event(snapshot(0, 3), shard=find_shard(place, MANY), shards=MANY)
                    for place in ("market", "clinic", "park")
                )
            ),
            apply(event(snapshot(0, 4), shard=7, shards=7), event(snapshot(0, 4), shard=MANY, shards=MANY)),
            at(3, {"market": safe(timed(3)), "clinic": safe(timed(3)), "park": safe(timed(3)), "school": NOTHING}),
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
    return _over_time() | _delivery() | _designated_times() | newer_forms() | _configuration_changes()


def render(vector: Json) -> str:
    """Return the file of a vector: JSON with one record per line, to keep differences readable."""
    return json.dumps(vector, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.tools.client.vectors --write")
    FOLDER.mkdir(exist_ok=True)
    for name, vector in vectors().items():
        (FOLDER / f"{name}.json").write_text(render(vector), encoding="utf-8")
