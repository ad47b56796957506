"""What a scheme may charge, in the form in which owner records carry it (docs/rules.md, section 6)."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from monitor.contracts.charges import Charges, PlaceCharges, TimeCharges
from monitor.privacy.epsilon import format_epsilon
from monitor.public.instants import format_duration, format_instant
from monitor.public.parameters import AtTimes, OverTime, Parameters, Timed

LARGEST: Final = 64 * 1024
"""The most bytes of charges that are told in full: an owner record fits the least that the topic must take."""

_DIGITS: Final = 16


def declare_charges(parameters: Parameters) -> Charges:
    """What a scheme may charge, with the digest alone where the rest is too long for a record."""
    places = tuple(_places(parameters, monitor) for monitor in parameters.over_time)
    times = tuple(declare_times(monitor) for monitor in parameters.timed)
    whole = msgspec.json.encode([parameters.max_lead, places, times])
    told = Charges(hashlib.sha256(whole).hexdigest()[:_DIGITS], parameters.max_lead, places, times)
    if len(msgspec.json.encode(told)) <= LARGEST:
        return told
    return Charges(told.digest, parameters.max_lead)


def _places(parameters: Parameters, monitor: OverTime) -> PlaceCharges:
    shares: dict[str, list[str]] = {}
    for row, rule in zip(monitor.rows, monitor.rules, strict=True):
        shares.setdefault(format_epsilon(rule.epsilon), []).append(parameters.registry.ids[row])
    told = {epsilon: tuple(sorted(places)) for epsilon, places in sorted(shares.items())}
    return PlaceCharges(monitor.name, monitor.rules[0].answers, monitor.window, told)


def declare_times(monitor: Timed) -> TimeCharges:
    """What a monitor of designated times may charge."""
    times = monitor.times
    return TimeCharges(
        monitor=monitor.name,
        kind="at_times" if isinstance(monitor, AtTimes) else "hot_spots",
        epsilon=format_epsilon(monitor.epsilon),
        horizon=format_duration(monitor.horizon),
        at=(*(at.isoformat() for at in sorted(times.daily)), *(format_instant(at) for at in times.instants)),
        timezone=None if times.zone is None else times.zone.key,
        # A zone's name means other instants where an image brings other rules.
        instants=times.digest()[:_DIGITS],
    )
