"""Take a ledger partition over, in the order of docs/architecture.md, section 4.

1. Create a writer with the transactional id of the partition. This fences every earlier owner.
2. Read the partition, and append an owner record (`monitor.ticks.owner_records`).
3. Read up to this record. All records of earlier owners are before it.
4. Append the records of the last tick again, unchanged, because their transaction may have been aborted.
5. Check what one person may pay within a period (`monitor.ticks.period_check`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol

from monitor.contracts.charges import Charges
from monitor.kafka.connections import KafkaConnections
from monitor.observe.failpoints import failpoint
from monitor.ticks.ledger import Writer, read_partition, require_ledger
from monitor.ticks.owner_records import OwnerRecords
from monitor.ticks.state import LedgerState, OwnerTerms

log = logging.getLogger(__name__)


class TakeoverCheck(Protocol):
    """The charges of this configuration, and the check that ends each takeover. Thread-safe."""

    @property
    def charges(self) -> Charges:
        """The charges of this configuration, for owner records."""

    def now(self) -> int:
        """Return the present instant, by a clock that is not ahead."""

    def end_takeover(self, partition: int, state: LedgerState) -> None:
        """Check what one person may pay. The partition already contains the owner's record; `state` is its state.

        Raises:
            PeriodError: the sum is larger than the stated ε, so no tick may be decided.
            UnreachableError, FencedError: the check could not be completed; take over again later.
        """


@dataclass(frozen=True, slots=True)
class Takeover:
    """The takeover of one ledger partition. Without a `check`, the last step is left out."""

    connections: KafkaConnections
    partition: int
    records: OwnerRecords
    check: TakeoverCheck | None

    def run(self) -> tuple[Writer, LedgerState]:
        """Take the partition over, and return its writer and its state.

        Raises:
            UnreachableError, FencedError, LedgerError, LedgerChangedError, PeriodError: as `Owner`.
        """
        place = self.records.place
        writer = Writer(self.connections, place.topic, place.topic_id, self.partition)
        failpoint("owner.fenced")
        try:
            return writer, self._announce_and_read(writer)
        except BaseException:
            writer.close()
            raise

    def _announce_and_read(self, writer: Writer) -> LedgerState:
        state = LedgerState()
        next_offset = self._read(state, 0, None)

        def read_to(until: int) -> OwnerTerms | None:
            nonlocal next_offset
            next_offset = self._read(state, next_offset, until)
            return state.terms

        terms = self.records.announce(writer, self.partition, state.terms, read_to)
        # The topic's id is checked after the owner record is written. Kafka never reuses an id, so a match shows that
        # the record is in the topic on which the earlier owners were fenced.
        require_ledger(self.connections, self.records.place.topic, self.records.place.topic_id)
        state.begin_ownership(terms)
        failpoint("owner.read")
        writer.append(list(state.last_records.values()))
        failpoint("owner.repeated")
        if self.check is not None:
            self.check.end_takeover(self.partition, state)
        log.info("owns ledger partition %d: %d records read", self.partition, state.records)
        return state

    def _read(self, state: LedgerState, start: int, until: int | None) -> int:
        """Fold the records from `start` to `until` (default: the present end), and return the next offset to read."""
        next_offset, parameters = start, self.records.parameters
        now = self.records.now() + parameters.tolerance
        for offset, record in read_partition(self.connections, self.records.place.topic, self.partition, until, start):
            state.read(offset, record, parameters.grid, now)
            next_offset = offset + 1
        return next_offset
