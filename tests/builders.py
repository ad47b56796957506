"""Build parameters and visits for tests. Values that most tests share have defaults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from monitor.kinds.all_kinds import KINDS
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.base.keys_and_parameters import Monitor
from monitor.kinds.facts_and_questions import Question, Since
from monitor.kinds.hot_spots.keys_and_parameters import HotSpots
from monitor.kinds.locations import Registry
from monitor.kinds.over_time.keys_and_parameters import OverTime
from monitor.kinds.over_time.record import make_over_time_record
from monitor.kinds.parameters import Parameters
from monitor.privacy.over_time import OverTimeAnswer, OverTimeRule
from monitor.records.output_records import OutputRecord
from monitor.time.instants import HOUR, MINUTE, SECOND, format_instant, parse_instant
from monitor.time.slot_grid import SlotGrid

Kind = TypeVar("Kind", bound=Monitor)

ORIGIN: Final = parse_instant("2026-01-01T00:00:00Z")


def build_parameters(
    places: int | Sequence[str],
    *,
    shards: int = 1,
    max_lead: int = 0,
    accept_ahead: int | None = None,
    over_time: Sequence[OverTime] = (),
    at_times: Sequence[AtTimes] = (),
    hot_spots: Sequence[HotSpots] = (),
    grid: SlotGrid | None = None,
    name: str = "town",
    period: int = 0,
) -> Parameters:
    """Return parameters with hourly slots from 2026. `places` are ids, or a number n for place-0 to place-(n-1)."""
    ids = [f"place-{number}" for number in range(places)] if isinstance(places, int) else places
    return Parameters(
        name=name,
        grid=grid or SlotGrid(ORIGIN, HOUR),
        accept_ahead=max_lead if accept_ahead is None else accept_ahead,
        max_lead=max_lead,
        default_stay=15 * MINUTE,
        release_delay=30 * SECOND,
        tolerance=SECOND,
        registry=Registry(tuple(ids), shards),
        monitors=(*over_time, *at_times, *hot_spots),
        period=period,
    )


def select(parameters: Parameters, kind: type[Kind]) -> tuple[Kind, ...]:
    """Return the monitors of one kind."""
    return tuple(monitor for monitor in parameters.monitors if isinstance(monitor, kind))


def replace_monitors(parameters: Parameters, **changes: Any) -> Parameters:
    """Return the parameters with other monitors of some kinds, each named as `at_times=…`, and with other changes."""
    kept = {kind: [monitor for monitor in parameters.monitors if monitor.kind == kind] for kind in KINDS}
    monitors = [monitor for kind in KINDS for monitor in changes.pop(kind, kept[kind])]
    return replace(parameters, monitors=tuple(monitors), **changes)


def watch(name: str, rows: Sequence[int], rule: OverTimeRule) -> OverTime:
    """Return a monitor that watches these rows of the registry, all under one rule."""
    return OverTime(name, tuple(rows), (rule,) * len(rows))


def write_answer(  # the fields of a record that tests give
    place: str,
    rule: OverTimeRule,
    tick: int,
    answer: OverTimeAnswer,
    grid: SlotGrid,
    *,
    monitor: str = "places",
    since: int | None = None,
) -> OutputRecord:
    """Return the record of an answer over time. `since`: the tick after whose slot its count begins."""
    return make_over_time_record(
        source="town",
        monitor=monitor,
        location_id=place,
        rule=rule,
        tick=tick,
        as_of=grid.as_of(tick),
        window_start=grid.start(tick - rule.window + 1),
        answer=answer,
        resumes_at=None if answer.resumes_at is None else grid.as_of(answer.resumes_at),
        counted_since=None if since is None else grid.as_of(since),
    )


def build_visit(person: str, location: str, arrived: int, left: int | None = None) -> dict[str, str]:
    """Return the fields of a visit; `arrived` and `left` are instants. Without `left` it has no left_at."""
    fields = {"person_id": person, "location_id": location, "arrived_at": format_instant(arrived)}
    return fields if left is None else fields | {"left_at": format_instant(left)}


def build_counts(question: Question, count: Callable[[int], int]) -> list[NDArray[np.int64]]:
    """Return the counts of a question's windows, from a function of the row."""
    return [np.array([count(int(row)) for row in rows], np.int64) for _, rows in question.windows]


def build_since(question: Question, count: Callable[[int], int]) -> dict[Since, int]:
    """Return the counts since earlier answers that a question asks for, from a function of the row."""
    return {asked: count(asked.row) for asked in question.since}


def make_page(path: Path, command: str) -> Path:
    """Write a page with a part that a command of the simulators writes, and return its path."""
    path.write_text(f"before\n<!-- begin: {command} -->\nold\n<!-- end: {command} -->\nafter\n", encoding="utf-8")
    return path
