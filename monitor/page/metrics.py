"""Metrics and readiness of the page. No label has a place, a client or a path, so visitors leave no trace."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor import __version__
from monitor.observe.metric_catalog import Metric
from monitor.observe.metrics import Collectors
from monitor.time.instants import SECOND

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
    Metric(
        "gauge",
        "page_not_verified",
        "Whether answers are not shown because they are not verified: 1 or 0",
        note="1 after a wrong signature, when every place is unknown, and while an output partition has no tick that "
        "`signing.public_key` has signed (after `--since`, if it is given). `/readyz` says why. Always 0 without the "
        "key.",
    ),
    Metric("gauge", "page_unreachable_after_seconds", "How long the page may be without Kafka, as configured"),
    Metric("gauge", "page_slot_seconds", "Length of a slot"),
    Metric("gauge", "page_build_info", "Version, as a label of the constant 1", {"version": "the package's version"}),
)

_AS_OF: Final = "page_as_of_timestamp_seconds"


class PageMetrics(Collectors):
    """The metrics of one page, in a Prometheus registry of their own.

    Args:
        slot: the length of a slot, in microseconds.
        unreachable_after: how long the page may be without Kafka, in microseconds.
        subscribers_limit: the most subscribers.
    """

    def __init__(self, slot: int, unreachable_after: int, subscribers_limit: int) -> None:
        super().__init__(PAGE_METRICS)
        self._gauge("page_build_info").labels(__version__).set(1)
        self._gauge("page_slot_seconds").set(slot / SECOND)
        self._gauge("page_unreachable_after_seconds").set(unreachable_after / SECOND)
        self._gauge("page_subscribers_limit").set(subscribers_limit)
        self.registry.unregister(self._gauge(_AS_OF))  # until the first answer
        self._has_as_of = False
        self._unreachable_after = unreachable_after
        self._silent_seconds: Callable[[], float] = lambda: 0.0
        self._find_unverified: Callable[[], str] = str
        self._list_ended: Callable[[], list[str]] = list

    def watch(
        self,
        subscribers: Sized,
        silent_seconds: Callable[[], float],
        find_unverified: Callable[[], str],
        list_ended: Callable[[], list[str]],
    ) -> None:
        """Set the sources that each scrape or probe reads.

        Args:
            subscribers: the open subscriptions.
            silent_seconds: the seconds since Kafka last answered.
            find_unverified: why answers are not shown (`Verification.unverified`); empty if all are.
            list_ended: the threads that have ended by themselves.
        """
        self._silent_seconds, self._find_unverified, self._list_ended = silent_seconds, find_unverified, list_ended
        self._gauge("page_subscribers").set_function(lambda: len(subscribers))
        self._gauge("page_source_age_seconds").set_function(silent_seconds)
        self._gauge("page_not_verified").set_function(lambda: bool(find_unverified()))

    def count_response(self, route: str, status: int) -> None:
        """Count a response."""
        known = route if route in ROUTES else OTHER
        self._counter("page_responses").labels(known, f"{status // 100}xx").inc()

    def count_cut(self) -> None:
        """Count a subscriber that was too slow."""
        self._counter("page_subscribers_cut").inc()

    def count_refused(self, limit: str) -> None:
        """Count a connection that was refused because of a limit: `all` or `address`."""
        self._counter("page_connections_refused").labels(limit).inc()

    def count_foreign(self, records: int) -> None:
        """Count foreign records of the output topic."""
        self._counter("page_foreign_records").inc(records)

    def set_as_of(self, as_of: int | None) -> None:
        """Set the as_of of the latest answer, an instant; None before the first one."""
        if as_of is None:
            return
        self._gauge(_AS_OF).set(as_of / SECOND)
        if not self._has_as_of:
            self._has_as_of = True
            self.registry.register(self._gauge(_AS_OF))

    def list_stalled(self) -> list[str]:
        """Return the threads that have ended by themselves. The process ends too, a second later."""
        return self._list_ended()

    def list_waiting(self) -> dict[str, str]:
        """Return why places are shown as unknown: Kafka has not answered for too long, or answers are not verified.

        A proxy then prefers another page, for example one that already has a new public key. A restart does not help
        against a wrong signature, so it is no reason in `list_stalled`.
        """
        waiting, silent, unverified = dict[str, str](), self._silent_seconds(), self._find_unverified()
        if silent * SECOND > self._unreachable_after:
            waiting["kafka"] = f"no answer for {silent:.0f} s, so every place is shown as unknown"
        if unverified:
            waiting["signatures"] = f"{unverified}, so its places are shown as unknown. A restart alone does not help"
        return waiting


class CountResponses:
    """Middleware that counts responses by the name of their route and their status."""

    def __init__(self, app: ASGIApp, count: Callable[[str, int], None]) -> None:
        self._app, self._count = app, count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request. The router writes its endpoint into the scope before the response starts."""

        async def send_and_count(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._count(getattr(scope.get("endpoint"), "__name__", OTHER), message["status"])
            await send(message)

        await self._app(scope, receive, send_and_count)
