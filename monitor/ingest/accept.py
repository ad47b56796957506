"""Which visits count, and for what: visits to facts (docs/interface.md, section 1). Pure.

Whether a visit is accepted follows from that visit, the current slot c of its record's broker timestamp, and public
facts alone (docs/rules.md, rule 7). With F = `ahead` and W the widest window at the visit's location:

1. A location outside the registry: refused (docs/rules.md, rule 6).
2. First slot > c + F: refused; last slot > c + F: cut to c + F, and `left` to that slot's end.
3. `over_time`: asked about at a watched location if its last slot ≥ c - W + 1, the first slot of tick c's window;
   earlier: expired.
4. `at_times`: asked about where it covers a designated time, arrived ≤ τ < left, which tick c or a later one still
   asks about: the last one that does has as_of ≤ τ + horizon, and it is ≥ c exactly if τ + horizon ≥ as_of(c).

Tick c is the first that counts the visit (docs/rules.md, rule 2): what no tick can count is never applied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from monitor.contracts.visits import Fault, Reason
from monitor.ingest.columns import Columns, Refusal, refuse
from monitor.public.parameters import Parameters, Registry
from monitor.public.schedule import Schedule
from monitor.windows.facts import ShardFacts
from monitor.windows.hashing import HASH_BYTES
from monitor.windows.packing import group_by_shard, pack_present, pack_seen, split_by_shard

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

APPLIED: Final = "applied"
NOT_WATCHED: Final = "not_watched"
EXPIRED: Final = "expired"
DEAD_LETTER: Final = "dead_letter"

_UNKNOWN: Final = Fault(Reason.UNKNOWN_LOCATION, "location_id: expected an id of the registry")
_AHEAD: Final = Fault(
    Reason.TOO_FAR_AHEAD, "arrived_at: expected a time at most accept_ahead after the record's timestamp"
)


class Persons(Protocol):
    """The keyed hash of person ids."""

    def many(self, persons: list[str]) -> list[bytes]:
        """The hash of each, 16 bytes."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What becomes of a batch: facts by shard, visits by fate, and all that is refused, in the order of the records.

    A record that is refused as a whole counts as one dead letter.
    """

    facts: dict[int, list[ShardFacts]]
    fates: dict[str, int]
    refused: list[Refusal]


@dataclass(frozen=True, slots=True)
class _Stays:
    """Accepted visits: place in the columns, registry row, current slot, and times after the cut; shape (n,) each."""

    place: Ints
    row: Ints
    current: Ints
    arrived: Ints
    left: Ints


@dataclass(frozen=True, slots=True)
class _Asked:
    """Facts that some monitor can still ask about: which stay, and the last slot or the designated time."""

    stay: Ints
    value: Ints


def accept(parameters: Parameters, persons: Persons, columns: Columns, current: Ints) -> Accepted:
    """Decide what becomes of each visit.

    Args:
        parameters: what is watched.
        persons: hashes person ids; asked only about people of visits that are applied.
        columns: visits that are valid by themselves.
        current: the current slot c by record.
    """
    stays, refused = _known(parameters, columns, current)
    seen, seen_once = _seen(parameters, stays)
    present, present_once = _present(parameters, stays)
    applied = np.zeros(stays.place.size, np.bool_)
    applied[seen.stay] = True
    applied[present.stay] = True
    expired = (seen_once | present_once) & ~applied
    fates = {
        APPLIED: int(np.count_nonzero(applied)),
        EXPIRED: int(np.count_nonzero(expired)),
        DEAD_LETTER: len(refused),
    }
    fates[NOT_WATCHED] = stays.place.size - fates[APPLIED] - fates[EXPIRED]
    facts = _facts(parameters, persons, columns, stays, (seen, present), np.flatnonzero(applied))
    return Accepted(facts, fates, refused)


def _rows(registry: Registry, locations: list[str]) -> Ints:
    """The registry's row of each location, -1 for those outside it."""
    rows = registry.rows
    try:
        return np.fromiter(map(rows.__getitem__, locations), np.int64, len(locations))
    except KeyError:
        return np.array([rows.get(location, -1) for location in locations], np.int64)


