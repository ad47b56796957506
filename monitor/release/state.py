"""What one ledger partition says, folded from its records: what is spent, by whom, and how far it was decided."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

from monitor.contracts.alerts import COUNTING
from monitor.contracts.charges import Charges
from monitor.contracts.ledger import AtTimesEntry, HotSpotsEntry, OverTimeEntry, OwnerEntry, StartEntry, read_record
from monitor.errors import LedgerError
from monitor.privacy.over_time import Mark
from monitor.public.instants import format_instant, parse_instant
from monitor.public.slot_grid import SlotGrid
from monitor.release.ledger import LedgerRecord

_Answer = OverTimeEntry | AtTimesEntry | HotSpotsEntry

Charged = tuple[Literal["at_times", "hot_spots"], str, int]
"""What was answered about a designated time: the monitor's kind and name, and the time (an instant)."""


@dataclass(frozen=True, slots=True)
class OwnerTerms:
    """What owner records carry from one owner to the next.

    `partitions`: Q, over how many output partitions the shards are spread, for good. `lost_at`: when an earlier
    ledger was lost, an instant. `input_topic_id`: which topic the facts were read from; `input_since`: the slot from
    which its facts are whole, if an earlier topic's were lost. `fingerprint`: empty until there was an owner.
    `input_partitions`: the most that this input topic was seen with; brokers that lag may list fewer. `charges`: what
    the newest owner's configuration may charge, None if it was not told.
    """

    service: str
    partitions: int
    lost_at: int | None = None
    input_topic_id: str = ""
    input_since: int | None = None
    fingerprint: str = ""
    input_partitions: int = 0
    charges: Charges | None = None

    def require_service(self, service: str, topic: str) -> None:
        """See that the ledger is this service's.

        Raises:
            LedgerError: it is another one's.
        """
        if self.service != service:
            raise LedgerError(
                f"service.name is {service!r}, and the ledger {topic} belongs to {self.service!r}: give each service "
                "its own kafka.topics.alerts"
            )


@dataclass(frozen=True, slots=True)
class Spent:
    """What a partition tells of what was spent, as it was at a moment.

    `marks`: by monitor and location, each with the F under which it was made, None where that is not told. `owned`:
    whether there ever was an owner; `charges`: what the newest one's configuration may charge, None if not told.
    """

    marks: Mapping[tuple[str, str], tuple[tuple[Mark, int | None], ...]]
    charged: Mapping[Charged, Fraction]
    lost_at: int | None
    last_tick: int | None
    owned: bool
    charges: Charges | None


def later(one: int | None, other: int | None) -> int | None:
    """The later of two instants or slots, None standing for never: what an owner missed does not take back a loss."""
    return max((at for at in (one, other) if at is not None), default=None)


