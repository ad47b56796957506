"""The charges of a configuration, as owner records contain them (docs/rules.md, section 6)."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from monitor.contracts.charges import Charges, PlaceCharges, TimeCharges
from monitor.contracts.instants import format_duration, format_instant
from monitor.contracts.parameters import AtLeast, AtTimes, Charged, Dwell, HotSpots, OverTime, Parameters
from monitor.privacy.epsilon import format_epsilon

MAX_CHARGES_BYTES: Final = 64 * 1024
"""The size limit of encoded charges, in bytes. An owner record must fit the lowest allowed `max.message.bytes`."""

_DIGITS: Final = 16


_KINDS: Final[dict[type[Charged], str]] = {
    AtTimes: "at_times",
    HotSpots: "hot_spots",
    AtLeast: "at_least",
    Dwell: "dwell",
}


def declare_charges(parameters: Parameters) -> Charges:
    """Return the charges of a configuration; only their digest and F if they are too large for an owner record."""
    places = tuple(_declare_places(parameters, monitor) for monitor in parameters.over_time)
    times = tuple(declare_times(monitor) for monitor in parameters.charged)
    whole = msgspec.json.encode([parameters.max_lead, places, times])
    charges = Charges(hashlib.sha256(whole).hexdigest()[:_DIGITS], parameters.max_lead, places, times)
    if len(msgspec.json.encode(charges)) <= MAX_CHARGES_BYTES:
        return charges
    return Charges(charges.digest, parameters.max_lead)


def _declare_places(parameters: Parameters, monitor: OverTime) -> PlaceCharges:
    shares: dict[str, list[str]] = {}
    for row, rule in zip(monitor.rows, monitor.rules, strict=True):
        shares.setdefault(format_epsilon(rule.epsilon), []).append(parameters.registry.ids[row])
    sorted_shares = {epsilon: tuple(sorted(places)) for epsilon, places in sorted(shares.items())}
    return PlaceCharges(monitor.name, monitor.rules[0].answers, monitor.window, sorted_shares)


def declare_times(monitor: Charged) -> TimeCharges:
    """Return the charges of a monitor of designated times, or of the lower bounds of one."""
    times = monitor.times
    return TimeCharges(
        monitor=monitor.name,
        kind=_KINDS[type(monitor)],
        epsilon=format_epsilon(monitor.epsilon),
        horizon=format_duration(monitor.horizon),
        at=(*(at.isoformat() for at in sorted(times.daily)), *(format_instant(at) for at in times.instants)),
        timezone=None if times.zone is None else times.zone.key,
        # Another time zone database may map the zone's name to other instants.
        instants=times.digest()[:_DIGITS],
    )
