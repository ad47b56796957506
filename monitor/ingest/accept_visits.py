"""Turn visits into facts: decide which visits count, and for which monitors (docs/interface.md, section 1). Pure.

Only the visit, the current slot c of its record's broker timestamp, and public information decide whether a visit is
accepted (docs/rules.md, rule 7). With A = `accept_ahead`, F = `max_lead` and W the widest window at the visit's
location:

1. A visit to a location outside the registry is refused (docs/rules.md, rule 6).
2. A visit whose first slot > c + A is refused. If its last slot > c + F, the visit is cut at the end of slot c + F. F
   is A plus the default stay, so a visit without a departure is never cut.
3. Windows: a visit at a watched location counts if its last slot ≥ c - W + 1, the first slot of tick c's window.
   Otherwise it is expired. Where several answers per window are allowed, it is also stored by its stamp.
   For upper bounds, it is stored by the bucket of its stamp, if the window of the bucket's last slot has it.
4. Designated times: a visit counts if it covers a designated time τ, arrived ≤ τ <
   left, that tick c or a later tick still counts. The last tick that counts τ has as_of ≤ τ + horizon. So tick c or a
   later one counts τ if and only if τ + horizon ≥ as_of(c). If a visit covers designated times, and none of them is
   still counted, it is too late: at most a window counts it.

If a monitor publishes lower bounds, a visit with consent adds a second fact for each designated time that it covers
(docs/rules.md, rule 13). If a monitor needs lengths, the visit's length is another fact (rule 14). The visit's
fate depends on neither.

Tick c is the first tick that counts the visit (docs/rules.md, rule 2). A visit that no tick can count is not stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.ingest.dead_letters import Refusal, refuse
from monitor.ingest.decode_visits import Columns
from monitor.kinds.facts_and_questions import (
    CONSENT,
    PERSON,
    PRESENT,
    SEEN,
    STAY,
    FactArray,
    Facts,
    find_designated,
    make_facts,
    take_facts,
)
from monitor.kinds.parameters import Parameters
from monitor.records.visit_contract import Fault, Reason
from monitor.store.hash_persons import PersonHasher
from monitor.time.instants import SECOND
from monitor.time.schedule import Schedule

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

APPLIED: Final = "applied"
TOO_LATE: Final = "too_late"
NOT_WATCHED: Final = "not_watched"
EXPIRED: Final = "expired"
DEAD_LETTER: Final = "dead_letter"

_UNKNOWN: Final = Fault(Reason.UNKNOWN_LOCATION, "location_id: expected an id of the registry")
_AHEAD: Final = Fault(
    Reason.TOO_FAR_AHEAD, "arrived_at: expected a time at most accept_ahead after the record's timestamp"
)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The outcome of records."""

    facts: Facts
    fates: dict[str, int]
    """The number of visits by fate. A record refused as a whole counts as one dead letter."""
    refused: list[Refusal]
    """In the order of the records."""
    cut: int
    """The number of accepted visits that were cut."""
    record: Ints
    """The index of the record of each visit that was not refused. So it is with the next three fields."""
    left: Ints
    """The end of the visit."""
    counted: Flags
    """Whether it is applied or too late."""
    expired: Flags
    """Whether it is expired. If it is neither, no monitor watches it."""


@dataclass(frozen=True, slots=True)
class _LiveFacts:
    """Facts that a monitor can still count: the index of the stay, and its last slot or designated time."""

    stay: Ints
    value: Ints


def accept(parameters: Parameters, persons: PersonHasher, columns: Columns, current: Ints) -> Accepted:
    """Decide the fate of each visit.

    Args:
        parameters: the compiled configuration.
        persons: hashes the person ids of visits that count; not called for others.
        columns: valid visits.
        current: the current slot c by record.
    """
    stays, now, refused, cut = _select_known(parameters, columns, current)
    seen, seen_once = _select_seen(parameters, stays, now)
    present, present_once = _select_present(parameters, stays, now)
    counted, in_time = np.zeros((2, now.size), np.bool_)
    in_time[present.stay] = True
    counted[seen.stay] = True
    counted |= in_time
    too_late = counted & present_once & ~in_time
    expired = (seen_once | present_once) & ~counted
    numbers = [int(np.count_nonzero(of)) for of in (counted, too_late, expired)]
    fates = {
        APPLIED: numbers[0] - numbers[1],
        TOO_LATE: numbers[1],
        EXPIRED: numbers[2],
        NOT_WATCHED: now.size - numbers[0] - numbers[2],
        DEAD_LETTER: sum(refusal.count for refusal in refused),
    }
    facts = _make_facts(parameters, stays, now, _hash_counted(persons, stays, counted), (seen, present))
    return Accepted(facts, fates, refused, cut, stays.record, stays.left, counted, expired)


