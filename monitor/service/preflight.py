"""Checks that run before any tick is decided: the topics, the ledger, and the ε that a person may already have paid."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from monitor.config.conditions_between_keys import find_nearest_multiples
from monitor.errors import LedgerError, TopicError
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.topics import (
    TopicDescription,
    TopicNeeds,
    check_topics,
    format_alter_command,
    list_partition_changes,
    list_risks,
)
from monitor.kinds.parameters import Parameters
from monitor.ledger.compute_payment import PeriodPayments
from monitor.ledger.ledger_state import LedgerState, OwnerTerms
from monitor.ledger.read_ledger import LedgerReader, read_first_offset

log = logging.getLogger(__name__)

NO_CLOCK: Final = 2**62
"""An instant later than all others. It is used where no clock is given."""


@dataclass(frozen=True, slots=True)
class Preflight:
    """The topics by name, the ledger's terms, and the state of each of the Q ledger partitions.

    `ledger_reader` has read these states; it can continue from them.
    """

    topics: Mapping[str, TopicDescription]
    terms: OwnerTerms
    states: tuple[LedgerState, ...]
    ledger_reader: LedgerReader

    def has_read(self, topic_id: str) -> bool:
        """Return whether an owner of the ledger has read the input topic of this id."""
        terms = [state.terms for state in self.states if state.terms is not None]
        return any(known.fingerprint and known.input_topic_id == topic_id for known in terms)


def run_preflight(
    connections: KafkaConnections,
    parameters: Parameters,
    wanted: Sequence[TopicNeeds],
    now: Callable[[], int] = lambda: NO_CLOCK,
    ledger_reader: LedgerReader | None = None,
) -> Preflight:
    """Check the topics and read the ledger.

    Args:
        connections: the connections to Kafka.
        parameters: the watched locations and times.
        wanted: the needs of the topics of visits, alerts and dead letters, in this order.
        now: returns the current instant; its clock must not be ahead.
        ledger_reader: has read the ledger before, and continues; None to read from the start.

    Raises:
        TopicError: a topic is missing or has the wrong settings.
        LedgerError: the ledger is uninitialised, has expired, belongs to another service, uses another slot grid, or
            does not fit the number of shards.
        UnreachableError: Kafka does not answer.
    """
    topics, ledger = check_topics(connections, wanted), wanted[1]
    for warning in list_risks(wanted, topics):
        log.warning("%s", warning)
    if ledger_reader is None:
        reader = read_ledger(connections, parameters, ledger.topic, topics[ledger.topic].partitions, now)
    else:
        reader = ledger_reader
        reader.refresh()
    states = reader.states
    options = ledger.tool_options
    ledger_partitions = read_ledger_partitions(states, ledger.topic, options) or 1
    terms = [
        require_initialised(state, connections, ledger.topic, partition, parameters)
        for partition, state in enumerate(states[:ledger_partitions])
    ]
    require_shards(parameters, ledger_partitions)
    require_room(parameters, states[:ledger_partitions], ledger.topic, topics[ledger.topic].settings, options)
    for warning in list_partition_changes(ledger, ledger_partitions):
        log.warning("%s", warning)
    return Preflight(topics, terms[0], states[:ledger_partitions], reader)


def read_ledger(
    connections: KafkaConnections,
    parameters: Parameters,
    topic: str,
    partitions: int,
    now: Callable[[], int] = lambda: NO_CLOCK,
) -> LedgerReader:
    """Read all partitions of the ledger's topic, including those outside the ledger. Return the reader, to continue."""
    reader = LedgerReader(connections, parameters, topic, range(partitions), now)
    reader.refresh()
    return reader


def read_ledger_partitions(states: Sequence[LedgerState], topic: str, options: str = "") -> int | None:
    """Return Q, the number of ledger partitions, from the first records of the partitions; None if there are none.

    `options`: how Kafka's tools reach the brokers, for the message.

    Raises:
        LedgerError: the first records differ in Q, so that locations would be answered from two partitions or from
            none; or the topic has fewer than Q partitions.
    """
    counts = sorted({state.terms.partitions for state in states if state.terms is not None})
    if len(counts) > 1:
        raise LedgerError(
            f"the first records of {topic} differ in the number of ledger partitions ({', '.join(map(str, counts))}): "
            "expected one number, because otherwise locations would be answered from two partitions. Create a new "
            "kafka.topics.alerts with `location-monitor topics --create --ledger-lost`"
        )
    if counts and counts[0] > len(states):
        raise LedgerError(
            f"{topic} has {len(states)} partitions: expected {counts[0]}, as in its first record, so a part of the "
            f"ledger is lost. Run `kafka-topics.sh{options} --alter --topic {topic} --partitions {counts[0]}`, then "
            "`location-monitor topics --create --ledger-lost`"
        )
    return counts[0] if counts else None