@dataclass(slots=True)
class LedgerState:
    """The state of one partition.

    `marks` keeps every mark that was read, also such as have run out: a longer window may hold what they charged once
    more. `noisy`: by monitor and designated time, (tick, noisy count) by location. `drawn`: the monitors and designated
    times whose hot spots were drawn, which is done once. `charged`: the largest ε that was published about a designated
    time, of all that is still there: it counts for as long as a period. `expired_until`: the instant of the first
    records that are still there, if earlier ones have expired. `counting`: what the counts of the latest owner hold
    (`alerts.COUNTING`), None before there was one. `past`: marks that no window can hold again, but a period may.
    `eras`: by the last tick before an owner, its F where it is told. `owned_since`: the stamp of the first owner record
    (an instant): from then on somebody was asked to decide.
    """

    terms: OwnerTerms | None = None
    last_tick: int | None = None
    marks: dict[tuple[str, str], dict[int, Mark]] = field(default_factory=dict)
    noisy: dict[tuple[str, int], dict[str, tuple[int, int]]] = field(default_factory=dict)
    drawn: set[tuple[str, int]] = field(default_factory=set)
    charged: dict[Charged, Fraction] = field(default_factory=dict)
    last_records: dict[str, LedgerRecord] = field(default_factory=dict)
    expired_until: int | None = None
    records: int = 0
    counting: int | None = None
    past: dict[tuple[str, str], dict[int, Mark]] = field(default_factory=dict)
    eras: list[tuple[int | None, int]] = field(default_factory=list)
    owned_since: int | None = None

    @property
    def lost_at(self) -> int | None:
        """Until when answers may have been given that nobody can read any more: all counts as spent then (docs/rules.md, rule 5).

        An earlier ledger was lost, or records have expired: they told nothing that still ran, but a longer window or
        horizon than theirs may hold what they charged once more.
        """
        return later(None if self.terms is None else self.terms.lost_at, self.expired_until)

    def marks_of(self, monitor: str, location: str) -> tuple[Mark, ...]:
        """A location's marks, by tick."""
        known = self.marks.get((monitor, location), {})
        return tuple(known[tick] for tick in sorted(known))

    def spent(self) -> Spent:
        """What was spent, also by marks that have run out."""
        begins = [-(2**62) if tick is None else tick + 1 for tick, _ in self.eras]

        def max_lead(tick: int) -> int | None:
            era = bisect_right(begins, tick) - 1
            return None if era < 0 else self.eras[era][1]

        known = {key: self.past.get(key, {}) | self.marks.get(key, {}) for key in self.past.keys() | self.marks.keys()}
        marks = {key: tuple((each[tick], max_lead(tick)) for tick in sorted(each)) for key, each in known.items()}
        terms = self.terms
        owned, charges = (False, None) if terms is None else (terms.fingerprint != "", terms.charges)
        return Spent(marks, dict(self.charged), self.lost_at, self.last_tick, owned, charges)

    def own(self, terms: OwnerTerms) -> None:
        """Go on as the owner, whose terms these are."""
        self._begin_era(COUNTING, terms.charges)
        self.terms = terms

    def read(self, offset: int, record: LedgerRecord, grid: SlotGrid, now: int) -> None:
        """Take in the next record of the partition, which may be the first that has not expired.

        What has expired was answered before that one was written, so before `now` (an instant) for certain: its own
        stamp may have been made by a clock that was ahead.

        Raises:
            LedgerError: as `fold`.
        """
        if self.records == 0 and offset > 0:
            self.expired_until = min(record.timestamp_ms * 1_000, now)
        self.fold(record, grid)

    def fold(self, record: LedgerRecord, grid: SlotGrid) -> None:
        """Take in the next record. Records of kinds that this version doesn't know are passed over.

        Raises:
            LedgerError: a record of a known kind that cannot be read, or another version's ledger.
        """
        self.records += 1
        entry = read_record(record.key, record.value, record.headers)
        match entry:
            case None:
                return
            case StartEntry():
                self._fold_terms(entry)
            case OwnerEntry():
                self._fold_terms(entry)
                self._fold_empty(entry.tick, grid)
                if self.owned_since is None:
                    self.owned_since = record.timestamp_ms * 1_000
            case OverTimeEntry() | AtTimesEntry() | HotSpotsEntry():
                self._fold_answer(entry, record, grid)

    def _fold_terms(self, entry: StartEntry | OwnerEntry) -> None:
        if self.terms is None and self.expired_until is None and isinstance(entry, OwnerEntry):
            return  # nobody has begun this ledger: it was meant for an earlier topic of this name
        if self.terms is not None and entry.service != self.terms.service:
            raise LedgerError(
                f"the ledger belongs to the service {self.terms.service!r} and holds a record of {entry.service!r}: "
                "two services on one output topic both spend; give each its own kafka.topics.alerts"
            )
        lost_at = parse_instant(entry.lost_at) if entry.lost_at else None
        known = self.terms or OwnerTerms(entry.service, entry.partitions)
        if isinstance(entry, OwnerEntry):
            known = self._owned(known, entry)
        elif known.input_topic_id == "":
            known = replace(known, input_topic_id=entry.input_topic_id)
        self.terms = replace(known, lost_at=later(known.lost_at, lost_at))

    def _owned(self, known: OwnerTerms, entry: OwnerEntry) -> OwnerTerms:
        self._begin_era(entry.counting, entry.charges)
        same = known.input_topic_id == entry.input_topic_id
        return replace(
            known,
            input_topic_id=entry.input_topic_id,
            input_since=later(known.input_since, entry.input_since),
            fingerprint=entry.fingerprint,
            input_partitions=max(known.input_partitions if same else 0, entry.input_partitions),
            charges=entry.charges,
        )

    def _begin_era(self, counting: int, charges: Charges | None) -> None:
        if self.counting is None:  # whose answers the earlier ones are is not known
            for marks in self.marks.values():
                marks |= {tick: replace(mark, counted_after=True) for tick, mark in marks.items()}
        self.counting = counting
        if charges is not None and (not self.eras or self.eras[-1][1] != charges.ahead):
            self.eras.append((self.last_tick, charges.ahead))

    def _fold_empty(self, tick: int | None, grid: SlotGrid) -> None:
        """A tick that had nothing to answer is decided too."""
        if tick is not None:
            self._decided(tick, grid)

    def _decided(self, tick: int, grid: SlotGrid) -> None:
        if self.last_tick is None and self.expired_until is not None:
            # Ticks rise: what has expired was decided at this one or before, whenever an owner's record was stamped.
            self.expired_until = grid.as_of(tick)
        if self.last_tick is None or tick > self.last_tick:
            self.last_tick = tick
            self.last_records.clear()

    def _fold_answer(self, entry: _Answer, record: LedgerRecord, grid: SlotGrid) -> None:
        if self.last_tick is None or entry.tick > self.last_tick:
            _check_grid(entry, record, grid)
            self._decided(entry.tick, grid)
        if entry.tick == self.last_tick:
            self.last_records[entry.ce_id] = record
        if isinstance(entry, OverTimeEntry):
            self.spend(entry.monitor, entry.location_id, self._counted(entry.marks))
        elif isinstance(entry, HotSpotsEntry):
            if entry.status == "complete":
                self.drawn.add((entry.monitor, entry.time))
                self._charge(("hot_spots", entry.monitor, entry.time), entry.epsilon)
        else:
            known = self.noisy.setdefault((entry.monitor, entry.time), {})
            if entry.noisy_counts.keys() - known.keys():
                self._charge(("at_times", entry.monitor, entry.time), entry.epsilon)
            for location, answer in entry.noisy_counts.items():
                known.setdefault(location, answer)

    def _counted(self, marks: tuple[Mark, ...]) -> tuple[Mark, ...]:
        """The marks with what their counts held, by the latest owner; of a mark that is known already it stays."""
        if self.counting is None or self.counting >= COUNTING:
            return marks
        return tuple(replace(mark, counted_after=True) for mark in marks)

    def _charge(self, answered: Charged, epsilon: Fraction) -> None:
        self.charged[answered] = max(epsilon, self.charged.get(answered, epsilon))

    def spend(self, monitor: str, location: str, marks: tuple[Mark, ...]) -> None:
        """Note marks; of one tick's mark, the longer one counts, and what was first said of its count."""
        known = self.marks.setdefault((monitor, location), {})
        for mark in marks:
            before = known.setdefault(mark.tick, mark)
            if mark.until > before.until:
                known[mark.tick] = replace(mark, counted_after=before.counted_after)

    def forget(self, tick: int, mark_lifetime: int, oldest_time: int, kept: int = 0) -> None:
        """Set aside marks that no window of up to `reach` slots can hold again; drop designated times that are over.

        What is set aside is kept for `kept` more slots: a period may hold what it charged.
        """
        for key, known in list(self.marks.items()):
            gone = [at for at, mark in known.items() if max(mark.until, mark.last_stamp + mark_lifetime - 1) < tick]
            for at in gone:
                self.past.setdefault(key, {})[at] = known.pop(at)
            if not known:
                del self.marks[key]
        for key, past in list(self.past.items()):
            while (
                past
                and max((first := past[next(iter(past))]).until, first.last_stamp + mark_lifetime - 1) + kept < tick
            ):
                del past[first.tick]
            if not past:
                del self.past[key]
        for place in [place for place in self.noisy if place[1] < oldest_time]:
            del self.noisy[place]
        self.drawn = {place for place in self.drawn if place[1] >= oldest_time}


def _check_grid(entry: _Answer, record: LedgerRecord, grid: SlotGrid) -> None:
    """Ticks are numbers on one grid: on another one they would say nothing about what still runs."""
    said = (dict(record.headers).get("ce_time") or b"").decode()
    expected = format_instant(grid.as_of(entry.tick))
    if said != expected:
        raise LedgerError(
            f"clock.slot and clock.origin put tick {entry.tick} at {expected}, and the ledger has it at {said}: they "
            "can't change over a ledger; keep them, or begin a new kafka.topics.alerts when nothing runs any more"
        )
