"""The test vectors about newer forms of records, and about records that cannot be read."""

from __future__ import annotations

from tests.tools.client.records import hot_spots, over_time, snapshot
from tests.tools.client.vector_parts import NOTHING, Json, apply, at, case, event, noisy, over, safe, timed, unknown


def newer_forms() -> dict[str, Json]:
    """Return the vectors by name."""
    changed: tuple[dict[str, object], ...] = (
        {"kind": "at_times_2"},
        {"epsilon": ...},
        {"locations": "2"},
        {"registry": "other"},
        {"at_least_epsilon": 1},
        {"noisy_counts": {"": {"tick": 3, "noisy_count": 9}}},
    )
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
        "newer_answers": case(
            "Every field of an answer must have its form: a missing or a changed one is a newer form.",
            apply(*(over_time(place, 6, 0) for place in ("market", "clinic", "park", "school"))),
            apply(
                event(over_time("market", 7, 0), kind="over_time_2"),
                event(over_time("clinic", 7, 0), answers=...),
                event(over_time("park", 7, 0), tick="7"),
                event(over_time("school", 7, 0), epsilon=1),
            ),
            at(7, _newer_alerts(7)),
            apply(
                event(over_time("market", 8, 12, (7, 12)), answers=[{"tick": 7, "noisy_count": 12}]),
                event(over_time("clinic", 8, 12), noisy_count=...),
                event(over_time("park", 8, 12), p_value=2),
                event(over_time("school", 8, 0), window_start="2026-02-30T00:00:00Z"),
            ),
            at(8, _newer_alerts(8)),
        ),
        "newer_snapshots": case(
            "Every field of a snapshot must have its form, also those that clients do not show.",
            *(
                step
                for tick, changes in enumerate(changed, start=10)
                for step in (
                    apply(snapshot(1, tick - 1, time=8), event(snapshot(1, tick, time=8), **changes)),
                    at(tick, {"clinic": unknown("not_understood", timed(tick, 8, threshold=None))}),
                )
            ),
        ),
        "newer_hot_spots": case(
            "Hot spots that are not understood name nothing.",
            apply(*(event(hot_spots(2, {"market": 9}), **change) for change in ({"kind": "top"}, {"final": False}))),
            apply(*(event(hot_spots(2, {"market": 9}), **change) for change in ({"top": 0}, {"epsilon": ...}))),
            at(4, {"market": NOTHING}),
        ),
        "forms_of_times": case(
            "A time has no fraction of a second, or one of six digits. In another form, it names no answer.",
            apply(over_time("market", 6, 0)),
            apply(
                event(over_time("market", 7, 12), as_of="2026-01-05T08:00:00.000Z"),
                event(over_time("market", 7, 12), as_of="2026-01-05T08:00:00+00:00"),
                event(over_time("market", 7, 12), as_of="2026-02-30T08:00:00Z"),
                event(over_time("", 7, 12)),
                event(over_time("m" * 257, 7, 12)),
            ),
            at(6, {"market": safe(over(6)), "": NOTHING, "m" * 257: NOTHING}),
            apply(event(over_time("market", 7, 12), as_of="2026-01-05T08:00:00.000000Z")),
            at(7, {"market": noisy(over(7), 12)}),
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


def _newer_alerts(tick: int) -> dict[str, Json]:
    about = over(tick, start=None, threshold=None)
    return dict.fromkeys(("market", "clinic", "park", "school"), unknown("not_understood", about))
