"""Turn visits into facts: decide which visits count, and for which monitors (docs/interface.md, section 1). Pure.

Only the visit, the current slot c of its record's broker timestamp, and public information decide whether a visit is
accepted (docs/rules.md, rule 7). With A = `accept_ahead`, F = `max_lead` and W the widest window at the visit's
location:

1. A visit to a location outside the registry is refused (docs/rules.md, rule 6).
2. A visit whose first slot > c + A is refused. If its last slot > c + F, the visit is cut at the end of slot c + F. F
   is A plus the default stay, so a visit without a departure is never cut.
3. `over_time`: a visit at a watched location counts if its last slot ≥ c - W + 1, the first slot of tick c's window.
   Otherwise it is expired.
4. Designated times (`at_times`, `hot_spots`, `dwell`): a visit counts if it covers a designated time τ, arrived ≤ τ <
   left, that tick c or a later tick still counts. The last tick that counts τ has as_of ≤ τ + horizon. So tick c or a
   later one counts τ if and only if τ + horizon ≥ as_of(c).

If a monitor publishes lower bounds, a visit with consent adds a second fact for each designated time that it covers
(docs/rules.md, rule 13). If a monitor publishes dwell times, the visit's length is another fact (rule 14). The visit's
fate depends on neither.

Tick c is the first tick that counts the visit (docs/rules.md, rule 2). A visit that no tick can count is not stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.contracts.instants import SECOND
from monitor.contracts.parameters import Charged, Parameters, Registry
from monitor.contracts.schedule import Schedule
from monitor.contracts.visits import Fault, Reason
from monitor.ingest.columns import Columns, Refusal, refuse
from monitor.store.facts import ShardFacts
from monitor.store.hashing import HASH_BYTES, PersonHasher
from monitor.store.packing import CONSENT, group_by_shard, pack_present, pack_seen, pack_stays, split_by_shard

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


@dataclass(frozen=True, slots=True)
class Accepted:
    """The outcome of a batch: facts by shard, the number of visits by fate, and refusals in the order of the records.

    A record refused as a whole counts as one dead letter. `cut` is the number of accepted visits that were cut.
    """

    facts: dict[int, list[ShardFacts]]
    fates: dict[str, int]
    refused: list[Refusal]
    cut: int = 0


@dataclass(frozen=True, slots=True)
class _Stays:
    """Accepted visits: index in the columns, registry row, current slot, and times after the cut; shape (n,) each."""

    visit: Ints
    row: Ints
    current: Ints
    arrived: Ints
    left: Ints


@dataclass(frozen=True, slots=True)
class _LiveFacts:
    """Facts that a monitor can still count: the index of the stay, and its last slot or designated time."""

    stay: Ints
    value: Ints


def accept(parameters: Parameters, persons: PersonHasher, columns: Columns, current: Ints) -> Accepted:
    """Decide the fate of each visit.

    Args:
        parameters: the compiled configuration.
        persons: hashes the person ids of applied visits; not called for others.
        columns: valid visits.
        current: the current slot c by record.
    """
    stays, refused = _select_known(parameters, columns, current)
    seen, seen_once = _select_seen(parameters, stays)
    present, present_once = _select_present(parameters, stays)
    applied = np.zeros(stays.visit.size, np.bool_)
    applied[seen.stay] = True
    applied[present.stay] = True
    expired = (seen_once | present_once) & ~applied
    fates = {
        APPLIED: int(np.count_nonzero(applied)),
        EXPIRED: int(np.count_nonzero(expired)),
        DEAD_LETTER: len(refused),
    }
    fates[NOT_WATCHED] = stays.visit.size - fates[APPLIED] - fates[EXPIRED]
    facts = _pack_facts(parameters, persons, columns, stays, (seen, present), np.flatnonzero(applied))
    return Accepted(facts, fates, refused, int(np.count_nonzero(stays.left < columns.left[stays.visit])))


def _look_up_rows(registry: Registry, locations: list[str]) -> Ints:
    """Return the registry's row of each location, -1 for a location outside it."""
    rows = registry.rows
    try:
        return np.fromiter(map(rows.__getitem__, locations), np.int64, len(locations))
    except KeyError:
        return np.array([rows.get(location, -1) for location in locations], np.int64)


def _select_known(parameters: Parameters, columns: Columns, current: Ints) -> tuple[_Stays, list[Refusal]]:
    """Refuse visits to unknown locations or that begin after slot c + A, and cut the others at the end of c + F."""
    rows = _look_up_rows(parameters.registry, columns.locations)
    now = current[columns.record]
    grid = parameters.grid
    latest = grid.origin + (now + (parameters.accept_ahead + 1)) * grid.length
    end = grid.origin + (now + (parameters.max_lead + 1)) * grid.length
    ahead = columns.arrived >= latest
    outside = rows < 0
    left = np.minimum(columns.left, end)
    refused = ahead | outside
    if not refused.any():
        return _Stays(np.arange(rows.size), rows, now, columns.arrived, left), columns.refused
    faults = [
        (int(columns.record[visit]), int(columns.index[visit]), _UNKNOWN if outside[visit] else _AHEAD)
        for visit in np.flatnonzero(refused).tolist()
    ]
    refusals = [*columns.refused, *refuse(columns.values, faults)]
    refusals.sort(key=lambda refusal: (refusal.record, -1 if refusal.index is None else refusal.index))
    keep = np.flatnonzero(~refused)
    return _Stays(keep, rows[keep], now[keep], columns.arrived[keep], left[keep]), refusals


