"""The owner of a ledger partition, as a takeover returns it: its only writer, which knows the ticks that it may decide.

Owner records carry the terms of a partition from one owner to the next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from monitor.errors import LedgerError
from monitor.kinds.base.keys_and_parameters import Monitor
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.locations import find_shard
from monitor.kinds.parameters import Parameters
from monitor.ledger.append_to_ledger import ACKNOWLEDGED_SECONDS, Writer
from monitor.ledger.compute_payment import declare_charges
from monitor.ledger.ledger_state import LedgerState, OwnerTerms, find_later
from monitor.ledger.read_ledger import LedgerReader
from monitor.observe.failpoints import failpoint
from monitor.privacy.one_sided_noise import Noise
from monitor.records.output_records import OutputRecord
from monitor.records.owner_record import make_owner_record
from monitor.ticks.collect_answers import Decider, Decision

log = logging.getLogger(__name__)

OWNER_RECORDS_PER_LIFETIME: Final = 4

OTHER_CONFIGURATION: Final = "an instance with another configuration was stopped while it appended them"
NOT_SIGNED: Final = "they were appended without a checkpoint, so anybody may have written them"
NOT_SIGNED_YET: Final = "the signed log begins with a later tick"
GIVEN_UP: Final = "an earlier owner has given them up"


@dataclass(frozen=True, slots=True)
class LedgerTopic:
    """The ledger's topic, and the input topic from which the facts are read."""

    topic: str
    topic_id: str
    input_topic_id: str
    fingerprint: str
    """That of `compute_published_fingerprint`."""
    input_seen_at: int
    """An instant at which the input topic existed, by a clock that agreed with the servers' clocks.

    All records of an earlier input topic are older. A clock reading at the takeover cannot replace it: the clock may
    have been set back.
    """
    input_partitions: int = 0
    """The number of input partitions at that instant."""


class OwnerRecords:
    """A builder of owner records, which contain the charges of this configuration.

    `now` returns their timestamp, by which they expire. Its clock must not be ahead.
    """

    def __init__(self, ledger: LedgerTopic, parameters: Parameters, now: Callable[[], int]) -> None:
        self.ledger = ledger
        self.parameters = parameters
        self.charges = declare_charges(parameters)
        self.now = now

    def update_terms(self, known: OwnerTerms | None, partition: int) -> OwnerTerms:
        """Return the terms of the next owner record, given the terms that were read from the partition.

        Raises:
            LedgerError: the partition has no first record, or belongs to another service.
        """
        ledger = self.ledger
        if known is None:
            raise LedgerError(
                f"partition {partition} of {ledger.topic} has no first record, so the spent ε is not known: run "
                "`location-monitor topics --create`"
            )
        known.require_service(self.parameters.name, ledger.topic)
        same = known.input_topic_id == ledger.input_topic_id
        return replace(
            known,
            input_topic_id=ledger.input_topic_id,
            input_since=self._find_input_since(known),
            fingerprint=ledger.fingerprint,
            input_partitions=max(known.input_partitions if same else 0, ledger.input_partitions),
            charges=self.charges,
        )

    def _find_input_since(self, known: OwnerTerms) -> int | None:
        since, tolerance = known.input_since, self.parameters.tolerance
        if known.input_topic_id not in ("", self.ledger.input_topic_id):
            since = find_later(since, self._find_complete_slot(self.ledger.input_seen_at + tolerance))
        if known.fingerprint == "" and known.lost_at is not None:
            # Only the lost ledger contained the id of its input topic, so the present topic may be another one.
            since = find_later(since, self._find_complete_slot(known.lost_at + tolerance))
        return since

    def _find_complete_slot(self, instant: int) -> int:
        """Return the first slot with complete facts if all records up to an instant are lost. Visits may be F ahead."""
        return self.parameters.grid.find_slot(instant) + self.parameters.max_lead + 1

    def build(
        self, terms: OwnerTerms, partition: int, tick: int | None = None, incomplete: int | None = None
    ) -> OutputRecord:
        """Return an owner record. `tick` is a decided tick without answers, `incomplete` one that has lost answers."""
        now = self.now()
        return make_owner_record(
            source=self.parameters.name,
            service=terms.service,
            fingerprint=terms.fingerprint,
            input_topic_id=terms.input_topic_id,
            partitions=terms.partitions,
            lost_at=terms.lost_at,
            input_since=terms.input_since,
            partition=partition,
            at=now,
            tick=tick,
            incomplete=incomplete,
            input_partitions=terms.input_partitions,
            charges=terms.charges,
        )

    def announce(self, writer: Writer, partition: int, reader: LedgerReader) -> OwnerTerms:
        """Append an owner record, read up to it, and return its terms.

        A read up to the writer's own record is complete, even if a leader reports an outdated log end. If the records
        before it change the terms, another owner record is appended.

        Args:
            writer: the writer of the partition, which has fenced every earlier one.
            partition: the number of the partition.
            reader: has read the partition, and continues.
        """
        terms = self.update_terms(reader.get_state(partition).terms, partition)
        while True:
            offset = writer.append([self.build(terms, partition)])
            failpoint("owner.announced")
            reader.read_to(partition, offset)
            updated = self.update_terms(reader.get_state(partition).terms, partition)
            updated = replace(updated, input_since=find_later(updated.input_since, terms.input_since))
            if updated == terms:
                return terms
            terms = updated


