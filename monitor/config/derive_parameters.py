"""Derives the parameters of the service from a configuration and a registry."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.config.charges_of_monitors import compute_timing
from monitor.config.whole_config import Config
from monitor.kinds.all_kinds import KINDS
from monitor.kinds.locations import Registry
from monitor.kinds.parameters import Parameters
from monitor.time.slot_grid import SlotGrid


def derive_parameters(config: Config, ids: Sequence[str]) -> Parameters:
    """Return the parameters. `ids`: the registry's, with every watched location (`find_unknown_locations`)."""
    registry = Registry(ids, config.service.shards)
    grid = SlotGrid(config.clock.origin, config.clock.slot)
    timing, kinds = compute_timing(config), list(KINDS)
    in_order = sorted(config.monitors, key=lambda monitor: kinds.index(monitor.kind))
    return Parameters(
        name=config.service.name,
        grid=grid,
        accept_ahead=config.visits.accept_ahead // grid.length,
        max_lead=timing.max_lead,
        default_stay=config.visits.default_stay,
        release_delay=config.clock.release_delay,
        tolerance=config.clock.tolerance,
        registry=registry,
        monitors=tuple(monitor.derive(registry, timing) for monitor in in_order),
        period=config.privacy.period,
    )
