"""Compare the charges that an owner record states with those of a configuration (docs/rules.md, section 6)."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

from monitor.tools.audit.forms import Charges
from monitor.tools.audit.terms import AuditTerms, TimedTerms
from monitor.tools.audit.text import parse_duration


def match_charges(stated: Charges, terms: AuditTerms) -> bool:
    """Return whether charges are those of a configuration, as far as the owner stated them."""
    if stated.max_lead != terms.max_lead:
        return False
    return not stated.are_stated or _list_stated(stated) == _list_configured(terms)


def _list_stated(charges: Charges) -> Counter[Any]:
    listed: Counter[Any] = Counter()
    for place in charges.places or ():
        for share, locations in place.shares.items():
            facts = place.monitor, place.answers, place.window, Fraction(share)
            listed.update((*facts, location) for location in locations)
    for charged in charges.times or ():
        moments = charged.list_moments()
        zone = charged.timezone if any(isinstance(moment, str) for moment in moments) else None
        listed[charged.monitor, charged.kind, charged.epsilon, parse_duration(charged.horizon), zone, moments] += 1
    return listed


def _list_configured(terms: AuditTerms) -> Counter[Any]:
    listed: Counter[Any] = Counter()
    for watching in terms.over_time:
        facts = watching.name, watching.answers, watching.window
        listed.update((*facts, share, location) for location, share in watching.shares.items())
    charged: list[tuple[TimedTerms, str, Fraction]] = [
        *((monitor, "at_times", monitor.epsilon) for monitor in terms.at_times),
        *((monitor, "at_least", monitor.at_least) for monitor in terms.at_times if monitor.at_least is not None),
        *((monitor, "hot_spots", monitor.epsilon) for monitor in terms.hot_spots),
        *((monitor, "dwell", monitor.epsilon) for monitor in terms.dwell),
    ]
    for monitor, kind, epsilon in charged:
        moments: frozenset[int | str] = frozenset((*monitor.instants, *(at.isoformat() for at in monitor.daily)))
        zone = None if monitor.zone is None else monitor.zone.key
        listed[monitor.name, kind, epsilon, monitor.horizon, zone, moments] += 1
    return listed
