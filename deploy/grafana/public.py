"""The dashboard *Public answers*: what the public knows over time, from a subscriber, and the public page.

Its data comes from `location-monitor watch --metrics` and from `location-monitor page`, which read only the output
topic.
"""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.models import units

from deploy.grafana.panels import (
    BAD,
    GOOD,
    WARNING,
    Query,
    Rows,
    Text,
    events,
    make_chart,
    make_stat,
    make_timeline,
    metric,
    rate,
)
from monitor.client.known import State
from monitor.client.metric_catalog import CODES

JOBS: Final = '{__name__=~"location_monitor_public_places|location_monitor_page_subscribers"}'
"""The series whose jobs the dashboard offers."""

_SHOWN: Final[dict[State, tuple[str, str]]] = {
    "unknown": ("unknown", "#8e8e8e"),
    "safe": ("safe", GOOD),
    "paused": ("paused", WARNING),
    "noisy_count": ("alarm", BAD),
}
"""The word and the colour of each state."""

_ALL: Final = f"sum by (job) ({metric('public_places')})"


def _places(state: str) -> str:
    selector = metric("public_places", f'state="{state}"')
    return f"max by (job) ({selector})"


_NOW: Final = (
    make_stat(
        Text("Safe places", "Places that are safe now, as every subscriber reads the answers.", units.Short),
        [Query(_places("safe"), "{{job}}")],
        {},
    ),
    make_stat(
        Text(
            "Places with an alarm", "Places whose latest answer is a noisy count, which raises an alarm.", units.Short
        ),
        [Query(_places("noisy_count"), "{{job}}")],
        {},
    ),
    make_stat(
        Text("Paused places", "Places that are not evaluated for a time, so that nobody pays more ε.", units.Short),
        [Query(_places("paused"), "{{job}}")],
        {},
    ),
    make_stat(
        Text(
            "Unknown places",
            "The share of places about which the public knows nothing now. Places without a monitor of kind over_time "
            "are often unknown: their answers are only about designated times.",
            units.PercentUnit,
        ),
        [Query(f"{_places('unknown')} / {_ALL}", "{{job}}")],
        {0.5: WARNING, 1: BAD},
    ),
    make_stat(
        Text(
            "Age of the latest answer",
            "The time since the end of the slot of the latest answer, in slots. After two slots, answers over time "
            "become unknown.",
            units.Short,
        ),
        [
            Query(
                f"(time() - max by (job) ({metric('public_as_of_timestamp_seconds')})) / "
                f"max by (job) ({metric('public_slot_seconds')})",
                "{{job}}",
            )
        ],
        {1.5: WARNING, 2: BAD},
    ),
    make_stat(
        Text(
            "Places left out",
            "Places without a line in the timeline below. The option --metrics-places of `watch` sets the number of "
            "lines.",
            units.Short,
        ),
        [Query(f"max by (job) ({metric('public_places_left_out')})", "{{job}}")],
        {},
    ),
)

_STATES: Final = (
    make_chart(
        Text("Places by state", "How many places are safe, paused, unknown, or have an alarm.", units.Short),
        [Query(f"max by (job, state) ({metric('public_places')})", "{{state}} ({{job}})")],
        style="areas",
    ),
    make_chart(
        Text(
            "Age of answers",
            "The time since the end of the slot of the latest answer. It rises for a slot and falls at the next "
            "answer. Above the limit, answers over time are unknown.",
            units.Seconds,
        ),
        [
            Query(f"time() - max by (job) ({metric('public_as_of_timestamp_seconds')})", "age ({{job}})"),
            Query(f"2 * max by (job) ({metric('public_slot_seconds')})", "limit ({{job}})"),
        ],
    ),
    make_timeline(
        Text(
            "State of each place",
            "What is known about each place over time. Only the first places of the registry have a line.",
            units.NoUnit,
        ),
        Query(f"max by (location_id) ({metric('public_state')})", "{{location_id}}"),
        {CODES[state]: shown for state, shown in _SHOWN.items()},
    ),
)

_PAGE: Final = (
    make_chart(
        Text("Subscribers", "Open connections to the stream of the public page, and the limit.", units.Short),
        [
            Query(f"sum by (job) ({metric('page_subscribers')})", "subscribers ({{job}})"),
            Query(f"sum by (job) ({metric('page_subscribers_limit')})", "limit ({{job}})"),
        ],
    ),
    make_chart(
        Text(
            "Responses",
            "Responses of the public page by route. A CDN before the page answers most requests itself.",
            "reqps",
        ),
        [Query(rate("page_responses_total", "job, route"), "{{route}} ({{job}})")],
    ),
    make_chart(
        Text(
            "Errors and disconnected subscribers",
            "Responses with a server error, and subscribers that read too slowly. Above one response in a hundred, "
            "LocationMonitorPageRefuses fires.",
            units.Short,
        ),
        [
            Query(events("page_responses_total", "job, route", 'status="5xx"'), "{{route}} ({{job}})"),
            Query(events("page_subscribers_cut_total", "job"), "disconnected ({{job}})"),
        ],
        style="bars",
    ),
    make_chart(
        Text(
            "Time since Kafka has answered",
            "Above the limit the page shows every place as unknown, and LocationMonitorPageStale fires.",
            units.Seconds,
        ),
        [
            Query(metric("page_source_age_seconds"), "{{instance}}"),
            Query(f"max by (job) ({metric('page_unreachable_after_seconds')})", "limit ({{job}})"),
        ],
    ),
)

ROWS: Final[Rows] = {"Now": _NOW, "States": _STATES, "The public page": _PAGE}
