"""Check at the end of every takeover what one person may pay, given the records of all ledger partitions.

An owner first writes its owner record, which contains the charges of its configuration. Then it reads the other
partitions. If two owners take over at the same time, at least one of them sees the record of the other.

Two configurations may answer in turns. A place then costs the larger of its two charges. Equal sets of designated times
cost the larger one too, and different sets cost the sum (`monitor.ledger.compute_payment`). If the result is too
large only because of the other owner, this owner is fenced and its records are read again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from monitor.errors import UnreachableError
from monitor.kafka.connections import KafkaConnections
from monitor.kinds.parameters import Parameters
from monitor.ledger.append_to_ledger import Writer
from monitor.ledger.compute_payment import PeriodPayments
from monitor.ledger.ledger_state import LedgerState, Spent
from monitor.ledger.read_ledger import LedgerReader, require_ledger
from monitor.records.charges_record import Charges
from monitor.ticks.owner import OwnerRecords

log = logging.getLogger(__name__)

ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class PeriodLimits:
    """What one person may pay in a period: the stated ε, and the worst case of the configuration alone."""

    stated: Fraction
    worst: Fraction


@dataclass(frozen=True, slots=True)
class TakeoverRules:
    """The rules that decide whether an owner with another configuration may continue. Pure; also for `check --live`.

    `charges`: those of the configuration that takes over.
    """

    parameters: Parameters
    limits: PeriodLimits
    charges: Charges

    def find_others(self, spent: Mapping[int, Spent]) -> dict[int, Charges | None]:
        """Return the charges of each newest owner that has another configuration, by partition; None if unknown."""
        return {
            partition: snapshot.charges
            for partition, snapshot in spent.items()
            if snapshot.owned and (snapshot.charges is None or snapshot.charges.digest != self.charges.digest)
        }

    def fits_with(self, spent: Mapping[int, Spent], others: Mapping[int, Charges | None], tick: int) -> bool:
        """Return whether the other owners may continue. Unknown charges never fit."""
        known = {
            partition: charges
            for partition, charges in others.items()
            if charges is not None and charges.places is not None
        }
        if len(known) < len(others):
            return False
        return (
            PeriodPayments(self.parameters, self.limits.worst, spent, known).compute_total(tick) <= self.limits.stated
        )


class PeriodCheck:
    """The charges of this instance, and the check that ends its takeovers. Thread-safe.

    Args:
        connections: the connections to Kafka.
        records: the builder of this instance's owner records, with the charges of its configuration.
        limits: what one person may pay.
        reader: reads all partitions of the ledger's topic.
        partitions: Q, the number of partitions that have shards.
    """

    def __init__(
        self,
        connections: KafkaConnections,
        records: OwnerRecords,
        limits: PeriodLimits,
        reader: LedgerReader,
        partitions: int,
    ) -> None:
        self._connections, self._records, self._limits = connections, records, limits
        self._reader, self._partitions = reader, partitions
        self._rules = TakeoverRules(records.parameters, limits, records.charges)
        self._announcing = threading.Lock()

    def end_takeover(self, partition: int, state: LedgerState) -> None:
        """Check what one person may pay. The partition already contains the owner's record; `state` is its state.

        Raises:
            PeriodError: the sum is larger than the stated ε; the message contains the time at which it would fit.
            UnreachableError: the ledger cannot be read or written now, or other instances keep taking over.
            FencedError: another instance takes over at the same time.
        """
        parameters = self._records.parameters
        tick = parameters.grid.find_slot(self._records.now()) - 1  # a new owner may still decide the last closed tick
        self._reader.forget(tick)
        for _ in range(ATTEMPTS):
            self._reader.refresh()
            spent = self._reader.read_spent(self._partitions) | {partition: state.summarize_spent()}
            others = self._rules.find_others(spent)
            if others and self._rules.fits_with(spent, others, tick):
                return
            PeriodPayments(parameters, self._limits.worst, spent).require(self._limits.stated, tick)
            if not others:
                return
            self._announce(others)
        raise UnreachableError(
            f"instances with another configuration keep taking over partitions of {self._records.ledger.topic}: if "
            "both answer in turns, one person may pay too much; the takeover is tried again"
        )

    def _announce(self, partitions: Collection[int]) -> None:
        """Fence the owners of these partitions, and append an owner record to each of them."""
        ledger = self._records.ledger
        with self._announcing:
            for partition in sorted(partitions):
                log.warning(
                    "ledger partition %d: fencing its owner, which has another configuration: one person may pay too "
                    "much if both answer",
                    partition,
                )
                with closing(Writer(self._connections, ledger.topic, ledger.topic_id, partition)) as writer:
                    self._records.announce(writer, partition, self._reader)
                    require_ledger(self._connections, ledger.topic, ledger.topic_id)
