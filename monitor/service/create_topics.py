"""`location-monitor topics --create`: create the topics, and write the first record of each ledger partition.

The first record distinguishes a new ledger from a lost one. The service decides nothing without it. If the command is
interrupted, run it again: it continues with the step where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum

from monitor.errors import FailedError, LedgerError
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.groups import list_groups
from monitor.kafka.topics import TopicNeeds, check_existing_topics, check_topics, create_topics
from monitor.kinds.parameters import Parameters
from monitor.ledger.append_to_ledger import Writer
from monitor.ledger.ledger_state import LedgerState
from monitor.ledger.read_ledger import LedgerReader, read_first_offset
from monitor.observe.failpoints import failpoint
from monitor.records.owner_record import make_ledger_record
from monitor.service.preflight import read_ledger, read_ledger_partitions, require_shards
from monitor.store.redis_client import RedisAddress, create_client, read_server_time
from monitor.time.clock import Clock
from monitor.time.instants import format_instant


class Beginning(Enum):
    """The reason why a ledger is empty, as stated by the operator."""

    UNSPECIFIED = "unspecified"
    FIRST_START = "first_start"
    LEDGER_LOST = "ledger_lost"


@dataclass(frozen=True, slots=True)
class SetupResult:
    """The created topics, the ledger partitions that got a first record, and when an earlier ledger was lost.

    `ledger_reader` has read the ledger as it was before the set-up, and can continue from there.
    """

    topics: tuple[str, ...]
    partitions: tuple[int, ...]
    lost_at: int | None
    ledger_reader: LedgerReader = field(compare=False)

    def __str__(self) -> str:
        """Return the result in words."""
        topics = f"created {', '.join(self.topics)}" if self.topics else "all topics existed"
        if not self.partitions:
            return f"{topics}; the ledger was initialised before"
        partitions = ", ".join(map(str, self.partitions))
        lost = f"; all ε counts as spent at {format_instant(self.lost_at)}" if self.lost_at is not None else ""
        return f"{topics}; initialised ledger partitions {partitions}{lost}"


def set_up(
    connections: KafkaConnections,
    parameters: Parameters,
    wanted: Sequence[TopicNeeds],
    beginning: Beginning,
    now: int,
    replication_factor: int | None = None,
    lost_by: int | None = None,
) -> SetupResult:
    """Create missing topics, and initialise the ledger. A repeated call completes the first, or changes nothing.

    Args:
        connections: the connections to Kafka.
        parameters: the watched locations and times.
        wanted: the needs of the topics of visits, alerts and dead letters, in this order.
        beginning: why the ledger is empty, if it is.
        now: the current instant.
        replication_factor: the replication factor of new topics; the brokers' default if None.
        lost_by: an instant at or after the loss of a lost ledger (see `date_ledger_loss`); `now` if None.

    Raises:
        LedgerError: the ledger or a part of it is empty although the service may have run before, and `beginning` is
            unspecified; or the ledger belongs to another service; or the number of shards does not fit its partitions,
            in which case nothing was created.
        TopicError: an existing topic has wrong settings. Nothing was created.
        UnreachableError: Kafka does not answer.
    """
    visits, ledger = wanted[0].topic, wanted[1].topic
    groups = list_groups(connections, parameters.name)
    existing = _check_before_creation(connections, parameters, wanted)
    created = create_topics(connections, wanted, replication_factor)
    failpoint("setup.topics_created")
    topics = check_topics(connections, wanted)
    reader = existing or read_ledger(connections, parameters, ledger, topics[ledger].partitions)
    states = reader.states[: _count_ledger_partitions(reader.states, wanted[1])]
    require_shards(parameters, len(states))
    for state in states:
        if state.terms is not None:
            state.terms.require_service(parameters.name, ledger)
    empty = [partition for partition, state in enumerate(states) if state.terms is None]
    if not empty:
        return SetupResult(tuple(created), (), None, reader)
    contents = _inspect_ledger(connections, ledger, states)
    lost_at = _find_loss_time(beginning, groups, contents, ledger, lost_by or now)
    for partition in empty:
        record = make_ledger_record(
            source=parameters.name,
            service=parameters.name,
            partitions=len(states),
            lost_at=lost_at,
            partition=partition,
            at=now,
            input_topic_id=topics[visits].topic_id,
        )
        with closing(Writer(connections, ledger, topics[ledger].topic_id, partition)) as writer:
            writer.append([record])
        failpoint("setup.begun")
    return SetupResult(tuple(created), tuple(empty), lost_at, reader)


def _check_before_creation(
    connections: KafkaConnections, parameters: Parameters, wanted: Sequence[TopicNeeds]
) -> LedgerReader | None:
    """Check existing topics and the shards before anything is created. Return the ledger's reader, if it exists."""
    ledger = wanted[1].topic
    topics = check_existing_topics(connections, wanted)
    if ledger not in topics:
        require_shards(parameters, wanted[1].partitions)
        return None
    reader = read_ledger(connections, parameters, ledger, topics[ledger].partitions)
    require_shards(parameters, _count_ledger_partitions(reader.states, wanted[1]))
    return reader


