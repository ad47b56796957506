"""Derives the parameters of the service from a configuration and a registry."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.config.monitors import AtTimesMonitor, DwellMonitor, HotSpotsMonitor, OverTimeMonitor
from monitor.config.registry import Location
from monitor.config.whole_config import Config
from monitor.config.worst_case import compute_max_lead
from monitor.kinds.parameters import AtTimes, Dwell, HotSpots, OverTime, Parameters, Registry
from monitor.privacy.dwell import DwellRule
from monitor.privacy.over_time import OverTimeRule
from monitor.time.instants import SECOND
from monitor.time.schedule import Schedule
from monitor.time.slot_grid import SlotGrid


def derive_parameters(config: Config, locations: Sequence[Location]) -> Parameters:
    """Return the parameters. Every watched location must be in the registry (`find_unknown_locations`)."""
    registry = Registry(tuple(location.id for location in locations), config.service.shards)
    grid = SlotGrid(config.clock.origin, config.clock.slot)
    max_lead = compute_max_lead(config)
    return Parameters(
        name=config.service.name,
        grid=grid,
        accept_ahead=config.visits.accept_ahead // grid.length,
        max_lead=max_lead,
        default_stay=config.visits.default_stay,
        release_delay=config.clock.release_delay,
        tolerance=config.clock.tolerance,
        registry=registry,
        over_time=tuple(
            _derive_over_time(monitor, registry, grid, max_lead)
            for monitor in config.monitors
            if isinstance(monitor, OverTimeMonitor)
        ),
        at_times=tuple(_derive_at_times(monitor) for monitor in config.monitors if isinstance(monitor, AtTimesMonitor)),
        hot_spots=tuple(
            _derive_hot_spots(monitor) for monitor in config.monitors if isinstance(monitor, HotSpotsMonitor)
        ),
        period=config.privacy.period,
        dwell=tuple(_derive_dwell(monitor) for monitor in config.monitors if isinstance(monitor, DwellMonitor)),
    )


def _derive_over_time(monitor: OverTimeMonitor, registry: Registry, grid: SlotGrid, max_lead: int) -> OverTime:
    shares = monitor.compute_shares()
    rows = sorted(registry.rows[location] for location in shares)
    rules = {
        epsilon: OverTimeRule(
            epsilon=epsilon,
            answers=monitor.answers_per_window,
            threshold=monitor.threshold,
            window=monitor.window // grid.length,
            max_lead=max_lead,
        )
        for epsilon in set(shares.values())
    }
    return OverTime(monitor.name, tuple(rows), tuple(rules[shares[registry.ids[row]]] for row in rows))


def _derive_at_times(monitor: AtTimesMonitor) -> AtTimes:
    return AtTimes(
        monitor.name,
        Schedule.of(monitor.at, monitor.timezone),
        monitor.epsilon,
        monitor.threshold,
        monitor.reporting_horizon,
        None if monitor.at_least is None else monitor.at_least.epsilon,
    )


def _derive_hot_spots(monitor: HotSpotsMonitor) -> HotSpots:
    times = Schedule.of(monitor.at, monitor.timezone)
    return HotSpots(monitor.name, times, monitor.epsilon, monitor.top, monitor.reporting_horizon)


def _derive_dwell(monitor: DwellMonitor) -> Dwell:
    rule = DwellRule(monitor.epsilon, monitor.longest_visit // SECOND, monitor.visits_per_person)
    return Dwell(monitor.name, Schedule.of(monitor.at, monitor.timezone), rule, monitor.reporting_horizon)
