"""Take a ledger partition over, in the order of docs/architecture.md, section 4."""

from __future__ import annotations

import logging
from collections.abc import Callable

from monitor.kafka.connections import KafkaConnections
from monitor.ledger.append_to_ledger import Writer
from monitor.ledger.ledger_state import LedgerState
from monitor.ledger.read_ledger import LedgerReader, require_ledger
from monitor.ledger.sign_ticks import SignedLog
from monitor.observe.failpoints import failpoint
from monitor.privacy.one_sided_noise import Noise
from monitor.records.signed_notes import Signer
from monitor.ticks.owner import Owner, OwnerRecords
from monitor.time.clock import Clock

log = logging.getLogger(__name__)

Check = Callable[[int, LedgerState], None]
"""The last step of a takeover, given the partition and its state: `PeriodCheck.end_takeover`."""


def take_over(
    connections: KafkaConnections,
    partition: int,
    records: OwnerRecords,
    noise: Noise,
    clock: Clock,
    check: Check,
    signer: Signer | None = None,
) -> Owner:
    """Take a ledger partition over, and return its owner. `signer`: the key that signs answers, if they are signed.

    Raises:
        UnreachableError: the outcome is not known; take over again.
        FencedError: another owner has taken over.
        LedgerError: the ledger belongs to another service, is uninitialised, or cannot be read.
        LedgerChangedError: the ledger's topic was re-created, so the fence and the records would be in two topics.
        PeriodError: with the answers of other configurations, one person may pay more than the stated ε.
    """
    ledger, parameters = records.ledger, records.parameters
    # 1. Create a writer with the transactional id of the partition. This fences every earlier owner.
    writer = Writer(connections, ledger.topic, ledger.topic_id, partition)
    failpoint("owner.fenced")
    try:
        # 2. Read the partition.
        reader = LedgerReader(connections, parameters, ledger.topic, [partition], records.now)
        signed = None if signer is None else SignedLog(signer, parameters.name, ledger.topic_id, partition)
        reader.get_state(partition).signed = signed
        reader.refresh()
        # 3. Append an owner record, and read up to it. All records of earlier owners are before it.
        terms = records.announce(writer, partition, reader)
        # The topic's id is checked after the owner record is written. Kafka never reuses an id, so a match shows that
        # the record is in the topic on which the earlier owners were fenced.
        require_ledger(connections, ledger.topic, ledger.topic_id)
        state = reader.get_state(partition)
        state.begin_ownership(terms)
        failpoint("owner.read")
        owner = Owner(partition, writer, state, records, noise, parameters.grid.find_slot(clock.now()))
        # 4. Append the records of the last tick again, unchanged, because their transaction may have been aborted. If
        # some are missing, the tick is decided in their place, or given up.
        owner.repeat_last_tick(committed=reader.is_committed(partition))
        failpoint("owner.repeated")
        # 5. Check what one person may pay within a period.
        check(partition, state)
    except BaseException:
        writer.close()
        raise
    log.info("owns ledger partition %d: %d records read", partition, state.records)
    return owner