def _count_ledger_partitions(states: Sequence[LedgerState], ledger: TopicNeeds) -> int:
    """Return Q of an initialised ledger; the number of all partitions if the ledger is empty."""
    return read_ledger_partitions(states, ledger.topic, ledger.tool_options) or len(states)


def read_redis_time(address: RedisAddress) -> int:
    """Return the present instant according to Redis's clock.

    Raises:
        FailedError: Redis does not answer.
    """
    client = create_client(address)
    try:
        return read_server_time(client)
    finally:
        client.close()


def date_ledger_loss(clock: Clock, tolerance: int, store_time: Callable[[], int]) -> tuple[int, str]:
    """Return an instant at or after the loss of a ledger that is lost now, and an explanation.

    The instant is the later of two clocks plus the tolerance. If it came from one slow clock, locations would be
    answered again before all marks of the lost ledger have ended.

    Args:
        clock: this machine's clock.
        tolerance: the largest difference between clocks, in microseconds.
        store_time: returns the time of Redis, with which all instances compare their clocks. It raises FailedError if
            Redis does not answer.
    """
    try:
        redis_now = store_time()
    except FailedError as error:
        lost_by = clock.now() + tolerance
        return lost_by, f"{format_instant(lost_by)}, by this machine's clock alone: check that it is right ({error})"
    here = clock.now()
    lost_by = max(here, redis_now) + tolerance
    clocks = f"this machine's clock shows {format_instant(here)}, Redis's clock {format_instant(redis_now)}"
    return lost_by, f"{format_instant(lost_by)}: {clocks}; clock.tolerance is added to the later one"


@dataclass(frozen=True, slots=True)
class _LedgerContents:
    """The contents of a ledger in which some partitions lack their first record."""

    partly_initialised: bool
    """Other partitions have one."""
    interrupted: bool
    """An earlier set-up stopped between two partitions, so no answer was published yet."""
    lost_at: int | None
    """The latest time of loss in the first records."""


def _inspect_ledger(connections: KafkaConnections, ledger: str, states: Sequence[LedgerState]) -> _LedgerContents:
    """Distinguish an interrupted set-up from a ledger that was lost in part.

    After an interrupted set-up, some partitions contain only their first record, and the others never contained a
    record. A partition that lost its records begins above offset 0, and a partition with answers also contains an owner
    record.
    """
    terms = [state.terms for state in states if state.terms is not None]
    losses = [term.lost_at for term in terms if term.lost_at is not None]
    untouched = all(state.records == (state.terms is not None) for state in states) and not any(
        read_first_offset(connections, ledger, partition) for partition in range(len(states))
    )
    return _LedgerContents(bool(terms), bool(terms) and untouched, max(losses, default=None))


def _find_loss_time(
    beginning: Beginning, groups: Sequence[str], contents: _LedgerContents, ledger: str, lost_by: int
) -> int | None:
    """Return when an earlier ledger was lost; None if no ledger was lost."""
    if beginning is Beginning.LEDGER_LOST:
        return lost_by
    if beginning is Beginning.FIRST_START:
        return None
    if not groups and contents.interrupted:
        return contents.lost_at
    if groups or contents.partly_initialised:
        reason = (
            f"the consumer groups {', '.join(groups)} ran before" if groups else "only some partitions are initialised"
        )
        raise LedgerError(
            f"the ledger {ledger} has empty partitions, and {reason}: expected --first-start if no answer was ever "
            "published, or --ledger-lost if answers were published. --ledger-lost pauses the places of over_time "
            "monitors for the window plus visits.accept_ahead plus visits.default_stay, each in whole slots, and "
            "leaves designated times before now unknown"
        )
    return None