def _hash_counted(persons: PersonHasher, stays: Columns, counted: Flags) -> FactArray:
    """Return the hash of the person of each stay that counts; zeros for the others, whose ids are not hashed."""
    if counted.all():  # of the usual batch; nothing is copied then
        return np.frombuffer(b"".join(persons.hash_many(stays.persons)), PERSON)
    people = np.zeros(counted.size, PERSON)
    hashed = persons.hash_many([stays.persons[visit] for visit in np.flatnonzero(counted).tolist()])
    people[counted] = np.frombuffer(b"".join(hashed), PERSON)
    return people


def _select_known(parameters: Parameters, columns: Columns, current: Ints) -> tuple[Columns, Ints, list[Refusal], int]:
    """Refuse visits to unknown locations or that begin after slot c + A, and cut the others at the end of c + F.

    Returns:
        The accepted visits, the slot c of each, all refusals, and the number of accepted visits that were cut.
    """
    now, refusals = current[columns.record], columns.refused
    grid = parameters.grid
    latest = grid.origin + (now + (parameters.accept_ahead + 1)) * grid.length
    end = grid.origin + (now + (parameters.max_lead + 1)) * grid.length
    left = np.minimum(columns.left, end)
    ahead = columns.arrived >= latest
    outside = columns.row < 0
    refused = ahead | outside
    if refused.any():
        faults = [
            (int(columns.record[visit]), int(columns.index[visit]), _UNKNOWN if outside[visit] else _AHEAD)
            for visit in np.flatnonzero(refused).tolist()
        ]
        refusals = [*refusals, *refuse(columns.values, faults)]
        refusals.sort(key=lambda refusal: (refusal.record, -1 if refusal.index is None else refusal.index))
        keep = np.flatnonzero(~refused)
        columns, now, left = columns.select(keep), now[keep], left[keep]
    cut = int(np.count_nonzero(left < columns.left))
    return replace(columns, left=left), now, refusals, cut


