"""`location-monitor topics --create`: makes the topics, and writes the first record of each ledger partition.

The first record is what tells a new ledger from a lost one: without it nothing is decided. It may be interrupted at
any step: running it again goes on where it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from monitor.brokers.connections import KafkaConnections
from monitor.brokers.groups import known_groups
from monitor.brokers.topics import TopicNeeds, checked, create, existing
from monitor.contracts.alerts import ledger_record
from monitor.errors import FailedError, LedgerError
from monitor.failpoints import failpoint
from monitor.operate.preflight import read_ledger_partitions, read_ledger_states, require_shards
from monitor.public.clock import Clock
from monitor.public.instants import format_instant
from monitor.public.parameters import Parameters
from monitor.release.ledger import LedgerRecord, Writer, first_offset
from monitor.release.state import LedgerState
from monitor.windows.facts import Question
from monitor.windows.redis_client import RedisAddress, redis_client
from monitor.windows.redis_store import RedisWindows


class Beginning(Enum):
    """What a ledger without a first record is taken for."""

    UNSPECIFIED = "unspecified"
    FIRST_START = "first_start"
    LEDGER_LOST = "ledger_lost"


@dataclass(frozen=True, slots=True)
class SetupResult:
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
    parameters: Parameters,
    wanted: Sequence[TopicNeeds],
    beginning: Beginning,
    now: int,
    replication_factor: int | None = None,
    lost_by: int | None = None,
) -> SetupResult:
    """Make what is missing. Running it again changes nothing, or finishes what was interrupted.

    `wanted` are the needs of (visits, alerts, dead letters), `lost_by` an instant by which a lost ledger was lost
    (`date_ledger_loss`; `now` without it).

    Raises:
        LedgerError: the ledger is empty although groups of the service ran before, and nobody said which it is; or it
            is another service's; or the shards do not go with its partitions, and then nothing was made.
        TopicError: a topic that was there has the wrong settings; nothing was made.
        UnreachableError: the brokers can't be used.
    """
    ran = known_groups(connections, parameters.name)
    ledger = wanted[1].topic
    # Before anything is made: what can't be begun should leave nothing behind.
    before = existing(connections, wanted)
    known = read_ledger_states(connections, parameters, ledger, before[ledger].partitions) if ledger in before else None
    require_shards(parameters, _queues(known, ledger) if known else wanted[1].partitions)
    topics = create(connections, wanted, replication_factor)
    failpoint("setup.topics_created")
    found = checked(connections, wanted)
    there = known or read_ledger_states(connections, parameters, ledger, found[ledger].partitions)
    ledger_partitions = _queues(there, ledger)
    require_shards(parameters, ledger_partitions)
    states = there[:ledger_partitions]
    for state in states:
        if state.terms is not None:
            state.terms.require_service(parameters.name, ledger)
    empty = [partition for partition, state in enumerate(states) if state.terms is None]
    if not empty:
        return SetupResult(tuple(topics), (), None)
    lost_at = _lost_at(beginning, ran, _begun(connections, ledger, states), ledger, lost_by or now)
    for partition in empty:
        record = ledger_record(
            source=parameters.name,
            service=parameters.name,
            partitions=ledger_partitions,
            lost_at=lost_at,
            partition=partition,
            at=now,
            input_topic_id=found[wanted[0].topic].topic_id,
        )
        writer = Writer(connections, ledger, found[ledger].topic_id, partition)
        try:
            writer.append([LedgerRecord(record.key, record.value, tuple(record.headers), now // 1_000)])
        finally:
            writer.close()
        failpoint("setup.begun")
    return SetupResult(tuple(topics), tuple(empty), lost_at)


def _queues(states: Sequence[LedgerState], ledger: str) -> int:
    """Over how many partitions the ledger is, or will be, spread: all that there are, before it has begun."""
    return read_ledger_partitions(states, ledger) or len(states)


def redis_time(parameters: Parameters, address: RedisAddress) -> int:
    """What time it is by Redis, an instant.

    Raises:
        FailedError: it can't be asked.
    """
    windows = RedisWindows(parameters, "clock", redis_client(address))
    try:
        return windows.read({0: Question()})[0].time
    finally:
        windows.close()


def date_ledger_loss(clock: Clock, tolerance: int, store_time: Callable[[], int]) -> tuple[int, str]:
    """An instant by which a ledger that is lost now was lost, by the later of two clocks, and how it was found.

    By a slow clock alone, places would be answered again before all has run out that the lost ledger may have told.

    Args:
        clock: this machine's.
        tolerance: by how much clocks may differ, in microseconds.
        store_time: asks Redis for the time; the instances' answers are held to it. Raises a FailedError if it can't be.
    """
    try:
        told = store_time()
    except FailedError as error:
        by = clock.now() + tolerance
        return by, f"{format_instant(by)}, by this machine's clock alone: see that it is right ({error})"
    here = clock.now()
    by = max(here, told) + tolerance
    clocks = f"it is {format_instant(here)} here and {format_instant(told)} by Redis"
    return by, f"{format_instant(by)}: {clocks}, and clock.tolerance is added to the later"


@dataclass(frozen=True, slots=True)
class _Begun:
    """What some partitions say while others are empty: `interrupted` if nobody can have answered yet; what was lost."""

    partly: bool
    interrupted: bool
    lost_at: int | None


def _begun(connections: KafkaConnections, ledger: str, states: Sequence[LedgerState]) -> _Begun:
    """Tell a beginning that was interrupted from a ledger that was lost in part.

    Interrupted: some partitions hold their first record alone, the others never held any. A partition that lost its
    records begins above offset 0, and one that ever answered holds its owner's record too.
    """
    begun = [state.terms for state in states if state.terms is not None]
    lost = [terms.lost_at for terms in begun if terms.lost_at is not None]
    untouched = all(state.records == (state.terms is not None) for state in states) and not any(
        first_offset(connections, ledger, partition) for partition in range(len(states))
    )
    return _Begun(bool(begun), bool(begun) and untouched, max(lost, default=None))


def _lost_at(beginning: Beginning, ran: Sequence[str], begun: _Begun, ledger: str, lost_by: int) -> int | None:
    """When the ledger was lost; None if there was none before."""
    if beginning is Beginning.LEDGER_LOST:
        return lost_by
    if beginning is Beginning.FIRST_START:
        return None
    if not ran and begun.interrupted:
        return begun.lost_at
    if ran or begun.partly:
        reason = f"the consumer groups {', '.join(ran)} ran before" if ran else "some of its partitions have begun"
        raise LedgerError(
            f"the ledger {ledger} is empty, and {reason}. Say which it is: --first-start if nothing was ever "
            "published, or --ledger-lost if it was: all locations are then paused for a window"
        )
    return None
