"""What is looked at before anything is decided: the topics, the ledger, and what a person may have paid already."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from monitor.brokers.connections import KafkaConnections
from monitor.brokers.topics import FoundTopic, TopicNeeds, checked, risks
from monitor.contracts.record_sizes import place_bytes
from monitor.errors import LedgerError, TopicError
from monitor.privacy.over_time import OverTimeRule, extended, running
from monitor.public.parameters import Parameters
from monitor.release.ledger import first_offset, read_partition
from monitor.release.period_account import Account
from monitor.release.state import LedgerState, OwnerTerms
from monitor.release.survey import Survey

log = logging.getLogger(__name__)

NO_CLOCK: Final = 2**62
"""An instant after all others, where no clock is asked."""


@dataclass(frozen=True, slots=True)
class Preflight:
    """What was found: the topics by name, the ledger's terms, and the state of each of its Q partitions.

    `survey` reads on from there.
    """

    topics: Mapping[str, FoundTopic]
    terms: OwnerTerms
    states: tuple[LedgerState, ...]
    survey: Survey


def run_preflight(
    connections: KafkaConnections,
    parameters: Parameters,
    wanted: Sequence[TopicNeeds],
    ledger_topic: str,
    now: Callable[[], int] = lambda: NO_CLOCK,
) -> Preflight:
    """Check the topics and read the ledger. `now`: the present instant, by a clock that is not ahead.

    Raises:
        TopicError: a topic is missing or has the wrong settings.
        LedgerError: the ledger is uninitialised, has expired, is another service's, was cut differently, or the number
            of shards doesn't go with it.
        UnreachableError: the brokers can't tell.
    """
    topics = checked(connections, wanted)
    for warning in risks(wanted, topics):
        log.warning("%s", warning)
    survey = Survey(connections, parameters, ledger_topic, topics[ledger_topic].partitions, now)
    survey.refresh()
    states = survey.states
    ledger_partitions = read_ledger_partitions(states, ledger_topic) or 1
    terms = [
        require_initialised(state, connections, ledger_topic, partition, parameters)
        for partition, state in enumerate(states[:ledger_partitions])
    ]
    require_shards(parameters, ledger_partitions)
    require_room(parameters, states[:ledger_partitions], ledger_topic, topics[ledger_topic].settings)
    return Preflight(topics, terms[0], states[:ledger_partitions], survey)


def read_ledger_states(
    connections: KafkaConnections, parameters: Parameters, topic: str, partitions: int
) -> list[LedgerState]:
    """The state of each partition of the ledger's topic, of those too that are no part of the ledger."""
    return [read_ledger_state(connections, parameters, topic, partition) for partition in range(partitions)]


def read_ledger_partitions(states: Sequence[LedgerState], topic: str) -> int | None:
    """Q, by the first record of any partition that still has one; None if none has.

    Raises:
        LedgerError: they don't agree, so that places would be answered from two partitions, or from none; or there
            are fewer partitions than that.
    """
    said = sorted({state.terms.partitions for state in states if state.terms is not None})
    if len(said) > 1:
        raise LedgerError(
            f"the first records of {topic} differ in how many partitions the ledger has ({', '.join(map(str, said))}): "
            "expected one number, or places are answered from two partitions; begin a new kafka.topics.alerts with "
            "`location-monitor topics --create --ledger-lost`"
        )
    if said and said[0] > len(states):
        raise LedgerError(
            f"{topic} has {len(states)} partitions, and its first record says {said[0]}: the ledger was lost in part; "
            f"run `kafka-topics.sh --alter --topic {topic} --partitions {said[0]}`, then `location-monitor topics "
            "--create --ledger-lost`"
        )
    return said[0] if said else None


def require_shards(parameters: Parameters, ledger_partitions: int) -> None:
    """See that a location's ledger partition (shard mod Q) does not depend on how many shards there are.

    Raises:
        LedgerError: with the numbers that would do.
    """
    shards = parameters.registry.shards
    if shards % ledger_partitions == 0:
        return
    above = shards + ledger_partitions - shards % ledger_partitions
    would_do = f"{above - ledger_partitions} or {above}" if shards > ledger_partitions else f"{above}"
    raise LedgerError(
        f"service.shards is {shards}, which would move locations to other partitions of the ledger, away from what "
        f"they have spent: with {ledger_partitions} ledger partitions expected a multiple of "
        f"{ledger_partitions}, such as {would_do}"
    )


def require_room(
    parameters: Parameters, states: Sequence[LedgerState], topic: str, settings: Mapping[str, str]
) -> None:
    """See that each place's record fits the topic, with the answers of earlier configurations that it repeats.

    Raises:
        TopicError: with the size that would do.
    """
    rules, key = _rules(parameters), "max.message.bytes"
    held = (
        place_bytes(rule, (mark.epsilon for mark in running(extended(rule, state.marks_of(*place)), last)))
        for state in states
        for last in (state.last_tick or 0,)
        for place in state.marks
        for rule in (rules.get(place),)
        if rule is not None
    )
    largest = max(held, default=0)
    if largest > int(settings[key]):
        raise TopicError(
            f"kafka.topics.alerts is {topic!r}, whose {key} is {settings[key]}: expected at least {largest}, because "
            "a record repeats the answers that still count, those of earlier configurations too; change it with "
            f"`kafka-configs.sh --alter --topic {topic} --add-config {key}={largest}`"
        )


def read_ledger_state(
    connections: KafkaConnections, parameters: Parameters, topic: str, partition: int, now: int = NO_CLOCK
) -> LedgerState:
    """The state that one ledger partition holds now (an instant), read without taking it over."""
    state = LedgerState()
    for offset, record in read_partition(connections, topic, partition):
        state.read(offset, record, parameters.grid, now)
    return state


def require_initialised(
    state: LedgerState, connections: KafkaConnections, topic: str, partition: int, parameters: Parameters
) -> OwnerTerms:
    """The terms that the partition's records carry.

    Raises:
        LedgerError: there are none, or they are another service's.
    """
    if state.terms is None:
        if first_offset(connections, topic, partition) > 0:
            raise LedgerError(
                f"partition {partition} of {topic} is empty and begins above offset 0: all that was published has "
                "expired; run `location-monitor topics --create --ledger-lost`"
            )
        raise LedgerError(
            f"partition {partition} of {topic} has no first record, so what was spent is not known: run "
            "`location-monitor topics --create`"
        )
    state.terms.require_service(parameters.name, topic)
    return state.terms


def check_past_charges(
    parameters: Parameters, states: Sequence[LedgerState], stated: Fraction, worst: Fraction, tick: int
) -> None:
    """Refuse a configuration that, together with what was published before, may charge more than it states (section 6).

    Args:
        parameters: what is watched.
        states: what each of the ledger's partitions holds.
        stated: what one person may pay in a period.
        worst: what they may pay at most by the configuration alone.
        tick: the first one that may yet be decided.

    Raises:
        PeriodError: with the sum, and the time at which it would fit.
    """
    spent = {partition: state.spent() for partition, state in enumerate(states)}
    Account(parameters, worst, spent).require(stated, tick)


def _rules(parameters: Parameters) -> dict[tuple[str, str], OverTimeRule]:
    return {
        (monitor.name, parameters.registry.ids[row]): rule
        for monitor in parameters.over_time
        for row, rule in zip(monitor.rows, monitor.rules, strict=True)
    }