def require_shards(parameters: Parameters, ledger_partitions: int) -> None:
    """Check that the number of shards is a multiple of Q. Otherwise locations would move between partitions.

    Raises:
        LedgerError: the number is not a multiple. The message contains valid numbers.
    """
    shards = parameters.registry.shards
    if shards % ledger_partitions == 0:
        return
    candidates = " or ".join(map(str, find_nearest_multiples(shards, ledger_partitions)))
    raise LedgerError(
        f"service.shards is {shards}, which would move locations to other partitions of the ledger, away from the "
        f"record of their spent ε: for {ledger_partitions} ledger partitions, expected a multiple of "
        f"{ledger_partitions}, such as {candidates}"
    )


def require_room(
    parameters: Parameters,
    states: Sequence[LedgerState],
    topic: str,
    settings: Mapping[str, str],
    options: str = "",
) -> None:
    """Check that each record fits in the topic with the answers of earlier configurations that it repeats.

    `options`: how Kafka's tools reach the brokers, for the message.

    Raises:
        TopicError: a record may be too large. The message contains the required size.
    """
    key = "max.message.bytes"
    sizes = (
        monitor.measure_with_marks(parameters.registry, marks, state.last_tick or 0)
        for state in states
        for monitor in parameters.monitors
        for marks in ({place: state.find_marks(name, place) for name, place in state.marks if name == monitor.name},)
    )
    sizes_at_times = (
        monitor.measure_with_numbers(parameters.registry, state.times.noisy, parameters.grid.as_of(state.last_tick))
        for state in states
        if state.last_tick is not None
        for monitor in parameters.monitors
    )
    largest = max((*sizes, *sizes_at_times), default=0)
    if largest > int(settings[key]):
        raise TopicError(
            f"kafka.topics.alerts is {topic!r}, whose {key} is {settings[key]}: expected at least {largest}, because "
            "a record repeats the answers that still count, including those of earlier configurations. Run "
            f"{format_alter_command(options, topic, key, largest)}"
        )


def require_initialised(
    state: LedgerState, connections: KafkaConnections, topic: str, partition: int, parameters: Parameters
) -> OwnerTerms:
    """Return the terms of a partition's first record.

    Raises:
        LedgerError: the partition has no first record, or it belongs to another service.
    """
    if state.terms is None:
        if read_first_offset(connections, topic, partition) > 0:
            raise LedgerError(
                f"partition {partition} of {topic} is empty and begins above offset 0: its records have expired. Run "
                "`location-monitor topics --create --ledger-lost`"
            )
        raise LedgerError(
            f"partition {partition} of {topic} has no first record, so the spent ε is unknown. Run "
            "`location-monitor topics --create`"
        )
    state.terms.require_service(parameters.name, topic)
    return state.terms


def check_past_charges(
    parameters: Parameters, states: Sequence[LedgerState], stated: Fraction, worst: Fraction, tick: int
) -> None:
    """Refuse a configuration that, with earlier answers, may charge more than it states (docs/rules.md, section 6).

    Args:
        parameters: the watched locations and times.
        states: the state of each ledger partition.
        stated: the ε that one person may pay in a period.
        worst: the ε that one person may pay under the configuration alone.
        tick: the first tick that may still be decided.

    Raises:
        PeriodError: the sum is too large. The message contains the sum, and the time from which it would fit.
    """
    create_payments(parameters, states, worst).require(stated, tick)


def create_payments(parameters: Parameters, states: Sequence[LedgerState], worst: Fraction) -> PeriodPayments:
    """Return the payments that one person may make, given the state of each ledger partition."""
    return PeriodPayments(
        parameters, worst, {partition: state.summarize_spent() for partition, state in enumerate(states)}
    )
