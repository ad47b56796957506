"""What one ledger partition says, folded from its records: what is spent, by whom, and how far it was decided."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

from monitor.contracts.ledger import AtTimesEntry, HotSpotsEntry, OverTimeEntry, OwnerEntry, StartEntry, read_record
from monitor.errors import LedgerError
from monitor.privacy.over_time import Mark
from monitor.release.ledger import Record
from monitor.slots import Slots
from monitor.times import format_instant, parse_instant

_Answer = OverTimeEntry | AtTimesEntry | HotSpotsEntry

Charged = tuple[Literal["at_times", "hot_spots"], str, int]
"""What was answered about a designated time: the monitor's kind and name, and the time (an instant)."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What owner records carry from one owner to the next.

    `partitions`: Q, over how many output partitions the shards are spread, for good. `lost_at`: when an earlier
    ledger was lost, an instant. `input_topic_id`: which topic the facts were read from; `input_since`: the slot from
    which its facts are whole, if an earlier topic's were lost.
    """

    service: str
    partitions: int
    lost_at: int | None = None
    input_topic_id: str = ""
    input_since: int | None = None
    fingerprint: str = ""

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
    records that are still there, if earlier ones have expired; who reads them sets it to the first one's.
    """

    terms: Terms | None = None
    last_tick: int | None = None
    marks: dict[tuple[str, str], dict[int, Mark]] = field(default_factory=dict)
    noisy: dict[tuple[str, int], dict[str, tuple[int, int]]] = field(default_factory=dict)
    drawn: set[tuple[str, int]] = field(default_factory=set)
    charged: dict[Charged, Fraction] = field(default_factory=dict)
    last_records: dict[str, Record] = field(default_factory=dict)
    expired_until: int | None = None
    records: int = 0

    @property
    def lost_at(self) -> int | None:
        """Until when answers may have been given that nobody can read any more: all counts as spent then (rule 5).

        An earlier ledger was lost, or records have expired: they told nothing that still ran, but a longer window or
        horizon than theirs may hold what they charged once more.
        """
        return later(None if self.terms is None else self.terms.lost_at, self.expired_until)

    def marks_of(self, monitor: str, location: str) -> tuple[Mark, ...]:
        """A location's marks, by tick."""
        known = self.marks.get((monitor, location), {})
        return tuple(known[tick] for tick in sorted(known))

    def fold(self, record: Record, slots: Slots) -> None:
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
                self._fold_empty(entry.tick)
            case OverTimeEntry() | AtTimesEntry() | HotSpotsEntry():
                self._fold_answer(entry, record, slots)

    def _fold_terms(self, entry: StartEntry | OwnerEntry) -> None:
        if self.terms is None and self.expired_until is None and isinstance(entry, OwnerEntry):
            return  # nobody has begun this ledger: it was meant for an earlier topic of this name
        if self.terms is not None and entry.service != self.terms.service:
            raise LedgerError(
                f"the ledger belongs to the service {self.terms.service!r} and holds a record of {entry.service!r}: "
                "two services on one output topic both spend; give each its own kafka.topics.alerts"
            )
        lost_at = parse_instant(entry.lost_at) if entry.lost_at else None
        known = self.terms or Terms(entry.service, entry.partitions)
        if isinstance(entry, OwnerEntry):
            known = replace(
                known,
                input_topic_id=entry.input_topic_id,
                input_since=later(known.input_since, entry.input_since),
                fingerprint=entry.fingerprint,
            )
        self.terms = replace(known, lost_at=later(known.lost_at, lost_at))

    def _fold_empty(self, tick: int | None) -> None:
        """A tick that had nothing to answer is decided too."""
        if tick is not None and (self.last_tick is None or tick > self.last_tick):
            self.last_tick = tick
            self.last_records.clear()

    def _fold_answer(self, entry: _Answer, record: Record, slots: Slots) -> None:
        if self.last_tick is None or entry.tick > self.last_tick:
            _check_grid(entry, record, slots)
            if self.last_tick is None and self.expired_until is not None:
                self.expired_until = later(self.expired_until, slots.as_of(entry.tick))
            self.last_tick = entry.tick
            self.last_records.clear()
        if entry.tick == self.last_tick:
            self.last_records[entry.ce_id] = record
        if isinstance(entry, OverTimeEntry):
            self.spend(entry.monitor, entry.location_id, entry.marks)
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

    def _charge(self, answered: Charged, epsilon: Fraction) -> None:
        self.charged[answered] = max(epsilon, self.charged.get(answered, epsilon))

    def spend(self, monitor: str, location: str, marks: tuple[Mark, ...]) -> None:
        """Note marks; of one tick's mark, the longer one counts."""
        known = self.marks.setdefault((monitor, location), {})
        for mark in marks:
            before = known.get(mark.tick)
            known[mark.tick] = mark if before is None or mark.until > before.until else before

    def forget(self, tick: int, reach: int, oldest_time: int) -> None:
        """Drop marks that no window of up to `reach` slots can hold again, and designated times that are over."""
        for key, known in list(self.marks.items()):
            kept = {at: mark for at, mark in known.items() if max(mark.until, at + reach - 1) >= tick}
            if kept:
                self.marks[key] = kept
            else:
                del self.marks[key]
        for place in [place for place in self.noisy if place[1] < oldest_time]:
            del self.noisy[place]
        self.drawn = {place for place in self.drawn if place[1] >= oldest_time}


def _check_grid(entry: _Answer, record: Record, slots: Slots) -> None:
    """Ticks are numbers on one grid: on another one they would say nothing about what still runs."""
    said = (dict(record.headers).get("ce_time") or b"").decode()
    expected = format_instant(slots.as_of(entry.tick))
    if said != expected:
        raise LedgerError(
            f"clock.slot and clock.origin put tick {entry.tick} at {expected}, and the ledger has it at {said}: they "
            "can't change over a ledger; keep them, or begin a new kafka.topics.alerts when nothing runs any more"
        )
