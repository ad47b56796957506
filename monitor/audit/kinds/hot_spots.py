"""The audit of hot spots: the right locations in the right order, with upper bounds (docs/rules.md, rule 11)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from msgspec import Struct

from monitor.audit.findings import NOISY
from monitor.audit.kinds.base.designated_times import DrawnCheck, DrawnOnce, Presence, TimedMonitor, parse_timed
from monitor.audit.kinds.base.monitor import Check, Scope
from monitor.audit.record_fields import People, Positive
from monitor.audit.shared_terms import SharedTerms


class HotSpot(Struct, frozen=True):
    """A location with its noisy count."""

    location_id: str
    noisy_count: People


class HotSpots(DrawnOnce, frozen=True, kw_only=True):
    """The hot spots at a designated time."""

    top: Positive
    hot_spots: list[HotSpot]


@dataclass(frozen=True)
class HotSpotsMonitor(TimedMonitor[Presence]):
    """A monitor of kind `hot_spots`: at most `top` locations are named."""

    kind = "hot_spots"
    answers = HotSpots
    public = frozenset({"epsilon", "registry", "top"})
    charged = ("hot_spots",)

    top: int

    @classmethod
    def parse(cls, keys: Any, terms: SharedTerms) -> HotSpotsMonitor:
        """Parse the keys of a monitor."""
        del terms
        return cls(**parse_timed(keys), top=int(keys["top"]))

    def create_counts(self, terms: SharedTerms) -> Presence:
        """Create an empty recount."""
        return Presence(self, terms)

    def create_check(self, scope: Scope, counts: Presence | None) -> Check:
        """Create the check."""
        return HotSpotsCheck(self, scope, counts)


class HotSpotsCheck(DrawnCheck):
    """The check of one monitor's hot spots."""

    def __init__(self, monitor: HotSpotsMonitor, scope: Scope, presence: Presence | None) -> None:
        super().__init__(monitor, scope, {"top": monitor.top})
        self._monitor, self._presence = monitor, presence

    def _find_wrong(self, form: HotSpots) -> Iterator[str]:
        if form.status == "complete":
            self.noisy += len(form.hot_spots)
            yield from self._find_misnamed(form)
        elif form.hot_spots:
            yield "the status is unknown, but locations are named"

    def _find_misnamed(self, form: HotSpots) -> Iterator[str]:
        """Yield errors unless min(top, locations) locations are named once, by falling count, then registry order."""
        rows, name = self._terms.rows, self._terms.name_location
        expected = min(self._monitor.top, len(self._terms.locations))
        if len(form.hot_spots) != expected:
            yield f"{len(form.hot_spots)} locations are named, expected {expected}"
        for location, times in Counter(spot.location_id for spot in form.hot_spots).items():
            if location not in rows:
                yield "a location is not in the registry"
            if times > 1:
                yield f"{name(location)} is named {times} times"
        order = [
            (-spot.noisy_count, rows.get(spot.location_id, len(rows)), spot.location_id) for spot in form.hot_spots
        ]
        for before, after in pairwise(order):
            if before[:2] > after[:2]:
                yield f"{name(after[2])} comes after {name(before[2])}, expected before it"

    def _prove(self, form: HotSpots, where: str) -> None:
        """Find locations whose count exceeds their noisy count, or the lowest published one if they have none."""
        rows, presence = self._terms.rows, self._presence
        if presence is None:
            return
        bounds = {rows[spot.location_id]: spot.noisy_count for spot in form.hot_spots if spot.location_id in rows}
        least = min(((count, -row) for row, count in bounds.items()), default=None)
        for row in presence.list_rows_at(form.time):
            people = presence.count(form.time, row, form.tick)
            location = f"{where}: {self._terms.locations[row]}"
            if people > bounds.get(row, people):
                self._findings.add(NOISY, f"{location}: there were more people than the noisy count")
            elif row not in bounds and least is not None and (people, -row) > least:
                text = "is not named, and there were more people than the last noisy count allows"
                self._findings.add(NOISY, f"{location} {text}")
