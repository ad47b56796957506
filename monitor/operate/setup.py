"""`location-monitor topics --create`: makes the topics, and writes the first record of each ledger partition.

The first record is what tells a new ledger from a lost one: without it nothing is decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from monitor.connections import KafkaConnections
from monitor.contracts.alerts import ledger_record
from monitor.errors import LedgerError
from monitor.operate.preflight import survey
from monitor.operate.topics import TopicNeeds, checked, create, groups_that_ran
from monitor.release.ledger import Record, Writer
from monitor.scheme import Scheme
from monitor.times import format_instant


class Beginning(Enum):
    """What a ledger without a first record is taken for."""

    UNSAID = "unsaid"
    FIRST_START = "first_start"
    LEDGER_LOST = "ledger_lost"


@dataclass(frozen=True, slots=True)
class Made:
    """What was made: topics by name, ledger partitions that got a first record, and when the old ledger was lost."""

    topics: tuple[str, ...]
    partitions: tuple[int, ...]
    lost_at: int | None

    def __str__(self) -> str:
        """What was done, in words."""
        topics = f"made {', '.join(self.topics)}" if self.topics else "all topics were there"
        if not self.partitions:
            return f"{topics}; the ledger had begun"
        partitions = ", ".join(map(str, self.partitions))
        lost = f", all counts as spent at {format_instant(self.lost_at)}" if self.lost_at is not None else ""
        return f"{topics}; the ledger begins in partitions {partitions}{lost}"


def set_up(
    connections: KafkaConnections,
    scheme: Scheme,
    wanted: Sequence[TopicNeeds],
    groups: Sequence[str],
    beginning: Beginning,
    now: int,
    replication_factor: int | None = None,
) -> Made:
    """Make what is missing. Running it again changes nothing.

    `wanted` are the needs of (visits, alerts, dead letters), `groups` the service's consumer groups.

    Raises:
        LedgerError: the ledger is empty although the groups ran before, and nobody said which it is; or it is another
            service's.
        TopicError: a topic that was there has the wrong settings.
        UnreachableError: the brokers can't be used.
    """
    ran = groups_that_ran(connections, groups)
    topics = create(connections, wanted, replication_factor)
    found = checked(connections, wanted)
    ledger = wanted[1].topic
    first = survey(connections, scheme, ledger, 0)
    queues = first.terms.partitions if first.terms else found[ledger].partitions
    states = [first, *(survey(connections, scheme, ledger, partition) for partition in range(1, queues))]
    for state in states:
        if state.terms is not None:
            state.terms.require_service(scheme.name, ledger)
    empty = [partition for partition, state in enumerate(states) if state.terms is None]
    if not empty:
        return Made(tuple(topics), (), None)
    lost_at = _lost_at(beginning, ran, any(state.terms for state in states), ledger, now)
    for partition in empty:
        record = ledger_record(
            source=scheme.name, service=scheme.name, partitions=queues, lost_at=lost_at, partition=partition, at=now
        )
        writer = Writer(connections, ledger, found[ledger].topic_id, partition)
        try:
            writer.append([Record(record.key, record.value, tuple(record.headers), now // 1_000)])
        finally:
            writer.close()
    return Made(tuple(topics), tuple(empty), lost_at)


def _lost_at(beginning: Beginning, ran: Sequence[str], partly: bool, ledger: str, now: int) -> int | None:  # noqa: FBT001  # one of four findings
    """When the ledger was lost; None if there was none before."""
    if beginning is Beginning.LEDGER_LOST:
        return now
    if (ran or partly) and beginning is Beginning.UNSAID:
        reason = f"the consumer groups {', '.join(ran)} ran before" if ran else "some of its partitions have begun"
        raise LedgerError(
            f"the ledger {ledger} is empty, and {reason}. Say which it is: --first-start if nothing was ever "
            "published, or --ledger-lost if it was: all locations are then paused for a window"
        )
    return None
