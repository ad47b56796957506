"""What is looked at before anything is decided: the topics, the ledger, and what a person may have paid already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from monitor.connections import KafkaConnections
from monitor.errors import LedgerError, PeriodError
from monitor.operate.earlier_times import EarlierTimes
from monitor.operate.topics import FoundTopic, TopicNeeds, checked
from monitor.privacy.epsilon import format_epsilon
from monitor.privacy.over_time import OverTimeRule, extended
from monitor.privacy.payments import Holding, ends, fits_at, total_excess
from monitor.release.ledger import first_offset, read_partition
from monitor.release.state import LedgerState, Terms
from monitor.scheme import Scheme
from monitor.times import format_instant


@dataclass(frozen=True, slots=True)
class Found:
    """What was found: the topics by name, the ledger's terms, and the state of each of its Q partitions."""

    topics: Mapping[str, FoundTopic]
    terms: Terms
    states: tuple[LedgerState, ...]


def look(connections: KafkaConnections, scheme: Scheme, wanted: Sequence[TopicNeeds], ledger_topic: str) -> Found:
    """Check the topics and read the ledger.

    Raises:
        TopicError: a topic is missing or has the wrong settings.
        LedgerError: the ledger is uninitialised, has expired, is another service's, or was cut differently.
        UnreachableError: the brokers can't tell.
    """
    topics = checked(connections, wanted)
    first = survey(connections, scheme, ledger_topic, 0)
    terms = initialised(first, connections, ledger_topic, 0, scheme)
    if terms.partitions > topics[ledger_topic].partitions:
        raise LedgerError(
            f"{ledger_topic} has {topics[ledger_topic].partitions} partitions, and its first record says "
            f"{terms.partitions}: the ledger was lost in part; run `location-monitor topics --create --ledger-lost`"
        )
    others = [survey(connections, scheme, ledger_topic, partition) for partition in range(1, terms.partitions)]
    for partition, state in enumerate(others, start=1):
        initialised(state, connections, ledger_topic, partition, scheme)
    states = (first, *others)
    _check_places(scheme, states)
    return Found(topics, terms, states)


def survey(connections: KafkaConnections, scheme: Scheme, topic: str, partition: int) -> LedgerState:
    """The state that one ledger partition holds now, read without taking it over."""
    state = LedgerState()
    for offset, record in read_partition(connections, topic, partition):
        if state.records == 0 and offset > 0:
            state.expired_until = record.timestamp_ms * 1_000
        state.fold(record, scheme.slots)
    return state


def initialised(state: LedgerState, connections: KafkaConnections, topic: str, partition: int, scheme: Scheme) -> Terms:
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
    state.terms.require_service(scheme.name, topic)
    return state.terms


def _check_places(scheme: Scheme, states: Sequence[LedgerState]) -> None:
    """A location's marks lie in the partition of its shard: another number of shards must not move them away."""
    for partition, state in enumerate(states):
        named = {location for _monitor, location in state.marks}
        named.update(location for known in state.noisy.values() for location in known)
        for location in named & scheme.registry.rows.keys():
            shard = int(scheme.registry.shard[scheme.registry.rows[location]])
            if shard % len(states) != partition:
                raise LedgerError(
                    f"service.shards is {scheme.registry.shards}, which would move locations to other partitions of "
                    f"the ledger, away from what they have spent: with {len(states)} ledger partitions keep the number "
                    "of shards, or change it between multiples of that number"
                )


def check_marks(
    scheme: Scheme,
    states: Sequence[LedgerState],
    stated: Fraction,
    worst: Fraction,
    tick: int,
    period: int | None = None,
) -> None:
    """Refuse a configuration that, together with what was published before, may charge more than it states (section 6).

    `stated` is what one person may pay in the period, `worst` the configuration's own worst case; `states` those of all
    partitions. `period` in microseconds; without it, answers about designated times count for as long as the ledger
    tells of them.

    Raises:
        PeriodError: with the sum, and the time at which it would fit.
    """
    rules = _rules(scheme)
    holdings = [_holding(rules.get(key), state, key) for state in states for key in state.marks]
    times = EarlierTimes(scheme, states, period)

    def excess_at(moment: int) -> Fraction:
        return total_excess(holdings, moment) + times.excess(moment)

    excess = excess_at(tick)
    if worst + excess <= stated:
        return
    fits = fits_at(stated - worst, excess_at, ends(holdings).union(times.changes()), tick)
    when = "" if fits is None else f". It would fit from {format_instant(scheme.slots.start(fits))} on"
    raise PeriodError(
        f"privacy.epsilon is {format_epsilon(stated)}, and one person may pay {format_epsilon(worst)} under this "
        f"configuration and {format_epsilon(excess)} more by answers that were published under an earlier one: "
        f"{format_epsilon(worst)} + {format_epsilon(excess)} = {format_epsilon(worst + excess)}, which is "
        f"{format_epsilon(worst + excess - stated)} too much. Keep the earlier configuration, or state more{when}"
    )


def _rules(scheme: Scheme) -> dict[tuple[str, str], OverTimeRule]:
    return {
        (monitor.name, scheme.registry.ids[row]): rule
        for monitor in scheme.over_time
        for row, rule in zip(monitor.rows, monitor.rules, strict=True)
    }


def _holding(rule: OverTimeRule | None, state: LedgerState, key: tuple[Any, Any]) -> Holding:
    marks = state.marks_of(*key)
    if rule is None:
        return Holding(Fraction(0), marks)
    return Holding(rule.epsilon, extended(rule, marks))
