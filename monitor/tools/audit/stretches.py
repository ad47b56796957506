"""Find the configuration that was in force, from the charges in owner records and the public values in answers.

An owner record begins a stretch of its output partition. Its charges are compared with those of each given
configuration. If several match, for example because only a threshold differs, each answer is judged by the first one
whose public values it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import time
from fractions import Fraction
from typing import Any

from monitor.tools.audit.judge import Judge
from monitor.tools.audit.records import PublishedRecord
from monitor.tools.audit.terms import AuditTerms, TimedTerms
from monitor.tools.audit.text import is_utc, parse_duration, parse_epsilon, parse_instant


def matches_charges(charges: Any, terms: AuditTerms) -> bool:
    """Return whether the charges of an owner record are those of a configuration.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: they are not in the form of docs/interface.md.
    """
    places, times = charges["places"], charges["times"]
    if places is None or times is None:  # the owner left them out, because they are too long for a record
        return bool(charges["ahead"] == terms.max_lead)
    published = {place["monitor"]: _read_places(place) for place in places}
    expected = {monitor.name: (monitor.answers, monitor.window, dict(monitor.shares)) for monitor in terms.over_time}
    return (
        charges["ahead"] == terms.max_lead
        and published == expected
        and sorted(map(_read_times, times)) == sorted(_expect_times(terms))
    )


def _read_places(place: Any) -> tuple[int, int, dict[str, Fraction]]:
    shares = {name: parse_epsilon(epsilon) for epsilon, names in place["shares"].items() for name in names}
    return place["answers"], place["window"], shares


def _read_times(charged: Any) -> tuple[str, ...]:
    daily = sorted(time.fromisoformat(at).isoformat() for at in charged["at"] if "T" not in at.upper())
    instants = sorted(str(parse_instant(at)) for at in charged["at"] if "T" in at.upper())
    zone = charged["timezone"] if daily else None
    epsilon, horizon = parse_epsilon(charged["epsilon"]), parse_duration(charged["horizon"])
    return charged["monitor"], charged["kind"], str(epsilon), str(horizon), str(zone), *daily, *instants


def _expect_times(terms: AuditTerms) -> list[tuple[str, ...]]:
    bounds = [(monitor, "at_least", monitor.at_least) for monitor in terms.at_times if monitor.at_least is not None]
    charged: list[tuple[TimedTerms, str, Fraction]] = [
        *((monitor, "at_times", monitor.epsilon) for monitor in terms.at_times),
        *((monitor, "hot_spots", monitor.epsilon) for monitor in terms.hot_spots),
        *((monitor, "dwell", monitor.epsilon) for monitor in terms.dwell),
        *bounds,
    ]
    return [_expect_time(monitor, kind, epsilon) for monitor, kind, epsilon in charged]


def _expect_time(monitor: TimedTerms, kind: str, epsilon: Fraction) -> tuple[str, ...]:
    zone = monitor.zone.key if monitor.zone is not None and monitor.daily else None
    daily = sorted(at.isoformat() for at in monitor.daily)
    instants = sorted(map(str, monitor.instants))
    return monitor.name, kind, str(epsilon), str(monitor.horizon), str(zone), *daily, *instants


def matches_public_values(record: PublishedRecord, terms: AuditTerms) -> bool:
    """Return whether an answer has the public values of a configuration."""
    value = record.value
    expected: dict[str, object] = {}
    if record.kind == "over_time":
        for places in (monitor for monitor in terms.over_time if monitor.name == value.get("monitor")):
            share = places.shares.get(value.get("location_id"))
            expected = {"threshold": places.threshold, "epsilon": share and str(share / places.answers)}
    for timed in (monitor for monitor in terms.timed if monitor.name == value.get("monitor")):
        expected = {"epsilon": str(timed.epsilon), "registry": terms.digest}
        expected |= {name: getattr(timed, name) for name in ("threshold", "top") if hasattr(timed, name)}
        expected |= {"shards": terms.shards} if record.kind == "at_times" else {}
    tick = value.get("tick")
    return (
        bool(expected)
        and all(value.get(name) == text for name, text in expected.items())
        and isinstance(tick, int)
        and is_utc(value.get("as_of"), terms.grid.as_of(tick))
    )


@dataclass
class Stretches:
    """The configurations that may be in force, for each output partition. `judges`: newest configuration first.

    Before the first owner record that contains charges, every configuration may be in force.
    """

    judges: Sequence[Judge]
    _candidates: dict[int | None, list[Judge]] = field(default_factory=dict)

    def take_owner(self, record: PublishedRecord) -> bool:
        """Begin a stretch. Return whether a given configuration has the record's charges."""
        charges = record.value.get("charges") if isinstance(record.value, dict) else None
        if charges is None:
            self._candidates.pop(record.partition, None)
            return True
        try:
            found = [judge for judge in self.judges if matches_charges(charges, judge.terms)]
        except (KeyError, TypeError, ValueError, AttributeError):
            found = []
        self._candidates[record.partition] = found
        return bool(found)

    def find(self, record: PublishedRecord) -> Judge | None:
        """Return the judge of an answer; None if no given configuration was in force."""
        candidates = self._candidates.get(record.partition, self.judges)
        fitting = (judge for judge in candidates if matches_public_values(record, judge.terms))
        if record.partition not in self._candidates and len(self.judges) > 1:
            return next(fitting, None)
        return next(fitting, candidates[0] if candidates else None)

    def find_in_force(self) -> list[Judge]:
        """Return the judges of the configurations that may be in force in some partition now."""
        named = [judge for found in self._candidates.values() for judge in found]
        return [judge for judge in self.judges if not self._candidates or judge in named]