@dataclass(frozen=True, slots=True)
class Rest:
    """The answers of the last tick that are not published: an owner was stopped within the tick's transaction."""

    tick: int
    lost: int | None
    """How many of its answers are lost if no more are drawn; None if this is not known."""
    reason: str = ""
    """Why no more can be drawn; empty if they can."""


class Owner:
    """The owner of one ledger partition, as `take_over` returns it. A new owner fences every earlier one.

    `state`: the state of the partition. `decider` decides its ticks. If the answers of a tick are not appended, close
    this owner, because `state` already contains them. Nobody has seen them, so the next owner may draw again.

    `rest`: what is missing of the last tick, until it is decided or given up; None if nothing is.

    Args:
        partition: the number of the partition.
        writer: the writer of the partition, which has fenced every earlier one.
        state: the state that was read from the partition.
        records: the builder of owner records.
        noise: the source of one-sided noise.
        slot: the slot of the takeover.

    Raises:
        UnreachableError: (any method) the outcome is not known; take over again.
        FencedError: (any method) another owner has taken over.
    """

    def __init__(
        self, partition: int, writer: Writer, state: LedgerState, records: OwnerRecords, noise: Noise, slot: int
    ) -> None:
        self.partition = partition
        self.state = state
        self._writer = writer
        self._records = records
        self._parameters = records.parameters
        self.shards, totals = self._find_assigned()
        self.decider = Decider(self._parameters, self.shards, noise, totals)
        owned_since = state.owned_since
        self.first_tick = slot if owned_since is None else min(slot, self._parameters.grid.find_slot(owned_since))
        self._owner_record_at = slot
        self._input_grew = False
        self.rest: Rest | None = None

    def _find_assigned(self) -> tuple[list[int], list[Monitor]]:
        """Return the shards of this partition, and its monitors about all places.

        Each of their answers covers all shards. The hash of the monitor's name selects the partition that publishes it.
        """
        terms, parameters = self.state.terms, self._parameters
        partitions = terms.partitions if terms is not None else 1
        shards = [shard for shard in range(parameters.registry.shards) if shard % partitions == self.partition]
        totals = [monitor for monitor in parameters.monitors if monitor.scope == "all places"]
        return shards, [total for total in totals if find_shard(total.name, partitions) == self.partition]

    def note_input_partitions(self, partitions: int) -> None:
        """Record the number of input partitions. If it has grown, the next tick writes it to the ledger."""
        terms = self.state.terms
        if terms is not None and partitions > terms.input_partitions:
            self.state.terms = replace(terms, input_partitions=partitions)
            self._input_grew = True

    @property
    def first_undecided(self) -> int:
        """The first tick that the ledger does not contain.

        In a ledger without answers it is the tick of the slot in which the first owner took over.
        """
        last = self.state.last_tick
        if self.rest is not None and not self.rest.reason:
            return self.rest.tick
        return self.first_tick if last is None else last + 1

    def may_decide(self, tick: int) -> bool:
        """Return whether the tick may be decided: it is above the ledger's last one, or its rest can be drawn."""
        return tick >= self.first_undecided

    def lower_first_tick(self, slot: int) -> None:
        """Allow ticks from the present slot on: the clock may have been ahead at the takeover and corrected since.

        No tick is decided twice: ticks up to the ledger's last one remain decided.
        """
        self.first_tick = min(self.first_tick, slot)
        self._owner_record_at = min(self._owner_record_at, slot)

    def repeat_last_tick(self, *, committed: bool) -> None:
        """Append the answers of the last tick again, unless some are missing and may be drawn.

        `committed`: whether the ledger has answers of the tick in a committed transaction. Each transaction contains a
        whole tick, so only a tick without one may be a part. What it lacks was never in the ledger, and an earlier
        owner is fenced. So nobody has seen it, and it can be drawn.
        """
        if not committed:
            self.rest = self._find_rest()
        if self.rest is None:
            self._writer.append(self._choose_repeated())

    def _find_rest(self) -> Rest | None:
        """Return what is missing of the last tick, of which no transaction was committed; None if nothing is.

        An owner record that gives the tick up may be in such a transaction too. Somebody may have seen it, so nothing
        is drawn any more, but the tick has to be given up again.
        """
        state, signed = self.state, self.state.signed
        tick, known, terms = state.last_tick, state.last_records, state.terms
        if tick is None or not known:
            return None
        if signed is not None and signed.has_ended(tick):
            lost = self._count_own(tick, signed.list_unsigned(known))
            return Rest(tick, lost, NOT_SIGNED) if lost else None
        if terms is None or state.last_terms is None or not terms.has_same_configuration(state.last_terms):
            return Rest(tick, None, OTHER_CONFIGURATION)
        missing = [ce_id for ce_id in self.decider.list_ids(tick, state.times.drawn) if ce_id not in known]
        given_up = GIVEN_UP if state.incomplete == tick else ""
        if signed is not None and signed.has_begun:
            lost = len(missing) + self._count_own(tick, known)
            return Rest(tick, lost, given_up or ("" if missing else NOT_SIGNED))
        reason = given_up or ("" if signed is None else NOT_SIGNED_YET)
        return Rest(tick, len(missing), reason) if missing else None

    def _count_own(self, tick: int, ce_ids: Iterable[str]) -> int:
        """Return how many ce_ids the answers of a tick may have. Anybody may have written others."""
        return len(set(self.decider.list_ids(tick)).intersection(ce_ids))

    def _choose_repeated(self) -> Sequence[OutputRecord]:
        answers, signed = list(self.state.last_records.values()), self.state.signed
        return answers if signed is None else signed.choose_repeated(self.state.last_tick, answers)

    def give_up_rest(self, rest: Rest) -> None:
        """Append the known answers of the last tick again, and record that its other answers are lost."""
        self._writer.append([*self._choose_repeated(), *self._build_incomplete(rest.tick)])
        self.rest = None

    def _build_incomplete(self, tick: int) -> list[OutputRecord]:
        terms = self.state.terms
        return [] if terms is None else [self._records.build(terms, self.partition, incomplete=tick)]

    def decide(self, tick: int, evidence: Evidence) -> Decision:
        """Draw the answers of a tick, and sign them if answers are signed. Either append them, or close this owner.

        Of a tick that the ledger contains in part, the known answers are repeated, and only the others are drawn. If
        answers are signed, the known ones are left out: a key signs only what its owner has drawn.
        """
        known = self.state.last_records if self.rest is not None and self.rest.tick == tick else {}
        decision, signed = self.decider.decide(tick, evidence, self.state, known), self.state.signed
        if signed is None:
            return decision
        repeated = set(map(id, known.values()))
        drawn = [record for record in decision.records if id(record) not in repeated]
        checkpoint = signed.sign(tick, self._parameters.grid.as_of(tick), drawn)
        lost = self._count_own(tick, known) if known else 0
        return replace(decision, records=drawn, checkpoint=checkpoint, lost=lost)

    def append(self, tick: int, decision: Decision, within: float = ACKNOWLEDGED_SECONDS) -> None:
        """Append the answers of a tick. When this returns, they are in the ledger.

        The work depends on the answers only, and not on the visits, so its duration reveals nothing more than they do.
        The append is given up after about `within` seconds (`Writer.append`).
        For a tick without answers, an owner record is appended, which distinguishes the tick from a lost one. If
        answers are signed, the checkpoint is the last record, except that an owner record follows if a killed owner's
        answers are lost. If this record were before the checkpoint, and only it arrived, nothing could be drawn.
        """
        parameters, grid = self._parameters, self._parameters.grid
        owner_records = self._build_due_owner_records(tick, empty=not decision.records)
        checkpoint = [] if decision.checkpoint is None else [decision.checkpoint]
        lost = self._build_incomplete(tick) if decision.lost else []
        self._writer.append([*owner_records, *decision.records, *checkpoint, *lost], within)
        self.rest = None
        oldest = grid.as_of(tick) - (parameters.longest_horizon + 1) * grid.length
        self.state.forget(tick, parameters.mark_lifetime, oldest, parameters.memory_slots)

    def _build_due_owner_records(self, tick: int, *, empty: bool) -> list[OutputRecord]:
        """Return an owner record if one is due.

        It is due if the tick has no answers, if partitions were added, or if the last record expires soon.
        """
        terms = self.state.terms
        due = tick - self._owner_record_at >= max(1, self._parameters.mark_lifetime // OWNER_RECORDS_PER_LIFETIME)
        if terms is None or not (due or empty or self._input_grew):
            return []
        self._owner_record_at, self._input_grew = tick, False
        return [self._records.build(terms, self.partition, tick if empty else None)]

    def close(self) -> None:
        """Close the writer."""
        self._writer.close()
