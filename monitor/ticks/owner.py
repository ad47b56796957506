"""The owner of one ledger partition: it decides the partition's ticks, and is its only writer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from monitor.contracts.clock import Clock
from monitor.contracts.parameters import Parameters, Total, find_shard
from monitor.kafka.connections import KafkaConnections
from monitor.privacy.noise import Noise
from monitor.store.facts import Question
from monitor.ticks.decide import Decider, Decision, Evidence
from monitor.ticks.ledger import ACKNOWLEDGED_SECONDS, EncodedRecord
from monitor.ticks.owner_records import LedgerPlace, OwnerRecords
from monitor.ticks.takeover import Takeover, TakeoverCheck

__all__ = ["LedgerPlace", "Owner", "OwnerFactory", "TakeoverCheck"]

OWNER_RECORDS_PER_LIFETIME: Final = 4


class Owner:
    """The owner of one ledger partition. A new owner fences every earlier one (docs/architecture.md, section 4).

    Raises:
        UnreachableError: (any method) the outcome is not known; create a new owner.
        FencedError: (any method) another owner has taken over.
        LedgerError: the ledger belongs to another service, is uninitialised, or cannot be read.
        LedgerChangedError: the ledger's topic was re-created, so the fence and the records would be in two topics.
        PeriodError: with the answers of other configurations, one person may pay more than the stated ε.
    """

    def __init__(
        self,
        connections: KafkaConnections,
        place: LedgerPlace,
        partition: int,
        parameters: Parameters,
        noise: Noise,
        clock: Clock,
        check: TakeoverCheck | None = None,
    ) -> None:
        self.partition = partition
        self._parameters = parameters
        charges, now = (None, clock.now) if check is None else (check.charges, check.now)
        self._records = OwnerRecords(place, parameters, charges, now)
        self._writer, self.state = Takeover(connections, partition, self._records, check).run()
        self.shards, totals = self._find_assigned()
        self._decider = Decider(parameters, self.shards, noise, totals)
        slot = parameters.grid.find_slot(clock.now())
        owned_since = self.state.owned_since
        self.first_tick = slot if owned_since is None else min(slot, parameters.grid.find_slot(owned_since))
        self._owner_record_at = slot
        self._input_grew = False

    def _find_assigned(self) -> tuple[list[int], list[Total]]:
        """Return the shards of this partition, and its monitors of hot spots and dwell times.

        Each of their answers covers all shards. The hash of the monitor's name selects the partition that publishes it.
        """
        terms, parameters = self.state.terms, self._parameters
        partitions = terms.partitions if terms is not None else 1
        shards = [shard for shard in range(parameters.registry.shards) if shard % partitions == self.partition]
        totals = [monitor for monitor in parameters.totals if find_shard(monitor.name, partitions) == self.partition]
        return shards, totals

    def note_input_partitions(self, partitions: int) -> None:
        """Record the number of input partitions. If it has grown, the next tick writes it to the ledger."""
        terms = self.state.terms
        if terms is not None and partitions > terms.input_partitions:
            self.state.terms = replace(terms, input_partitions=partitions)
            self._input_grew = True

    def build_questions(self, tick: int) -> dict[int, Question]:
        """Return the question to ask each owned shard at a tick."""
        return self._decider.build_questions(tick)

    @property
    def first_undecided(self) -> int:
        """The first tick that the ledger does not contain.

        In a ledger without answers it is the tick of the slot in which the first owner took over.
        """
        last = self.state.last_tick
        return self.first_tick if last is None else last + 1

    def may_decide(self, tick: int) -> bool:
        """Return whether the tick may be decided: it must be above the ledger's last tick."""
        return tick >= self.first_undecided

    def lower_first_tick(self, slot: int) -> None:
        """Allow ticks from the present slot on: the clock may have been ahead at the takeover and corrected since.

        No tick is decided twice: ticks up to the ledger's last one remain decided.
        """
        self.first_tick = min(self.first_tick, slot)
        self._owner_record_at = min(self._owner_record_at, slot)

    def decide(self, tick: int, evidence: Evidence) -> Decision:
        """Draw every answer of a tick. If they are not appended, close this owner: its state already contains them.

        Nobody has seen answers that were not appended, so the next owner may draw again.
        """
        return self._decider.decide(tick, evidence, self.state)

    def append(self, tick: int, decision: Decision, within: float = ACKNOWLEDGED_SECONDS) -> None:
        """Append the answers of a tick. When this returns, they are in the ledger.

        The work depends on the answers only, and not on the visits, so its duration reveals nothing more than they do.
        The append is given up after about `within` seconds (`Writer.append`).
        For a tick without answers, an owner record is appended, which distinguishes the tick from a lost one.
        """
        records = [*self._build_due_owner_records(tick, empty=not decision.records), *decision.records]
        self._writer.append(records, within)
        oldest = (
            self._parameters.grid.as_of(tick) - (self._parameters.longest_horizon + 1) * self._parameters.grid.length
        )
        self.state.forget(tick, self._parameters.mark_lifetime, oldest, self._parameters.memory_slots)

    def _build_due_owner_records(self, tick: int, *, empty: bool) -> list[EncodedRecord]:
        """Return an owner record if one is due.

        One is due for a tick without answers, for added input partitions, and before the last one expires.
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


@dataclass(frozen=True, slots=True)
class OwnerFactory:
    """A factory of the owners of ledger partitions."""

    connections: KafkaConnections
    place: LedgerPlace
    parameters: Parameters
    noise: Noise
    clock: Clock
    check: TakeoverCheck | None = None

    def take_over(self, partition: int) -> Owner:
        """Take a partition over and return its owner.

        Raises:
            UnreachableError, FencedError, LedgerError, LedgerChangedError, PeriodError: as `Owner`.
        """
        return Owner(self.connections, self.place, partition, self.parameters, self.noise, self.clock, self.check)
