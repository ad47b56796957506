"""The owner of one ledger partition: takes it over, decides its ticks, and is the only one who appends to it."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final, Protocol

from monitor.brokers.connections import KafkaConnections
from monitor.contracts.charges import Charges
from monitor.failpoints import failpoint
from monitor.privacy.noise import Noise
from monitor.public.clock import Clock
from monitor.public.parameters import Parameters, shard_of
from monitor.release.decide import Decider, Decision, Evidence
from monitor.release.ledger import LedgerRecord, Writer, read_partition, require_ledger
from monitor.release.owner_records import LedgerPlace, OwnerRecords
from monitor.release.state import LedgerState, OwnerTerms
from monitor.windows.facts import Question

log = logging.getLogger(__name__)

__all__ = ["LedgerPlace", "Owner", "TakeoverCheck"]

OWNER_RECORDS_PER_REACH: Final = 4


class TakeoverCheck(Protocol):
    """What the service may charge, and the check that ends each takeover. Used by several threads at once."""

    @property
    def charges(self) -> Charges:
        """What this configuration may charge, for owner records."""

    def now(self) -> int:
        """The present instant, by a clock that is not ahead."""

    def end_takeover(self, partition: int, state: LedgerState) -> None:
        """Check what one person may pay, once the owner's record is in the partition, whose state this is.

        Raises:
            PeriodError: more than is stated: nothing may be decided.
            UnreachableError, FencedError: it can't be told now; take over anew later.
        """


class Owner:
    """One ledger partition, taken over. Making one fences every earlier owner (docs/runtime.md, section 4).

    Raises:
        UnreachableError: (any method) the outcome is not known: make a new owner.
        FencedError: (any method) somebody else took over.
        LedgerError: the ledger is another service's, uninitialised, or can't be read.
        LedgerChangedError: the ledger's topic was made anew: what was fenced is not what is written to.
        PeriodError: one person may pay more than is stated, by what was published under another configuration.
    """

    def __init__(
        self,
        connections: KafkaConnections,
        place: LedgerPlace,
        partition: int,
        parameters: Parameters,
        noise: Noise,
        clock: Clock,
        accounts: TakeoverCheck | None = None,
    ) -> None:
        self.partition = partition
        self._connections = connections
        self._place = place
        self._parameters = parameters
        self._accounts = accounts
        charges, now = (None, clock.now) if accounts is None else (accounts.charges, accounts.now)
        self._records = OwnerRecords(place, parameters, charges, now)
        self._writer = Writer(connections, place.topic, place.topic_id, partition)
        failpoint("owner.fenced")
        try:
            self.state = self._take_over()
        except BaseException:
            self._writer.close()
            raise
        terms = self.state.terms
        ledger_partitions = terms.partitions if terms is not None else 1
        self.shards = [shard for shard in range(parameters.registry.shards) if shard % ledger_partitions == partition]
        # Hot spots are one answer about all shards: the partition that the monitor's name falls on gives it.
        ranked = [monitor for monitor in parameters.hot_spots if shard_of(monitor.name, ledger_partitions) == partition]
        self._decider = Decider(parameters, self.shards, noise, ranked)
        slot = parameters.grid.slot_of(clock.now())
        since = self.state.owned_since
        self.first_tick = slot if since is None else min(slot, parameters.grid.slot_of(since))
        self._owner_record_at = slot
        self._grown = False

    def _take_over(self) -> LedgerState:
        """Append an owner record, read up to it, append the bytes of the last tick once more, and check the accounts.

        Which topic they went to, the one that was fenced or another of its name, is asked afterwards: ids don't come
        back.
        """
        state = LedgerState()
        read_to = self._read(state, 0, None)

        def read_on(until: int) -> OwnerTerms | None:
            nonlocal read_to
            read_to = self._read(state, read_to, until)
            return state.terms

        terms = self._records.announce(self._writer, self.partition, state.terms, read_on)
        require_ledger(self._connections, self._place.topic, self._place.topic_id)
        state.own(terms)
        failpoint("owner.read")
        self._writer.append(list(state.last_records.values()))
        failpoint("owner.repeated")
        if self._accounts is not None:
            self._accounts.end_takeover(self.partition, state)
        log.info("owns ledger partition %d: %d records read", self.partition, state.records)
        return state

    def _read(self, state: LedgerState, start: int, until: int | None) -> int:
        """Fold the records from `start` up to `until` (the present end), and return the offset to go on at."""
        read_to, now = start, self._records.now() + self._parameters.tolerance
        for offset, record in read_partition(self._connections, self._place.topic, self.partition, until, start):
            state.read(offset, record, self._parameters.grid, now)
            read_to = offset + 1
        return read_to

    def note_input_partitions(self, partitions: int) -> None:
        """Note how many partitions the input has: with the next tick the ledger says so, if they are more than ever."""
        terms = self.state.terms
        if terms is not None and partitions > terms.input_partitions:
            self.state.terms = replace(terms, input_partitions=partitions)
            self._grown = True

    def questions(self, tick: int) -> dict[int, Question]:
        """What the owned shards are asked at a tick."""
        return self._decider.questions(tick)

    @property
    def first_undecided(self) -> int:
        """The first tick that the ledger does not have.

        In a ledger without answers that is the tick of the slot in which its first owner took it over.
        """
        last = self.state.last_tick
        return self.first_tick if last is None else last + 1

    def may_decide(self, tick: int) -> bool:
        """Whether the tick is this owner's to decide: above the ledger's last."""
        return tick >= self.first_undecided

    def lower_first_tick(self, slot: int) -> None:
        """Note the present slot: if the clock ran ahead at the takeover, it was set right, and ticks are due again.

        No tick is decided twice by that: the ledger's last one stands.
        """
        self.first_tick = min(self.first_tick, slot)
        self._owner_record_at = min(self._owner_record_at, slot)

    def decide(self, tick: int, evidence: Evidence) -> Decision:
        """Decide a tick and append its answers; once this returns, they are in the ledger.

        A tick that has nothing to answer leaves an owner record, so that nothing and lost differ.
        """
        decision = self._decider.decide(tick, evidence, self.state)
        self._writer.append([*self._announced(tick, empty=not decision.records), *decision.records])
        oldest = (
            self._parameters.grid.as_of(tick) - (self._parameters.longest_horizon + 1) * self._parameters.grid.length
        )
        self.state.forget(tick, self._parameters.mark_lifetime, oldest, self._parameters.memory_slots)
        return decision

    def _announced(self, tick: int, *, empty: bool) -> list[LedgerRecord]:
        """The owner record, so that what it carries outlives the topic's retention; and of a tick without answers."""
        terms = self.state.terms
        due = tick - self._owner_record_at >= max(1, self._parameters.mark_lifetime // OWNER_RECORDS_PER_REACH)
        if terms is None or not (due or empty or self._grown):
            return []
        self._owner_record_at, self._grown = tick, False
        return [self._records.record(terms, self.partition, tick if empty else None)]

    def close(self) -> None:
        """Let go of the partition."""
        self._writer.close()
