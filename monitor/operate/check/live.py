"""`location-monitor check --live`: a dry run of a configuration against the ledger and the topics that exist.

It calls the functions that `run` calls, in the same order, and only reads: it opens no transaction, joins no group and
writes nothing to Redis. So it cannot check the rights to write, as `run` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace

from monitor.errors import FailedError, MonitorError, RefusedError
from monitor.ingest.offsets import InputOffsets
from monitor.ingest.start_offsets import CONTINUES, StartOffsets
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.groups import list_member_ids, name_release_group
from monitor.kafka.topics import TopicDescription, TopicNeeds, list_partition_changes, list_risks
from monitor.kinds.base.keys_and_parameters import Monitor
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START
from monitor.kinds.parameters import Parameters
from monitor.ledger.compute_payment import declare_charges
from monitor.ledger.ledger_state import LedgerState
from monitor.operate.check.live_report import (
    Facts,
    LiveReport,
    PartitionStart,
    PeriodPayment,
    Refusal,
    Silence,
    TopicSummary,
)
from monitor.privacy.over_time import OverTimeRule, find_next_answer_tick, may_answer
from monitor.service.keep_running import check_clock
from monitor.service.preflight import Preflight, check_past_charges, create_payments, run_preflight
from monitor.service.wiring import Settings, create_store, make_ledger_topic
from monitor.store.redis_store import RedisStore
from monitor.ticks.check_payment_in_period import PeriodLimits, TakeoverRules
from monitor.ticks.input_topic import InputTopic
from monitor.ticks.owner import OwnerRecords
from monitor.ticks.rollout import compute_version, read_member_versions
from monitor.time.clock import Clock

NO_KEY = "the person key could not be read, and without it the facts in Redis cannot be found"


def check_live(
    settings: Settings, clock: Clock, *, has_key: bool = True, store_clock: Callable[[], int] | None = None
) -> LiveReport:
    """Return what `run` would decide now.

    Args:
        settings: the new configuration.
        clock: the clock of this machine.
        has_key: whether the settings have the real person key. Without it, the facts in Redis cannot be found.
        store_clock: a clock in place of that of Redis, for a replay.
    """
    report = LiveReport(clock.now())
    try:
        found = run_preflight(settings.kafka, settings.parameters, settings.needs, clock.now)
        report = _describe_servers(report, settings, found)
        _read_ends(settings, found)
        report = _check_payment(report, settings, found)
        report = _count_members(report, settings, found, has_key=has_key)
    except (RefusedError, FailedError) as error:
        return _note(report, error)
    return _look_at_facts(report, settings, clock, found, store_clock, has_key=has_key)


def _note(report: LiveReport, error: MonitorError) -> LiveReport:
    """Add an error to the report: a refusal, or an obstacle, after which `run` would try again."""
    if isinstance(error, RefusedError):
        return replace(report, refusals=(*report.refusals, Refusal(type(error).__name__, str(error))))
    return replace(report, obstacles=(*report.obstacles, str(error)))


def _describe_servers(report: LiveReport, settings: Settings, found: Preflight) -> LiveReport:
    needs, grid = settings.needs, settings.parameters.grid
    ticks = [state.last_tick for state in found.states if state.last_tick is not None]
    return replace(
        report,
        warnings=(*list_risks(needs, found.topics), *list_partition_changes(needs[1], found.terms.partitions)),
        topics=tuple(_describe_topic(need, found.topics[need.topic]) for need in needs),
        ledger_partitions=found.terms.partitions,
        last_answers=grid.as_of(max(ticks)) if ticks else None,
    )


def _describe_topic(need: TopicNeeds, topic: TopicDescription) -> TopicSummary:
    retention = topic.settings.get("retention.ms", "")
    return TopicSummary(need.config_key, need.topic, topic.partitions, topic.replicas, retention)


def _check_payment(report: LiveReport, settings: Settings, found: Preflight) -> LiveReport:
    """Add what one person may pay, and the refusal of `run` if it is too much."""
    parameters, stated, worst = settings.parameters, settings.config.privacy.epsilon, settings.worst
    tick = parameters.grid.find_slot(report.at) - 1  # as in `monitor.service.keep_running.prepare`
    payments = create_payments(parameters, found.states, worst)
    total = payments.compute_total(tick)
    fits_from = None if total <= stated else payments.find_fitting_tick(stated, tick)
    cost = PeriodPayment(
        stated,
        worst,
        total,
        payments.attribute_to_monitors(tick) if total > worst else {},
        None if fits_from is None else parameters.grid.start(fits_from),
        _fences_others(parameters, PeriodLimits(stated, worst), found, tick),
    )
    report = replace(report, cost=cost)
    try:
        check_past_charges(parameters, found.states, stated, worst, tick)
    except RefusedError as error:
        return _note(report, error)
    return report


def _fences_others(parameters: Parameters, limits: PeriodLimits, found: Preflight, tick: int) -> bool | None:
    """Return whether the first takeover fences the owners that have other charges; None if there are no such owners."""
    rules = TakeoverRules(parameters, limits, declare_charges(parameters))
    spent = {partition: state.summarize_spent() for partition, state in enumerate(found.states)}
    spent[0] = replace(spent[0], owned=True, charges=rules.charges)
    others = rules.find_others(spent)
    return not rules.fits_with(spent, others, tick) if others else None


def _count_members(report: LiveReport, settings: Settings, found: Preflight, *, has_key: bool) -> LiveReport:
    """Add the members of the release group, and how many of them have another configuration or person key."""
    group = name_release_group(settings.parameters.name)
    with settings.kafka.translate_errors(), closing(settings.kafka.create_admin()) as admin:
        versions = read_member_versions(settings.kafka.client_id, list_member_ids(admin, group))
    if not has_key:
        return replace(report, members=len(versions))
    version = compute_version(settings.parameters, settings.compute_fingerprint(found))
    return replace(report, members=len(versions), other_members=sum(other != version for other in versions))


def _read_ends(settings: Settings, found: Preflight) -> None:
    """Ask the leaders for the ends of their logs, as each tick does. Another broker than Apache Kafka may refuse it.

    Raises:
        UnreachableError: a leader does not answer, or does not know the request.
    """
    visits, alerts = (
        (topic, found.topics[topic].topic_id)
        for topic in (settings.config.kafka.topics.visits, settings.config.kafka.topics.alerts)
    )
    with closing(InputTopic(settings.kafka, *visits, alerts)) as topic:
        topic.read_end_offsets()


def _look_at_facts(
    report: LiveReport,
    settings: Settings,
    clock: Clock,
    found: Preflight,
    store_clock: Callable[[], int] | None,
    *,
    has_key: bool,
) -> LiveReport:
    """Add what would be read again, and which answers would be missing. Without the facts in Redis, add only pauses."""
    now, grid, complete_from = report.at, settings.parameters.grid, COMPLETE_FROM_START
    try:
        with closing(create_store(settings, found, store_clock)) as store:
            report = _check_store(report, settings, store, clock)
            now = store.time()
            if has_key:
                facts = _plan_facts(settings, found, store)
                report, complete_from = replace(report, facts=facts), grid.find_slot(facts.complete_from)
            else:
                report = replace(report, facts_unknown=NO_KEY)
    except (RefusedError, FailedError) as error:
        if str(error) not in report.obstacles:
            report = _note(report, error)
        report = replace(report, facts_unknown=str(error))
    complete_from = max(complete_from, _find_input_since(settings, found, now))
    silences = find_silences(settings.parameters, found.states, grid.find_slot(now), complete_from)
    return replace(report, silences=silences)


def _check_store(report: LiveReport, settings: Settings, store: RedisStore, clock: Clock) -> LiveReport:
    """Add the error that `run` would report about the eviction policy or the clock of Redis, if any."""
    try:
        store.require_no_eviction()
        check_clock(store, clock, settings.parameters.tolerance)
    except (RefusedError, FailedError) as error:
        return _note(report, error)
    return report


def _plan_facts(settings: Settings, found: Preflight, store: RedisStore) -> Facts:
    parameters, topic = settings.parameters, settings.config.kafka.topics.visits
    visits = found.topics[topic]
    read_before = found.has_read(visits.topic_id)
    with closing(
        InputProbe(settings.kafka, topic, visits.topic_id, parameters.name, read_before=read_before)
    ) as source:
        partitions, complete_from = plan_starts(parameters, source, store, visits.partitions)
    exist = any(store.read_progress())
    return Facts(settings.compute_fingerprint(found), exist, partitions, parameters.grid.start(complete_from))


def _find_input_since(settings: Settings, found: Preflight, now: int) -> int:
    """Return the slot from which the input is complete, as the next owner records would state it."""
    records = OwnerRecords(make_ledger_topic(settings, found, now), settings.parameters, lambda: now)
    since = [records.update_terms(state.terms, partition).input_since for partition, state in enumerate(found.states)]
    return max((slot for slot in since if slot is not None), default=COMPLETE_FROM_START)


class InputProbe(InputOffsets):
    """The input topic, read without a group, so that nothing is recorded. The caller must `close` it. Not thread-safe.

    Raises:
        UnreachableError: (any method) Kafka does not answer.
    """

    def __init__(
        self, connections: KafkaConnections, topic: str, topic_id: str, service: str, *, read_before: bool = False
    ) -> None:
        super().__init__(connections, topic, topic_id, service, read_before=read_before)
        self._consumer = connections.create_consumer(isolation_level="read_committed")

    def close(self) -> None:
        """Close the consumers."""
        self.close_single()
        self._consumer.close(autocommit=False)


def plan_starts(
    parameters: Parameters, source: InputProbe, store: RedisStore, partitions: int
) -> tuple[tuple[PartitionStart, ...], int]:
    """Return what a new instance would read of each input partition, and the slot from which its facts are complete.

    Args:
        parameters: the parameters of the new configuration.
        source: the input topic.
        store: the facts of this configuration.
        partitions: the number of input partitions.

    Raises:
        UnreachableError: a server does not answer.
    """
    stored, starts = store.read_shards(), StartOffsets(parameters, source, store)
    progress = [shard.progress for shard in stored]
    complete_from = max(shard.complete_from for shard in stored)
    planned = []
    for partition in range(partitions):
        start = starts.find(partition, progress)
        if start.cause != CONTINUES:
            complete_from = max(complete_from, start.complete_from)
        planned.append(PartitionStart(partition, start.offset, source.read_bounds(partition)[1], start.cause))
    return tuple(planned), complete_from


def find_silences(
    parameters: Parameters, states: Sequence[LedgerState], tick: int, complete_from: int
) -> tuple[Silence, ...]:
    """Return what each monitor could not answer: in the order of the parameters.

    Args:
        parameters: the parameters of the new configuration.
        states: the state of each of the Q ledger partitions.
        tick: the first tick after the takeover.
        complete_from: the slot from which the facts of all shards are then complete.
    """
    return tuple(
        _find_silent_places(parameters, monitor, states, tick, complete_from)
        if monitor.scope == "place"
        else _find_unknown_times(parameters, monitor, states, tick, complete_from)
        for monitor in parameters.monitors
    )


def _find_silent_places(
    parameters: Parameters, monitor: Monitor, states: Sequence[LedgerState], tick: int, complete_from: int
) -> Silence:
    grid, registry, rules = parameters.grid, parameters.registry, monitor.list_rules(parameters.registry)
    paused = [
        (resumes_at, was_running)
        for place, rule in rules.items()
        for state in (states[int(registry.shard[registry.rows[place]]) % len(states)],)
        for resumes_at, was_running in _find_pause(parameters, rule, state, (monitor.name, place), tick)
    ]
    first_known = monitor.find_first_known(complete_from)
    resumes = sorted(resumes_at for resumes_at, _was_running in paused)
    return Silence(
        monitor.name,
        monitor.kind,
        places=len(monitor.needed.rows),
        paused=len(paused),
        longer=sum(not was_running for _resumes_at, was_running in paused),
        first_resumes=grid.as_of(resumes[0]) if resumes else None,
        last_resumes=grid.as_of(resumes[-1]) if resumes else None,
        unknown_until=grid.as_of(first_known - 1) if first_known > tick else None,
    )


def _find_pause(
    parameters: Parameters, rule: OverTimeRule, state: LedgerState, place: tuple[str, str], tick: int
) -> list[tuple[int, bool]]:
    """Return, for a paused place, the tick at which it can answer, and whether its published marks alone pause it.

    The list is empty if the place is not paused. Published marks run until their `until`; a longer window or lead
    lengthens them.
    """
    marks = state.find_marks(*place)
    lost_tick = None if state.lost_at is None else parameters.grid.find_slot(state.lost_at)
    if not marks and lost_tick is None:
        return []
    if may_answer(rule, marks, tick, lost_tick):
        return []
    published = tuple(mark for mark in marks if mark.until >= tick)
    was_running = lost_tick is not None or not may_answer(rule, published, tick)
    return [(find_next_answer_tick(rule, marks, tick, lost_tick), was_running)]


def _find_unknown_times(
    parameters: Parameters, monitor: Monitor, states: Sequence[LedgerState], tick: int, complete_from: int
) -> Silence:
    """Return before which instant designated times stay unknown: facts are incomplete, or the ledger was lost."""
    grid = parameters.grid
    lost = max((state.lost_at for state in states if state.lost_at is not None), default=None)
    known_from = grid.start(complete_from)
    known_from = known_from if lost is None else max(known_from, lost)
    as_of = grid.as_of(tick)
    unknown = any(
        any(time < known_from for time in charged.list_live_times(as_of))
        or (known_from > as_of and charged.times.find_between(as_of, known_from).size > 0)
        for charged in monitor.charged_times
    )
    return Silence(monitor.name, monitor.kind, times_unknown_before=known_from if unknown else None)
