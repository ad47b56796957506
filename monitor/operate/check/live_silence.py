"""Compute which answers a configuration could not give after a takeover now: pauses, and facts that are missing."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.kinds.base.monitor import Monitor
from monitor.kinds.parameters import Parameters
from monitor.ledger.ledger_state import LedgerState
from monitor.operate.check.live_report import Silence
from monitor.privacy.over_time import OverTimeRule, find_next_answer_tick, may_answer


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
