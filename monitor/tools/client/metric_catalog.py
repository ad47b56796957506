"""The metrics of `location-monitor watch --metrics` (docs/reference.md).

They are about the published answers only, so they may have a place as a label, which no other metric has.
"""

from __future__ import annotations

from typing import Final, get_args

from monitor.observe.metric_catalog import Metric
from monitor.tools.client.known import State

STATES: Final[tuple[State, ...]] = get_args(State)

CODES: Final[dict[State, int]] = {"unknown": 0, "safe": 1, "paused": 2, "noisy_count": 3}
"""The value of `public_state` for each state."""

PUBLIC_METRICS: Final[tuple[Metric, ...]] = (
    Metric("gauge", "public_places", "Places by what is known about them now", {"state": STATES}),
    Metric(
        "gauge",
        "public_state",
        "What is known about a place now, as a number",
        {"location_id": "the first `--metrics-places` places of the registry"},
        "0: unknown, 1: safe, 2: paused, 3: a noisy count (an alarm). As for every subscriber, an answer becomes "
        "unknown when it is no longer valid.",
    ),
    Metric("gauge", "public_places_left_out", "Places without a series of their own, because there are too many"),
    Metric(
        "gauge",
        "public_as_of_timestamp_seconds",
        "as_of of the latest answer",
        note="Absent before the first one.",
    ),
    Metric("gauge", "public_slot_seconds", "Length of a slot"),
    Metric("gauge", "public_build_info", "Version, as a label of the constant 1", {"version": "the package's version"}),
)
