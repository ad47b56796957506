"""Owner records: they carry the terms of a ledger partition from one owner to the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from monitor.contracts.alerts import OutputRecord
from monitor.contracts.owner_record import make_owner_record
from monitor.contracts.parameters import Parameters
from monitor.errors import LedgerError
from monitor.observe.failpoints import failpoint
from monitor.ticks.ledger import Writer
from monitor.ticks.ledger_reader import LedgerReader
from monitor.ticks.period_account import declare_charges
from monitor.ticks.state import OwnerTerms, find_later


@dataclass(frozen=True, slots=True)
class LedgerTopic:
    """The ledger's topic and its id, and the id of the input topic from which the facts are read.

    `fingerprint` is that of `compute_published_fingerprint`. `input_seen_at` is an instant at which the input topic
    existed, by a clock that agreed with the servers' clocks. All records of an earlier input topic are older. A clock
    reading at the takeover cannot replace it: the clock may have been set back. `input_partitions` is the number of
    input partitions at that instant.
    """

    topic: str
    topic_id: str
    input_topic_id: str
    fingerprint: str
    input_seen_at: int
    input_partitions: int = 0


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

    def build(self, terms: OwnerTerms, partition: int, tick: int | None = None) -> OutputRecord:
        """Return an owner record. `tick` is a decided tick that has no answers."""
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
