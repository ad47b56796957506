"""The state of one ledger partition, folded from its records: marks, spent ε, owner terms, last decided tick."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from monitor.errors import LedgerError
from monitor.kinds.all_answers import Answer
from monitor.kinds.all_records import read_record
from monitor.kinds.answer_state import AnswerState, Charged
from monitor.ledger.sign_ticks import SignedLog
from monitor.privacy.over_time import Mark
from monitor.records.charges_record import Charges
from monitor.records.output_records import OutputRecord, name_answer
from monitor.records.owner_record import LedgerRecord, OwnerRecord
from monitor.time.instants import format_instant, parse_instant
from monitor.time.slot_grid import SlotGrid


@dataclass(frozen=True, slots=True)
class OwnerTerms:
    """The terms of a ledger partition. Owner records carry them from one owner to the next."""

    service: str
    partitions: int
    """Q, the number of output partitions that have shards; it never changes."""
    lost_at: int | None = None
    """The instant at which an earlier ledger was lost."""
    input_topic_id: str = ""
    """The topic that the facts were read from."""
    input_since: int | None = None
    """The slot from which its facts are complete, if those of an earlier topic were lost."""
    fingerprint: str = ""
    """Empty before the first owner."""
    input_partitions: int = 0
    """The largest known number of partitions of this input topic; brokers with outdated metadata may list fewer."""
    charges: Charges | None = None
    """The charges of the newest owner's configuration, None if its record does not contain them."""

    def has_same_configuration(self, other: OwnerTerms) -> bool:
        """Return whether the owners with these terms ask the same facts and charge the same ε."""
        if self.charges is None or other.charges is None:
            return False
        return (self.fingerprint, self.charges.digest) == (other.fingerprint, other.charges.digest)

    def require_service(self, service: str, topic: str) -> None:
        """Check that the ledger belongs to this service.

        Raises:
            LedgerError: it belongs to another service.
        """
        if self.service != service:
            raise LedgerError(
                f"service.name is {service!r}, and the ledger {topic} belongs to {self.service!r}: give each service "
                "its own kafka.topics.alerts"
            )


@dataclass(frozen=True, slots=True)
class Spent:
    """A snapshot of what a partition has spent."""

    marks: Mapping[tuple[str, str], tuple[tuple[Mark, int | None], ...]]
    """By monitor and location, each with the max lead F of its configuration, None if F is not known."""
    charged: Mapping[Charged, Fraction]
    """The largest ε published about a designated time."""
    lost_at: int | None
    last_tick: int | None
    unanswered: Collection[tuple[str, str]]
    """The monitors and locations with marks that the last tick may still answer, because the ledger contains a part of
    it.
    """
    owned: bool
    """Whether there was ever an owner."""
    charges: Charges | None
    """The charges of the newest owner's configuration, None if they are not known."""


def find_later(first: int | None, second: int | None) -> int | None:
    """Return the later of two instants, slots or offsets. None means never."""
    return max((at for at in (first, second) if at is not None), default=None)