def _select_seen(parameters: Parameters, stays: Columns, now: Ints) -> tuple[_LiveFacts, Flags]:
    """Return the stays that an `over_time` window can count, each with its last slot; and which stays are watched."""
    window = parameters.row_window[stays.row]
    watched = window > 0
    stay = np.flatnonzero(watched)
    origin, length = parameters.grid.origin, parameters.grid.length
    first = (stays.arrived[stay] - origin) // length
    last = np.maximum(first, -((origin - stays.left[stay]) // length) - 1)
    held = last > now[stay] - window[stay]
    return _LiveFacts(stay[held], last[held]), watched


def _group_by_horizon(parameters: Parameters) -> Iterator[tuple[int, list[Schedule]]]:
    """Yield each horizon, the longest first, with the schedules of its monitors."""
    schedules: dict[int, list[Schedule]] = {}
    for needed in parameters.needed:
        if needed.times is not None:
            schedules.setdefault(needed.horizon, []).append(needed.times)
    yield from sorted(schedules.items(), reverse=True, key=itemgetter(0))


def _select_present(parameters: Parameters, stays: Columns, now: Ints) -> tuple[_LiveFacts, Flags]:
    """Return (stay, τ) for each τ that a stay covers and a tick still counts; and which stays cover any τ.

    A τ that several monitors share is one fact. It is counted until the longest of their horizons has passed.
    """
    covering = np.zeros(now.size, np.bool_)
    if not parameters.longest_horizon or not covering.size:
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
        by_horizon.append(_select_live(parameters, times, horizon, (stays, now), stay))
    stay = np.concatenate([live.stay for live in by_horizon])
    instant = np.concatenate([live.value for live in by_horizon])
    return _LiveFacts(stay, instant), covering


def _find_covering(times: Ints, stays: Columns) -> Ints:
    """Return the stays that cover any of these times."""
    if not times.size:
        return np.empty(0, np.int64)
    return np.flatnonzero(np.searchsorted(times, stays.arrived) < np.searchsorted(times, stays.left))


def _select_live(
    parameters: Parameters, times: Ints, horizon: int, known: tuple[Columns, Ints], stay: Ints
) -> _LiveFacts:
    """Return (stay, τ) for each τ that a stay covers and a tick still counts. Even a stay of decades yields few."""
    stays, now = known
    oldest = parameters.grid.origin + (now[stay] + 1) * parameters.grid.length - horizon
    first = np.searchsorted(times, np.maximum(stays.arrived[stay], oldest))
    counts = np.maximum(np.searchsorted(times, stays.left[stay]) - first, 0)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return _LiveFacts(np.repeat(stay, counts), times[np.repeat(first, counts) + within])


def _make_facts(
    parameters: Parameters, stays: Columns, now: Ints, people: FactArray, live: tuple[_LiveFacts, _LiveFacts]
) -> Facts:
    """Return the facts of the stays. `people`: the hash of each person. `live`: the facts seen, and present."""
    (stay, last), (present, instant) = ((facts.stay, facts.value) for facts in live)
    seen = make_facts(SEEN, stamp=now[stay], row=stays.row[stay], last=last, person=people[stay])
    reported = take_facts(seen, np.flatnonzero(np.isin(seen["row"], parameters.rows_since_ticks)))
    bucketed = _make_bucketed(parameters, seen)
    if parameters.bucket_sets.size:  # a row that is counted by buckets alone has no window
        seen = take_facts(seen, np.flatnonzero(np.isin(seen["row"], parameters.watched_rows)))
    timed = make_facts(PRESENT, stamp=now[present], instant=instant, row=stays.row[present], person=people[present])
    lengths = _make_stays(parameters, stays, timed, present)
    if stays.consent is not None and parameters.counts_consent:
        asked = find_designated((needed for needed in parameters.needed if needed.consenting), instant)
        consenting = take_facts(timed, np.flatnonzero(stays.consent[present] & asked))
        consenting["row"] += CONSENT
        timed = np.concatenate([timed, consenting])
    by_stamp, stamped = parameters.find_stamped(timed["instant"]), Facts().stamped
    if by_stamp.any():  # otherwise nothing is copied
        timed, stamped = (take_facts(timed, np.flatnonzero(which)) for which in (~by_stamp, by_stamp))
    return Facts(seen, reported, bucketed, timed, stamped, lengths)


def _make_bucketed(parameters: Parameters, seen: FactArray) -> FactArray:
    """Return the facts seen by the bucket of their stamp, if the visit is in the window of the bucket's last slot."""
    made = [Facts().bucketed]
    for (length, window), first in parameters.bucket_lengths.items():
        last = seen["stamp"] // length * length + length - 1
        rows = np.isin(seen["row"].astype(np.int64) + first, parameters.bucket_sets)
        of_sets = np.flatnonzero(rows & (seen["last"] > last - window))
        facts = take_facts(seen, of_sets)
        facts["row"] += first
        facts["last"] = last[of_sets]
        made.append(facts)
    return np.concatenate(made)


def _make_stays(parameters: Parameters, stays: Columns, present: FactArray, stay: Ints) -> FactArray:
    """Return the lengths of visits that cover a designated time for which they are read, at most the longest."""
    if not parameters.longest_length:
        return Facts().stays
    reads = (needed for needed in parameters.needed if needed.longest)
    asked = np.flatnonzero(find_designated(reads, present["instant"]))
    present, stay = take_facts(present, asked), stay[asked]
    length = np.minimum((stays.left[stay] - stays.arrived[stay]) // SECOND, parameters.longest_length)
    return make_facts(STAY, length=length, **{name: present[name] for name in ("stamp", "instant", "row", "person")})
