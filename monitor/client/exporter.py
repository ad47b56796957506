"""`location-monitor watch --metrics`: the published answers as metrics, for a dashboard of what the public knows.

It is a subscriber like any other: it reads the output topic with a plain consumer, and the public registry. It never
sees a visit, Redis, the person key or the metrics of the service, so its metrics cannot leak what was not published.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

from monitor import __version__
from monitor.client.answer_types import State
from monitor.client.subscription import Places, Update, subscribe
from monitor.kinds.upper_bound.record import UpperBoundAlert
from monitor.observe.health import Endpoint, Health
from monitor.observe.prometheus_metric import Collectors, Metric
from monitor.time.instants import SECOND, parse_instant

MOST_PLACES: Final = 1_000
"""The most places with a series of their own."""

STATES: Final[tuple[State, ...]] = get_args(State)

CODES: Final[dict[State, int]] = {
    "unknown": 0,
    "safe": 1,
    "paused": 2,
    "noisy_count": 3,
    "below_since": 4,
    "bounded": 5,
}
"""The value of `public_state` for each state."""

PUBLIC_METRICS: Final[tuple[Metric, ...]] = (
    Metric("gauge", "public_places", "Places by what is known about them now", {"state": STATES}),
    Metric(
        "gauge",
        "public_state",
        "What is known about a place now, as a number",
        {"location_id": "the first `--metrics-places` places of the registry"},
        "0: unknown, 1: safe, 2: paused, 3: a noisy count (an alarm), 4: below the threshold since an alarm that still "
        "counts, 5: only an upper bound (public_count_at_most). As for every subscriber, an answer becomes unknown "
        "when it is no longer valid.",
    ),
    Metric(
        "gauge",
        "public_count_at_most",
        "A certain upper bound of the people in the window, of a monitor of kind upper_bound",
        {"monitor": "the name of the monitor", "location_id": "as of public_state"},
        "Absent while there is no bound, and from two buckets after the latest one on.",
    ),
    Metric("gauge", "public_places_left_out", "Places without a series of their own, because there are too many"),
    Metric(
        "gauge",
        "public_as_of_timestamp_seconds",
        "as_of of the latest answer",
        note="Absent before the first one.",
    ),
    Metric(
        "gauge",
        "public_not_verified",
        "Whether answers are not shown because they are not verified: 1 or 0",
        note="1 after a wrong signature, when every place is unknown, and while an output partition has no tick that "
        "`signing.public_key` has signed (after `--since`, if it is given). The log says why. Always 0 without the "
        "key.",
    ),
    Metric("gauge", "public_slot_seconds", "Length of a slot"),
    Metric("gauge", "public_build_info", "Version, as a label of the constant 1", {"version": "the package's version"}),
)

_AS_OF: Final = "public_as_of_timestamp_seconds"


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Where to serve the metrics, and how many places have a series of their own. `since`: as in `subscribe`."""

    port: int
    host: str = "localhost"
    places: int = 50
    since: str | None = None


class PublicMetrics(Collectors):
    """The metrics of a subscriber, in a Prometheus registry of their own. Every place is unknown at first.

    Args:
        ids: the ids of all places, in the order of the registry.
        slot: the length of a slot, in microseconds.
        most: how many places have a series of their own.
    """

    def __init__(self, ids: Sequence[str], slot: int, most: int) -> None:
        super().__init__(PUBLIC_METRICS)
        self._states: dict[str, State] = dict.fromkeys(ids, "unknown")
        self._own = frozenset(ids[index] for index in range(min(most, MOST_PLACES, len(ids))))
        for place in self._own:
            self._gauge("public_state").labels(place).set(CODES["unknown"])
        self._gauge("public_places_left_out").set(len(ids) - len(self._own))
        self._gauge("public_slot_seconds").set(slot / SECOND)
        self._gauge("public_build_info").labels(__version__).set(1)
        self.registry.unregister(self._gauge(_AS_OF))  # until the first answer
        self._has_as_of = False
        self._bounds: set[tuple[str, str]] = set()
        self._set_counts()

    def show(
        self,
        updates: Sequence[Update],
        as_of: str | None,
        unverified: str = "",
        bounds: Sequence[UpperBoundAlert] = (),
    ) -> None:
        """Set what is known about some places, the as_of of the latest answer, and whether answers are not verified.

        `bounds`: the upper bounds that are valid now.
        """
        for place, known in updates:
            state = self._states[place] = known.state
            if place in self._own:
                self._gauge("public_state").labels(place).set(CODES[state])
        self._set_counts()
        self._set_bounds(bounds)
        self._gauge("public_not_verified").set(bool(unverified))
        if as_of is not None:
            self._set_as_of(parse_instant(as_of) / SECOND)

    def _set_counts(self) -> None:
        counts = Counter(self._states.values())
        for state in STATES:
            self._gauge("public_places").labels(state).set(counts[state])

    def _set_bounds(self, bounds: Sequence[UpperBoundAlert]) -> None:
        known = {
            (bound.monitor, bound.location_id): bound.upper_bound
            for bound in bounds
            if bound.upper_bound is not None and bound.location_id in self._own
        }
        for labels in self._bounds - known.keys():
            self._gauge("public_count_at_most").remove(*labels)
        for labels, most in known.items():
            self._gauge("public_count_at_most").labels(*labels).set(most)
        self._bounds = set(known)

    def _set_as_of(self, seconds: float) -> None:
        self._gauge(_AS_OF).set(seconds)
        if not self._has_as_of:
            self._has_as_of = True
            self.registry.register(self._gauge(_AS_OF))


def export(places: Places, metrics: PublicMetrics, stop: threading.Event) -> None:
    """Show every change, and each answer that expires, until `stop` is set.

    Raises:
        UnreachableError: Kafka does not answer.
    """
    updates = places.updates()
    while True:
        metrics.show(updates, places.view.as_of, places.unverified, places.view.list_bounds(places.now()))
        if stop.is_set():
            return
        updates = places.wait()


def export_command(
    config: Path, options: ExportOptions, stop: threading.Event, print_line: Callable[[str], None]
) -> None:
    """Serve the metrics until `stop` is set, and print their address.

    Raises:
        ConfigError: the configuration is invalid.
        TopicError: the output topic does not exist.
        UnreachableError: Kafka does not answer.
        UsageError: the port cannot be used.
    """
    with subscribe(config, since=options.since) as places:
        metrics = PublicMetrics(places.view.registry.ids, places.slot, options.places)
        endpoint = Endpoint(options.host, options.port, metrics.registry, Health(), "--metrics")
        print_line(f"The published answers are at http://{options.host}:{endpoint.port}/metrics")
        try:
            export(places, metrics, stop)
        finally:
            endpoint.close()