@dataclass(slots=True)
class LedgerState(AnswerState):
    """The state of one ledger partition."""

    terms: OwnerTerms | None = None
    last_tick: int | None = None
    last_records: dict[str, OutputRecord] = field(default_factory=dict)
    """The answers of the last tick, by ce_id."""
    latest: list[OutputRecord] = field(default_factory=list)
    """The answers since the last owner record. An owner has appended them in one transaction, unless somebody else has
    written some.
    """
    last_terms: OwnerTerms | None = None
    """The terms of the owner that decided the last tick."""
    last_offset: int = 0
    """The offset of the first answer of the last tick."""
    incomplete: int | None = None
    """The last tick with answers that are recorded as lost."""
    expired_until: int | None = None
    """The instant of the first remaining record, if earlier ones have expired."""
    records: int = 0
    eras: list[tuple[int | None, int]] = field(default_factory=list)
    """(last tick before an owner, that owner's F), where F is known."""
    owned_since: int | None = None
    """The timestamp of the first owner record (an instant); from then on, ticks had to be decided."""
    signed: SignedLog | None = None
    """The signed log of an owner whose answers are signed, else None; it reads the marks that it signs as `SignedMark`,
    and the noisy counts about designated times into `TimeAnswers.signed`.
    """

    @property
    def repeats_only_signed(self) -> bool:
        """Whether answers repeat only the noisy counts that the key has signed. The others are spent all the same.

        Before the key's first checkpoint, answers repeat every noisy count in the ledger, and the log begins with them.
        """
        return self.signed is not None and self.signed.has_begun

    @property
    def lost_at(self) -> int | None:
        """The instant up to which answers may be unreadable. They all count as spent (docs/rules.md, rule 5).

        An earlier ledger was lost, or records have expired. Expired records had no effect under their own window and
        horizon, but a longer window or horizon may contain what they charged.
        """
        return find_later(None if self.terms is None else self.terms.lost_at, self.expired_until)

    @property
    def input_since(self) -> int:
        """The slot from which facts are complete if an earlier input topic was lost, else one before all others."""
        complete_from = None if self.terms is None else self.terms.input_since
        return -(2**62) if complete_from is None else complete_from

    def summarize_spent(self) -> Spent:
        """Return what was spent, including marks that no longer run."""
        begins = [-(2**62) if tick is None else tick + 1 for tick, _ in self.eras]

        def max_lead(tick: int) -> int | None:
            era = bisect_right(begins, tick) - 1
            return None if era < 0 else self.eras[era][1]

        keys = self.past.keys() | self.marks.keys()
        known = {key: self.past.get(key, {}) | self.marks.get(key, {}) for key in keys}
        marks = {key: tuple((by_tick[at], max_lead(at)) for at in sorted(by_tick)) for key, by_tick in known.items()}
        terms = self.terms
        owned, charges = (False, None) if terms is None else (terms.fingerprint != "", terms.charges)
        unanswered = self._find_unanswered(marks)
        return Spent(marks, dict(self.charged), self.lost_at, self.last_tick, unanswered, owned, charges)

    def _find_unanswered(self, places: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
        """Return which of these monitors and locations the last tick may still answer.

        Its owner may not have finished its transaction, or may have been stopped within it. Then the next owner draws
        the rest, if its configuration is the same and the rest was not given up (`monitor.ticks.owner.Rest`).
        """
        tick, terms, last = self.last_tick, self.terms, self.last_terms
        if tick is None or terms is None or last is None or self.incomplete == tick:
            return set()
        missing = {key for key in places if name_answer(*key, tick) not in self.last_records}
        if not missing or last.charges is None or not terms.has_same_configuration(last):
            return set()
        if last.charges.places is None:  # they were too many for an owner record, so each may be among them
            return missing
        shares = ((each.monitor, ids) for each in last.charges.places for ids in each.shares.values())
        return missing.intersection((monitor, place) for monitor, ids in shares for place in ids)

    def begin_ownership(self, terms: OwnerTerms) -> None:
        """Begin the ownership of this instance under these terms."""
        self._begin_era(terms.charges)
        self.terms = terms

    def read(self, offset: int, record: OutputRecord, grid: SlotGrid, now: int) -> None:
        """Fold the next record of the partition, which may be the first one that has not expired.

        Expired records were published before that record was written, so before `now` (an instant). The timestamp of
        the record alone is not reliable: the clock of its writer may have been ahead.

        Raises:
            LedgerError: as `fold`.
        """
        if self.records == 0 and offset > 0:
            self.expired_until = min(record.timestamp_ms * 1_000, now)
        before = self.last_tick
        self.fold(record, grid)
        if self.last_tick != before:
            self.last_offset = offset

    def fold(self, record: OutputRecord, grid: SlotGrid) -> None:
        """Fold the next record. Records of unknown kinds are ignored.

        Raises:
            LedgerError: a record of a known kind cannot be read, or the ledger has another version.
        """
        self.records += 1
        entry = read_record(record.key, record.value, record.headers)
        match entry:
            case None:
                self._sign_latest(record)
            case LedgerRecord():
                self._fold_terms(entry)
            case OwnerRecord():
                self._fold_terms(entry)
                self.latest.clear()
                self.incomplete = find_later(self.incomplete, entry.incomplete)
                if entry.tick is not None:  # a decided tick without answers
                    self._advance_to(entry.tick, grid)
                if self.owned_since is None:
                    self.owned_since = record.timestamp_ms * 1_000
            case _:
                self._fold_answer(entry, record, grid)

    def _sign_latest(self, record: OutputRecord) -> None:
        """Record that the noisy counts of the last tick are signed, if this record is a checkpoint that signs them."""
        if self.signed is None or not self.signed.read(record, self.last_tick, self.latest):
            return
        for answer in self.latest:
            match read_record(answer.key, answer.value, answer.headers):
                case None | LedgerRecord() | OwnerRecord():
                    pass
                case entry:
                    entry.sign(self)

    def _fold_terms(self, entry: LedgerRecord | OwnerRecord) -> None:
        if self.terms is None and self.expired_until is None and isinstance(entry, OwnerRecord):
            return  # without a start record, the owner record was meant for an earlier topic of this name
        if self.terms is not None and entry.service != self.terms.service:
            raise LedgerError(
                f"the ledger belongs to the service {self.terms.service!r} and contains a record of {entry.service!r}: "
                "two services on one output topic both spend; give each its own kafka.topics.alerts"
            )
        lost_at = parse_instant(entry.lost_at) if entry.lost_at else None
        terms = self.terms or OwnerTerms(entry.service, entry.partitions)
        if isinstance(entry, OwnerRecord):
            terms = self._apply_owner(terms, entry)
        elif terms.input_topic_id == "":
            terms = replace(terms, input_topic_id=entry.input_topic_id)
        self.terms = replace(terms, lost_at=find_later(terms.lost_at, lost_at))

    def _apply_owner(self, terms: OwnerTerms, entry: OwnerRecord) -> OwnerTerms:
        self._begin_era(entry.charges)
        same_input = terms.input_topic_id == entry.input_topic_id
        return replace(
            terms,
            input_topic_id=entry.input_topic_id,
            input_since=find_later(terms.input_since, entry.input_since),
            fingerprint=entry.fingerprint,
            input_partitions=max(terms.input_partitions if same_input else 0, entry.input_partitions),
            charges=entry.charges,
        )

    def _begin_era(self, charges: Charges | None) -> None:
        if charges is not None and (not self.eras or self.eras[-1][1] != charges.max_lead):
            self.eras.append((self.last_tick, charges.max_lead))

    def _advance_to(self, tick: int, grid: SlotGrid) -> None:
        """Record a decided tick."""
        if self.last_tick is None and self.expired_until is not None:
            # Ticks only rise, so all expired answers are of this tick or earlier, even if a timestamp was wrong.
            self.expired_until = grid.as_of(tick)
        if self.last_tick is None or tick > self.last_tick:
            self.last_tick, self.last_terms = tick, self.terms
            self.last_records.clear()
            self.latest.clear()

    def _fold_answer(self, entry: Answer, record: OutputRecord, grid: SlotGrid) -> None:
        if self.last_tick is None or entry.tick > self.last_tick:
            _check_grid(entry, record, grid)
            self._advance_to(entry.tick, grid)
        if entry.tick == self.last_tick:
            self.last_records[record.ce_id] = record
            self.latest.append(record)
        entry.fold(self)


def _check_grid(entry: Answer, record: OutputRecord, grid: SlotGrid) -> None:
    """Check that the record's tick is on the configured slot grid. On another grid the tick numbers are meaningless."""
    time = (dict(record.headers).get("ce_time") or b"").decode()
    expected = format_instant(grid.as_of(entry.tick))
    if time != expected:
        raise LedgerError(
            f"clock.slot and clock.origin put tick {entry.tick} at {expected}, and the ledger has it at {time}: they "
            "cannot change during the life of a ledger. Keep them, or create a new kafka.topics.alerts once no mark "
            "runs"
        )
