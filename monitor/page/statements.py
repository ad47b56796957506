"""What the records say about each place at an instant: one statement per monitor, and the one that counts most.

An answer is valid for two slots after its as_of, and the last one about a designated time for a day. After that it is
unknown, because newer answers are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal

from monitor.config import Location
from monitor.contracts.alerts import AT_TIMES, OVER_TIME
from monitor.page.entries import Entry
from monitor.public.instants import DAY, parse_instant
from monitor.public.parameters import Parameters

State = Literal["noisy_count", "paused", "unknown", "safe"]
STATES: Final[tuple[State, ...]] = ("noisy_count", "paused", "unknown", "safe")
"""All states, the one that counts most first: a place is safe only if all statements about it say so."""

VALID_SLOTS: Final = 2
"""For how many slots after its as_of an answer is valid (docs/subscribers.md)."""
FINAL_FOR: Final = DAY
"""How long the last answer about a designated time is valid, at least."""

_REASONS: Final = {
    "safe": "below_threshold",
    "noisy_count": "noisy",
    "paused": "budget_spent",
    "unknown": "input_incomplete",
}


@dataclass(frozen=True, slots=True)
class About:
    """What a statement is about: the monitor, and the time of the visits that it counts (start = end: one moment)."""

    monitor: str
    kind: str
    start: int | None = None
    end: int | None = None
    threshold: int | None = None
    resumes_at: int | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """What one monitor says about one place. Times are instants.

    `reason`: below_threshold (safe), noisy (noisy_count), budget_spent (paused) or, if unknown: nothing_published,
    too_old, input_incomplete, other_registry.
    """

    state: State
    reason: str
    about: About | None = None
    as_of: int | None = None
    valid_until: int | None = None
    count_at_most: int | None = None
    count_at_least: int = 0

    def at(self, now: int) -> Statement:
        """Return the statement as it has to be read at an instant: unknown if it is no longer valid."""
        if self.valid_until is None or now <= self.valid_until or self.state == "unknown":
            return self
        return replace(self, state="unknown", reason="too_old", count_at_most=None, count_at_least=0)


_NOTHING: Final = Statement("unknown", "nothing_published")


@dataclass(frozen=True, slots=True)
class Place:
    """A location and the statements about it, the one that counts most first. Without any, `leading` is unknown."""

    location: Location
    statements: tuple[Statement, ...]

    @property
    def leading(self) -> Statement:
        """The statement that decides the state of the place."""
        return self.statements[0] if self.statements else _NOTHING


class Statements:
    """The statements that follow from a state of the board (`Board.state`)."""

    def __init__(self, parameters: Parameters, locations: Sequence[Location], entries: Iterable[Entry]) -> None:
        self._parameters, self._locations = parameters, locations
        self._over_time: dict[str, Entry] = {}
        self._times: dict[str, dict[str, dict[int, dict[str, Any]]]] = {}
        for entry in entries:
            if entry.type == OVER_TIME:
                self._over_time[entry.key] = entry
            elif entry.type == AT_TIMES:
                value = entry.value
                shards = self._times.setdefault(value["monitor"], {}).setdefault(value["time"], {})
                shards[value["shard"]] = value

    def places(self, now: int) -> list[Place]:
        """Return all places, in the order of the registry, as they have to be read at an instant."""
        return [self._place(row, location, now) for row, location in enumerate(self._locations)]

    def _place(self, row: int, location: Location, now: int) -> Place:
        found = [self._read_over_time(name, location.id) for name in self._watchers.get(row, ())]
        found += [self._read_time(monitor.name, row, location.id) for monitor in self._parameters.at_times]
        statements = [statement.at(now) for statement in found if statement is not None]
        return Place(location, tuple(sorted(statements, key=lambda one: STATES.index(one.state))))

    @cached_property
    def _watchers(self) -> Mapping[int, Sequence[str]]:
        """The `over_time` monitors of each row."""
        watchers: dict[int, list[str]] = {}
        for monitor in self._parameters.over_time:
            for row in monitor.rows:
                watchers.setdefault(row, []).append(monitor.name)
        return watchers

    def _read_over_time(self, monitor: str, location_id: str) -> Statement | None:
        entry = self._over_time.get(f"{monitor}/{location_id}")
        if entry is None:
            return None
        value = entry.value
        resumes_at = parse_instant(value["resumes_at"]) if "resumes_at" in value else None
        start, threshold = parse_instant(value["window_start"]), value["threshold"]
        about = About(monitor, "over_time", start, entry.as_of, threshold, resumes_at)
        most = threshold - 1 if value["status"] == "safe" else value.get("count_at_most")
        return Statement(
            value["status"], _REASONS[value["status"]], about, entry.as_of, self._valid_until(entry.as_of), most
        )

    def _read_time(self, monitor: str, row: int, location_id: str) -> Statement | None:
        """Return the statement about the latest designated time with a snapshot of the place's shard."""
        shard, times = int(self._shards[row]), self._times.get(monitor, {})
        time = max((time for time, shards in times.items() if shard in shards), default=None)
        return None if time is None else self._read_snapshot(times[time][shard], location_id)

    @cached_property
    def _shards(self) -> list[int]:
        return self._parameters.registry.shard.tolist()

    def _read_snapshot(self, value: Mapping[str, Any], location_id: str) -> Statement:
        time, as_of = parse_instant(value["time"]), parse_instant(value["as_of"])
        valid_until = self._valid_until(as_of, final=value["final"])
        about = About(value["monitor"], "at_times", time, time, value["threshold"])
        least = value.get("counts_at_least", {}).get(location_id, 0)
        noisy = value["noisy_counts"].get(location_id)
        if noisy is not None:
            most = noisy["noisy_count"] if noisy["noisy_count"] >= least else None
            return Statement("noisy_count", "noisy", about, as_of, valid_until, most, least)
        if value["status"] != "complete":
            return Statement("unknown", "input_incomplete", about, as_of, valid_until)
        if value["registry"] != self._parameters.registry.digest:
            return Statement("unknown", "other_registry", about, as_of, valid_until)
        return Statement("safe", "below_threshold", about, as_of, valid_until, value["threshold"] - 1, least)

    def _valid_until(self, as_of: int, *, final: bool = False) -> int:
        return as_of + max(VALID_SLOTS * self._parameters.grid.length, FINAL_FOR if final else 0)
