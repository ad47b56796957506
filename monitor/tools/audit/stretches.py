"""Find the configuration that was in force, from the charges in owner records and the public values in answers.

An owner record begins a stretch of its output partition. Its charges are compared with those of each given
configuration. If several match, for example because only a threshold differs, each answer is judged by the first one
whose public values it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from monitor.tools.audit.judge import Judge
from monitor.tools.audit.owners import Charges, OwnerFacts, PlaceCharges, TimeCharges
from monitor.tools.audit.partition_ticks import read_tick
from monitor.tools.audit.records import PublishedRecord
from monitor.tools.audit.terms import AuditTerms, TimedTerms
from monitor.tools.audit.text import is_utc


def matches_charges(charges: Charges, terms: AuditTerms) -> bool:
    """Return whether the charges of an owner record are those of a configuration."""
    if charges.ahead != terms.max_lead:
        return False
    if charges.places is None or charges.times is None:  # the owner left them out: they are too long for a record
        return True
    places = {
        monitor.name: PlaceCharges(monitor.answers, monitor.window, dict(monitor.shares)) for monitor in terms.over_time
    }
    return charges.places == places and sorted(map(_list_times, charges.times)) == sorted(_expect_times(terms))


def _list_times(charged: TimeCharges) -> tuple[str, ...]:
    zone = charged.zone if charged.daily else None
    return (
        charged.monitor,
        charged.kind,
        str(charged.epsilon),
        str(charged.horizon),
        str(zone),
        *charged.daily,
        *sorted(map(str, charged.instants)),
    )


def _expect_times(terms: AuditTerms) -> list[tuple[str, ...]]:
    bounds = [(monitor, "at_least", monitor.at_least) for monitor in terms.at_times if monitor.at_least is not None]
    charged: list[tuple[TimedTerms, str, Fraction]] = [
        *((monitor, "at_times", monitor.epsilon) for monitor in terms.at_times),
        *((monitor, "hot_spots", monitor.epsilon) for monitor in terms.hot_spots),
        *((monitor, "dwell", monitor.epsilon) for monitor in terms.dwell),
        *bounds,
    ]
    return [_list_times(_expect_time(monitor, kind, epsilon)) for monitor, kind, epsilon in charged]


def _expect_time(monitor: TimedTerms, kind: str, epsilon: Fraction) -> TimeCharges:
    zone = None if monitor.zone is None else monitor.zone.key
    daily = tuple(sorted(at.isoformat() for at in monitor.daily))
    return TimeCharges(monitor.name, kind, epsilon, monitor.horizon, zone, daily, tuple(sorted(monitor.instants)))


def matches_public_values(record: PublishedRecord, terms: AuditTerms) -> bool:
    """Return whether an answer has the public values of a configuration. The answer may have any form."""
    value, tick = record.value, read_tick(record.value, terms.grid)
    if tick is None:
        return False
    expected: dict[str, object] = {}
    if record.kind == "over_time":
        location = value.get("location_id")
        for places in (monitor for monitor in terms.over_time if monitor.name == value.get("monitor")):
            share = places.shares.get(location) if isinstance(location, str) else None
            expected = {"threshold": places.threshold, "epsilon": share and str(share / places.answers)}
    for timed in (monitor for monitor in terms.timed if monitor.name == value.get("monitor")):
        expected = {"epsilon": str(timed.epsilon), "registry": terms.digest}
        expected |= {name: getattr(timed, name) for name in ("threshold", "top") if hasattr(timed, name)}
        expected |= {"shards": terms.shards} if record.kind == "at_times" else {}
    return (
        bool(expected)
        and all(value.get(name) == text for name, text in expected.items())
        and is_utc(value.get("as_of"), terms.grid.as_of(tick))
    )


@dataclass
class Stretches:
    """The configurations that may be in force, for each output partition. `judges`: newest configuration first.

    Before the first owner record that contains charges, every configuration may be in force.
    """

    judges: Sequence[Judge]
    _candidates: dict[int | None, list[Judge]] = field(default_factory=dict)

    def take_owner(self, partition: int | None, facts: OwnerFacts) -> None:
        """Begin a stretch. Its answers are not judged if no given configuration has the charges of its owner."""
        if facts.charges is None:
            self._candidates.pop(partition, None)
        else:
            found = [judge for judge in self.judges if matches_charges(facts.charges, judge.terms)]
            self._candidates[partition] = found

    def find(self, record: PublishedRecord) -> Judge | None:
        """Return the judge of an answer; None if no given configuration was in force."""
        candidates = self._candidates.get(record.partition, self.judges)
        fitting = (judge for judge in candidates if matches_public_values(record, judge.terms))
        if record.partition not in self._candidates and len(self.judges) > 1:
            return next(fitting, None)
        return next(fitting, candidates[0] if candidates else None)

    def find_single(self, partition: int | None) -> Judge | None:
        """Return the judge of the only configuration that may be in force; None if there are several, or none."""
        candidates = self._candidates.get(partition, self.judges)
        return candidates[0] if len(candidates) == 1 else None

    def find_in_force(self) -> list[Judge]:
        """Return the judges of the configurations that may be in force in some partition now."""
        named = [judge for found in self._candidates.values() for judge in found]
        return [judge for judge in self.judges if not self._candidates or judge in named]
