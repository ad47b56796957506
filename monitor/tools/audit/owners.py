"""Read owner and start records strictly (docs/interface.md, section 4)."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import time
from fractions import Fraction
from typing import Final, NamedTuple

from monitor.tools.audit.fields import Fields, FormError, check_texts, parse_recorded_epsilon
from monitor.tools.audit.records import PublishedRecord
from monitor.tools.audit.terms import AuditTerms, Grid, TimedTerms
from monitor.tools.audit.text import parse_duration, parse_instant

_DIGEST: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)
_TIMED_KINDS: Final = ("at_times", "hot_spots", "at_least", "dwell")
_LEDGER: Final = 1


class LocationCharges(NamedTuple):
    """The charges of an `over_time` monitor: k, W (in slots), and ε_l by location, sorted."""

    monitor: str
    answers: int
    window: int
    shares: tuple[tuple[str, Fraction], ...]


class TimeCharges(NamedTuple):
    """The charges of a monitor of designated times. `horizon` is in microseconds; `zone` is empty without `daily`."""

    monitor: str
    kind: str
    epsilon: Fraction
    horizon: int
    zone: str
    daily: tuple[str, ...]
    instants: tuple[int, ...]


class Charges(NamedTuple):
    """The charges of a configuration, sorted. `max_lead` is F. `places` or `times` is None if it was too long."""

    max_lead: int
    places: list[LocationCharges] | None
    times: list[TimeCharges] | None

    @property
    def are_stated(self) -> bool:
        """Whether the owner did not leave any out."""
        return self.places is not None and self.times is not None

    def match(self, terms: AuditTerms) -> bool:
        """Return whether these are the charges of a configuration, as far as they are stated."""
        return self == list_charges(terms) if self.are_stated else self.max_lead == terms.max_lead


def list_charges(terms: AuditTerms) -> Charges:
    """Return the charges of a configuration."""
    places = [
        LocationCharges(monitor.name, monitor.answers, monitor.window, tuple(sorted(monitor.shares.items())))
        for monitor in terms.over_time
    ]
    charged: list[tuple[TimedTerms, str, Fraction]] = [
        *((monitor, "at_times", monitor.epsilon) for monitor in terms.at_times),
        *((monitor, "at_least", monitor.at_least) for monitor in terms.at_times if monitor.at_least is not None),
        *((monitor, "hot_spots", monitor.epsilon) for monitor in terms.hot_spots),
        *((monitor, "dwell", monitor.epsilon) for monitor in terms.dwell),
    ]
    times = [
        TimeCharges(
            monitor=monitor.name,
            kind=kind,
            epsilon=epsilon,
            horizon=monitor.horizon,
            zone="" if monitor.zone is None else monitor.zone.key,
            daily=tuple(sorted(at.isoformat() for at in monitor.daily)),
            instants=tuple(sorted(monitor.instants)),
        )
        for monitor, kind, epsilon in charged
    ]
    return Charges(terms.max_lead, sorted(places), sorted(times))


@dataclass(frozen=True, slots=True)
class OwnerFacts:
    """The facts of an owner or start record.

    `fingerprint` names the settings that decide facts; it is empty in a start record. `lost_at` is an instant.
    `charges` is None if the owner did not state any, and `tick` if the record is not about a tick.
    """

    fingerprint: str
    partitions: int
    input_topic_id: str
    lost_at: int | None
    charges: Charges | None
    tick: int | None


def read_owner(record: PublishedRecord, services: Collection[str], grid: Grid) -> OwnerFacts:
    """Read an owner or start record. `services`: the names that the record may give its service.

    Raises:
        FormError: the record is not in the form of docs/interface.md.
    """
    if not record.strict:
        raise FormError("expected strict JSON")
    fields = Fields(record.value)
    if fields.read_text("service") not in services:
        raise FormError("service: expected the name in the configuration")
    is_owner = record.kind == "owner"
    if is_owner:
        _check_owner(fields)
    else:
        fields.read_whole("ledger", _LEDGER, _LEDGER)
    fields.get("lost_at")
    return OwnerFacts(
        fingerprint=fields.read_text("fingerprint") if is_owner else "",
        partitions=fields.read_whole("partitions", 1),
        input_topic_id=fields.read_text("input_topic_id"),
        lost_at=fields.read_optional("lost_at", fields.read_instant),
        charges=fields.read_optional("charges", lambda name: _read_charges(fields.read_object(name)))
        if is_owner
        else None,
        tick=fields.read_optional("tick", lambda name: fields.read_tick(name, grid)) if is_owner else None,
    )


def _check_owner(fields: Fields) -> None:
    """Check the fields of owner records that the audit does not use."""
    fields.get("input_since")
    fields.read_optional("input_since", fields.read_whole)
    fields.read_whole("input_partitions", 0)


def _read_charges(fields: Fields) -> Charges:
    _check_digest(fields, "digest")
    for name in ("places", "times"):
        fields.get(name)
    places = fields.read_optional("places", fields.read_objects)
    times = fields.read_optional("times", fields.read_objects)
    if len({place.read_text("monitor") for place in places or ()}) < len(places or ()):
        raise FormError("places: a monitor has two entries")
    return Charges(
        fields.read_whole("max_lead", 0),
        None if places is None else sorted(map(_read_places, places)),
        None if times is None else sorted(map(_read_times, times)),
    )


def _read_places(place: Fields) -> LocationCharges:
    shares: dict[str, Fraction] = {}
    for text, locations in place.read_table("shares").items():
        epsilon = parse_recorded_epsilon(text, "shares")
        for location in check_texts(locations, "shares"):
            if location in shares:
                raise FormError("shares: a location has two entries")
            shares[location] = epsilon
    answers, window = place.read_whole("answers", 1), place.read_whole("window", 1)
    return LocationCharges(place.read_text("monitor"), answers, window, tuple(sorted(shares.items())))


def _read_times(charged: Fields) -> TimeCharges:
    _check_digest(charged, "instants")
    charged.get("timezone")
    texts = charged.read_texts("at")
    try:
        daily = [time.fromisoformat(text).isoformat() for text in texts if "T" not in text.upper()]
        instants = [parse_instant(text) for text in texts if "T" in text.upper()]
        horizon = parse_duration(charged.read_text("horizon"))
    except (ValueError, OverflowError):
        raise FormError("at, horizon: expected times and a duration") from None
    return TimeCharges(
        monitor=charged.read_text("monitor"),
        kind=charged.read_choice("kind", *_TIMED_KINDS),
        epsilon=charged.read_epsilon("epsilon"),
        horizon=horizon,
        zone=(charged.read_optional("timezone", charged.read_text) or "") if daily else "",
        daily=tuple(sorted(daily)),
        instants=tuple(sorted(instants)),
    )


def _check_digest(fields: Fields, name: str) -> None:
    if _DIGEST.fullmatch(fields.read_text(name)) is None:
        raise FormError(f"{name}: expected 16 hexadecimal digits")
