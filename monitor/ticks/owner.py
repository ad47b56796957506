"""The owner of one ledger partition: it is the partition's only writer, and knows which ticks it may decide."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from monitor.contracts.alerts import OutputRecord
from monitor.contracts.parameters import Total, find_shard
from monitor.privacy.noise import Noise
from monitor.ticks.decide import Decider, Decision
from monitor.ticks.ledger import ACKNOWLEDGED_SECONDS, Writer
from monitor.ticks.owner_records import OwnerRecords
from monitor.ticks.state import LedgerState

OWNER_RECORDS_PER_LIFETIME: Final = 4


class Owner:
    """The owner of one ledger partition, as `take_over` returns it. A new owner fences every earlier one.

    `state`: the state of the partition. `decider` decides its ticks. If the answers of a tick are not appended, close
    this owner, because `state` already contains them. Nobody has seen them, so the next owner may draw again.

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

    def append(self, tick: int, decision: Decision, within: float = ACKNOWLEDGED_SECONDS) -> None:
        """Append the answers of a tick. When this returns, they are in the ledger.

        The work depends on the answers only, and not on the visits, so its duration reveals nothing more than they do.
        The append is given up after about `within` seconds (`Writer.append`).
        For a tick without answers, an owner record is appended, which distinguishes the tick from a lost one.
        """
        parameters, grid = self._parameters, self._parameters.grid
        owner_records = self._build_due_owner_records(tick, empty=not decision.records)
        self._writer.append([*owner_records, *decision.records], within)
        oldest = grid.as_of(tick) - (parameters.longest_horizon + 1) * grid.length
        self.state.forget(tick, parameters.mark_lifetime, oldest, parameters.memory_slots)

    def _build_due_owner_records(self, tick: int, *, empty: bool) -> list[OutputRecord]:
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
