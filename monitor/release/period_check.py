"""The check that ends every takeover: what one person may pay, with all that every partition of the ledger says.

An owner first writes its own record, which says what its configuration may charge, and then reads all the others: of
two that take over at once, at least one sees the other. Where another configuration's owner may go on, each place and
time counts with the larger of both; if only that is too much, that owner is fenced, and what it said is read again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final

from monitor.brokers.connections import KafkaConnections
from monitor.contracts.charges import Charges
from monitor.errors import UnreachableError
from monitor.public.parameters import Parameters
from monitor.release.declared_charges import declare_charges
from monitor.release.ledger import Writer, require_ledger
from monitor.release.ledger_reader import LedgerReader
from monitor.release.owner_records import LedgerPlace, OwnerRecords
from monitor.release.period_account import PeriodAccount
from monitor.release.state import LedgerState, Spent

log = logging.getLogger(__name__)

ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class PeriodLimits:
    """What one person may pay in a period: as it is stated, and at worst by the configuration alone."""

    stated: Fraction
    worst: Fraction


class PeriodCheck:
    """What the instance may charge, and the check that ends its takeovers. Used by several threads at once.

    Args:
        connections: how to talk to Kafka.
        place: the ledger.
        parameters: what is watched.
        limits: what one person may pay.
        survey: the ledger's partitions, of which the first `partitions` (Q) are the ledger.
        partitions: Q.
        now: the present instant, by a clock that is not ahead.
    """

    def __init__(
        self,
        connections: KafkaConnections,
        place: LedgerPlace,
        parameters: Parameters,
        limits: PeriodLimits,
        survey: LedgerReader,
        partitions: int,
        now: Callable[[], int],
    ) -> None:
        self._connections, self._place, self._parameters = connections, place, parameters
        self._limits, self._survey, self._partitions = limits, survey, partitions
        self._now = now
        self._charges = declare_charges(parameters)
        self._records = OwnerRecords(place, parameters, self._charges, now)
        self._announcing = threading.Lock()

    @property
    def charges(self) -> Charges:
        """What this configuration may charge."""
        return self._charges

    def now(self) -> int:
        """The present instant, by a clock that is not ahead."""
        return self._now()

    def end_takeover(self, partition: int, state: LedgerState) -> None:
        """Check what one person may pay, once this instance's owner record is in the partition, whose state this is.

        Raises:
            PeriodError: more than is stated, with the sum and the time at which it would fit.
            UnreachableError: the ledger can't be read or written now; or others keep taking over.
            FencedError: another one takes over at the same time.
        """
        tick = (
            self._parameters.grid.slot_of(self._now()) - 1
        )  # who takes over may still decide the last one that closed
        self._survey.forget(tick)
        for _ in range(ATTEMPTS):
            self._survey.refresh()
            spent = self._survey.spent(self._partitions) | {partition: state.spent()}
            others = self._others(spent)
            if others and self._fits_with(spent, others, tick):
                return
            PeriodAccount(self._parameters, self._limits.worst, spent).require(self._limits.stated, tick)
            if not others:
                return
            self._announce(others)
        raise UnreachableError(
            f"instances with another configuration keep taking over partitions of {self._place.topic}: one person may "
            "pay too much where both answer in turns; it is tried again"
        )

    def _others(self, spent: dict[int, Spent]) -> dict[int, Charges | None]:
        """The partitions whose newest owner has another configuration, with what it may charge; None: not told."""
        return {
            partition: each.charges
            for partition, each in spent.items()
            if each.owned and (each.charges is None or each.charges.digest != self._charges.digest)
        }

    def _fits_with(self, spent: dict[int, Spent], others: dict[int, Charges | None], tick: int) -> bool:
        """Whether others may go on to own these partitions; what is not told is too much."""
        told = {partition: one for partition, one in others.items() if one is not None and one.places is not None}
        if len(told) < len(others):
            return False
        return PeriodAccount(self._parameters, self._limits.worst, spent, told).total(tick) <= self._limits.stated

    def _announce(self, partitions: Collection[int]) -> None:
        """Write this instance's owner record into these partitions, which fences their owners."""
        ledger, ledger_id = self._place.topic, self._place.topic_id
        with self._announcing:
            for partition in sorted(partitions):
                log.warning(
                    "ledger partition %d: its owner has another configuration, and one person may pay too much by both "
                    "together: it is fenced",
                    partition,
                )
                with closing(Writer(self._connections, ledger, ledger_id, partition)) as writer:
                    read = partial(self._survey.read_to, partition)
                    self._records.announce(writer, partition, self._survey.terms(partition), read)
        require_ledger(self._connections, ledger, ledger_id)
