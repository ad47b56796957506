"""The metrics of `location-monitor page` (docs/reference.md)."""

from __future__ import annotations

from typing import Final

from monitor.observe.metric_catalog import Metric

OTHER: Final = "other"
ROUTES: Final = (
    "page",
    "locations_json",
    "locations_csv",
    "locations_geojson",
    "history",
    "registry",
    "states",
    "records",
    "ticks",
    "stream",
    "background_geojson",
    "openapi",
    "static_file",
    OTHER,
)
STATUSES: Final = ("2xx", "3xx", "4xx", "5xx")
LIMITS: Final = ("all", "address")

PAGE_METRICS: Final[tuple[Metric, ...]] = (
    Metric("gauge", "page_subscribers", "Open connections to the stream"),
    Metric("gauge", "page_subscribers_limit", "Most open connections to the stream", note="`page.subscribers`."),
    Metric(
        "counter",
        "page_subscribers_cut",
        "Subscribers that were disconnected because they read too slowly",
        note="They may connect again, and get what they missed.",
    ),
    Metric(
        "counter",
        "page_responses",
        "Responses by route and class of their status",
        {"route": ROUTES, "status": STATUSES},
        "`stream` counts when a stream begins. `other`: no such path, and preflight requests. Requests that are "
        "refused before they reach a route, such as those with a long head, are not counted. No address and "
        "no place is kept.",
    ),
    Metric(
        "counter",
        "page_connections_refused",
        "Connections that were closed at once, by the limit that they exceeded",
        {"limit": LIMITS},
        "`all`: `page.subscribers` and 500 more. `address`: `page.connections_per_address`. If a proxy is limited, the "
        "log has a warning.",
    ),
    Metric(
        "counter",
        "page_foreign_records",
        "Records of the output topic that have a type for subscribers but cannot be read",
        note="They are skipped. The service does not write such records: find out who does.",
    ),
    Metric(
        "gauge",
        "page_as_of_timestamp_seconds",
        "as_of of the latest answer that the page shows",
        note="Absent before the first one.",
    ),
    Metric(
        "gauge",
        "page_source_age_seconds",
        "Time since Kafka last answered",
        note="Above `page_unreachable_after_seconds`, the page shows every place as unknown.",
    ),
    Metric("gauge", "page_unreachable_after_seconds", "How long the page may be without Kafka, as configured"),
    Metric("gauge", "page_slot_seconds", "Length of a slot"),
    Metric("gauge", "page_build_info", "Version, as a label of the constant 1", {"version": "the package's version"}),
)