def _known(parameters: Parameters, columns: Columns, current: Ints) -> tuple[_Stays, list[Refusal]]:
    """Refuse what lies outside the registry or too far ahead, and cut the rest at the end of slot c + F."""
    rows = _rows(parameters.registry, columns.locations)
    now = current[columns.record]
    end = parameters.grid.origin + (now + (parameters.max_lead + 1)) * parameters.grid.length
    ahead = columns.arrived >= end
    outside = rows < 0
    left = np.minimum(columns.left, end)
    refused = ahead | outside
    if not refused.any():
        return _Stays(np.arange(rows.size), rows, now, columns.arrived, left), columns.refused
    faults = [
        (int(columns.record[place]), int(columns.index[place]), _UNKNOWN if outside[place] else _AHEAD)
        for place in np.flatnonzero(refused).tolist()
    ]
    refusals = [*columns.refused, *refuse(columns.values, faults)]
    refusals.sort(key=lambda refusal: (refusal.record, -1 if refusal.index is None else refusal.index))
    keep = np.flatnonzero(~refused)
    return _Stays(keep, rows[keep], now[keep], columns.arrived[keep], left[keep]), refusals


def _seen(parameters: Parameters, stays: _Stays) -> tuple[_Asked, Flags]:
    """`over_time`: the stays that a window holds, each with its last slot; and all at watched locations."""
    window = parameters.row_window[stays.row]
    watched = window > 0
    stay = np.flatnonzero(watched)
    origin, length = parameters.grid.origin, parameters.grid.length
    first = (stays.arrived[stay] - origin) // length
    last = np.maximum(first, -((origin - stays.left[stay]) // length) - 1)
    held = last > stays.current[stay] - window[stay]
    return _Asked(stay[held], last[held]), watched


def _by_horizon(parameters: Parameters) -> Iterator[tuple[int, list[Schedule]]]:
    """Horizons, the longest first, each with the designated times of the monitors that have it."""
    for horizon in sorted({monitor.horizon for monitor in parameters.timed}, reverse=True):
        yield horizon, [monitor.times for monitor in parameters.timed if monitor.horizon == horizon]


def _present(parameters: Parameters, stays: _Stays) -> tuple[_Asked, Flags]:
    """`at_times`: (stay, τ) for each τ that a stay covers and is still asked about; and all that cover any.

    A τ of several monitors is asked about until the longest of their horizons has gone by, and is one fact.
    """
    covering = np.zeros(stays.place.size, np.bool_)
    if not parameters.timed or not covering.size:
        return _Asked(np.empty(0, np.int64), np.empty(0, np.int64)), covering
    low, high = int(stays.arrived.min()), int(stays.left.max())
    taken = np.empty(0, np.int64)
    found = []
    for horizon, monitors in _by_horizon(parameters):
        all_times = np.concatenate([times.between(low, high) for times in monitors])
        times = np.setdiff1d(all_times, taken)
        taken = np.concatenate([taken, times])
        stay = _covering(times, stays)
        covering[stay] = True
        found.append(_live(parameters, times, horizon, stays, stay))
    stays_asked = np.concatenate([asked.stay for asked in found])
    return _Asked(stays_asked, np.concatenate([asked.value for asked in found])), covering


def _covering(times: Ints, stays: _Stays) -> Ints:
    """The stays that cover any of these times."""
    if not times.size:
        return np.empty(0, np.int64)
    return np.flatnonzero(np.searchsorted(times, stays.arrived) < np.searchsorted(times, stays.left))


def _live(parameters: Parameters, times: Ints, horizon: int, stays: _Stays, stay: Ints) -> _Asked:
    """Of these stays, each τ that is covered and still asked about; a stay of decades has no more than others."""
    oldest = parameters.grid.origin + (stays.current[stay] + 1) * parameters.grid.length - horizon
    first = np.searchsorted(times, np.maximum(stays.arrived[stay], oldest))
    counts = np.maximum(np.searchsorted(times, stays.left[stay]) - first, 0)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return _Asked(np.repeat(stay, counts), times[np.repeat(first, counts) + within])


def _facts(
    parameters: Parameters,
    persons: Persons,
    columns: Columns,
    stays: _Stays,
    asked: tuple[_Asked, _Asked],
    applied: Ints,
) -> dict[int, list[ShardFacts]]:
    """Hash the people of the applied stays, and pack what is asked about by shard and stamp."""
    if not applied.size:
        return {}
    hashes = persons.many([columns.persons[place] for place in stays.place[applied].tolist()])
    table = np.frombuffer(b"".join(hashes), np.uint8).reshape(-1, HASH_BYTES)
    seen, present = ((each.value, each.stay, table[np.searchsorted(applied, each.stay)]) for each in asked)
    shard = parameters.registry.shard
    last, stay, people = seen
    row, stamp = stays.row[stay], stays.current[stay]
    packed_seen = split_by_shard(shard[row], stamp, row, pack_seen(stamp, row, last, people))
    instant, stay, people = present
    row, stamp = stays.row[stay], stays.current[stay]
    packed_present = split_by_shard(shard[row], stamp, instant, pack_present(instant, row, people))
    return group_by_shard(packed_seen, packed_present)