def _select_seen(parameters: Parameters, stays: _Stays) -> tuple[_LiveFacts, Flags]:
    """Return the stays that an `over_time` window can count, each with its last slot; and which stays are watched."""
    window = parameters.row_window[stays.row]
    watched = window > 0
    stay = np.flatnonzero(watched)
    origin, length = parameters.grid.origin, parameters.grid.length
    first = (stays.arrived[stay] - origin) // length
    last = np.maximum(first, -((origin - stays.left[stay]) // length) - 1)
    held = last > stays.current[stay] - window[stay]
    return _LiveFacts(stay[held], last[held]), watched


def _group_by_horizon(parameters: Parameters) -> Iterator[tuple[int, list[Schedule]]]:
    """Yield each horizon, the longest first, with the schedules of its monitors."""
    for horizon in sorted({monitor.horizon for monitor in parameters.timed}, reverse=True):
        yield horizon, [monitor.times for monitor in parameters.timed if monitor.horizon == horizon]


def _select_present(parameters: Parameters, stays: _Stays) -> tuple[_LiveFacts, Flags]:
    """Return (stay, τ) for each τ that a stay covers and a tick still counts; and which stays cover any τ.

    A τ that several monitors share is one fact. It is counted until the longest of their horizons has passed.
    """
    covering = np.zeros(stays.visit.size, np.bool_)
    if not parameters.timed or not covering.size:
        return _LiveFacts(np.empty(0, np.int64), np.empty(0, np.int64)), covering
    low, high = int(stays.arrived.min()), int(stays.left.max())
    taken = np.empty(0, np.int64)
    by_horizon = []
    for horizon, monitors in _group_by_horizon(parameters):
        all_times = np.concatenate([times.find_between(low, high) for times in monitors])
        times = np.setdiff1d(all_times, taken)
        taken = np.concatenate([taken, times])
        stay = _find_covering(times, stays)
        covering[stay] = True
        by_horizon.append(_select_live(parameters, times, horizon, stays, stay))
    stay = np.concatenate([live.stay for live in by_horizon])
    instant = np.concatenate([live.value for live in by_horizon])
    return _LiveFacts(stay, instant), covering


def _find_covering(times: Ints, stays: _Stays) -> Ints:
    """Return the stays that cover any of these times."""
    if not times.size:
        return np.empty(0, np.int64)
    return np.flatnonzero(np.searchsorted(times, stays.arrived) < np.searchsorted(times, stays.left))


def _select_live(parameters: Parameters, times: Ints, horizon: int, stays: _Stays, stay: Ints) -> _LiveFacts:
    """Return (stay, τ) for each τ that a stay covers and a tick still counts. Even a stay of decades yields few."""
    oldest = parameters.grid.origin + (stays.current[stay] + 1) * parameters.grid.length - horizon
    first = np.searchsorted(times, np.maximum(stays.arrived[stay], oldest))
    counts = np.maximum(np.searchsorted(times, stays.left[stay]) - first, 0)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return _LiveFacts(np.repeat(stay, counts), times[np.repeat(first, counts) + within])


def _find_designated(monitors: Sequence[Charged], instants: Ints) -> Flags:
    """Return which of these instants are designated times of at least one of the monitors."""
    if not instants.size:
        return np.zeros(0, np.bool_)
    low, high = int(instants.min()), int(instants.max()) + 1
    return np.isin(instants, np.concatenate([monitor.times.find_between(low, high) for monitor in monitors]))


def _pack_facts(
    parameters: Parameters,
    persons: PersonHasher,
    columns: Columns,
    stays: _Stays,
    facts: tuple[_LiveFacts, _LiveFacts],
    applied: Ints,
) -> dict[int, list[ShardFacts]]:
    """Hash the people of the applied stays, and pack their facts by shard and stamp."""
    if not applied.size:
        return {}
    hashes = persons.hash_many([columns.persons[visit] for visit in stays.visit[applied].tolist()])
    table = np.frombuffer(b"".join(hashes), np.uint8).reshape(-1, HASH_BYTES)
    seen, present = ((live.value, live.stay, table[np.searchsorted(applied, live.stay)]) for live in facts)
    shard = parameters.registry.shard
    last, stay, people = seen
    row, stamp = stays.row[stay], stays.current[stay]
    packed_seen = split_by_shard(shard[row], stamp, pack_seen(stamp, row, last, people))
    lengths = _pack_stays(parameters, stays, present) if parameters.dwell else ()
    instant, stay, people = present
    flag = np.zeros(stay.size, np.int64)
    if columns.consent is not None and parameters.at_least:
        consenting = np.flatnonzero(columns.consent[stays.visit[stay]] & _find_designated(parameters.at_least, instant))
        instant, stay, people = (np.concatenate([values, values[consenting]]) for values in (instant, stay, people))
        flag = np.repeat([0, CONSENT], [flag.size, consenting.size])
    row, stamp = stays.row[stay], stays.current[stay]
    packed_present = split_by_shard(shard[row], stamp, pack_present(instant, row + flag, people))
    return group_by_shard(packed_seen, packed_present, lengths)


def _pack_stays(
    parameters: Parameters, stays: _Stays, present: tuple[Ints, Ints, NDArray[np.uint8]]
) -> Iterator[tuple[int, int, bytes]]:
    """Pack the length of each visit that covers a designated time of a `dwell` monitor, cut to the longest allowed."""
    instant, stay, people = present
    if not instant.size:
        return iter(())
    asked = np.flatnonzero(_find_designated(parameters.dwell, instant))
    instant, stay, people = instant[asked], stay[asked], people[asked]
    longest = max(monitor.rule.longest for monitor in parameters.dwell)
    length = np.minimum((stays.left[stay] - stays.arrived[stay]) // SECOND, longest)
    row, stamp = stays.row[stay], stays.current[stay]
    return split_by_shard(parameters.registry.shard[row], stamp, pack_stays(instant, length, row, people))
