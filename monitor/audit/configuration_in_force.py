"""Find the configuration that was in force, from the charges in owner records and the public values in answers.

An owner record begins a stretch of its output partition. Its charges are compared with those of each given
configuration. If several match, for example because only a threshold differs, each answer is judged by the first one
whose public values it has. An answer with public values that no given configuration has is not judged, unless one of
them is certainly in force.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from monitor.audit.checks_of_configuration import Judge
from monitor.audit.configuration import AuditTerms
from monitor.audit.findings import FORM, Findings
from monitor.audit.history import History
from monitor.audit.owner_records import Charges, Owner
from monitor.audit.record_fields import Record

STATED: Final = frozenset({"epsilon"})
"""The public value of an answer that the charges of its owner state too."""

REGISTRY: Final = frozenset({"registry", "shards"})


@dataclass
class Stretch:
    """What is known about the configuration of one owner of an output partition."""

    fingerprint: str
    charges: Charges | None
    """`charges`, `fingerprint`: what its owner record states."""
    candidates: Sequence[Judge]
    """The configurations with these charges."""
    confirmed: dict[tuple[str, ...], Judge] = field(default_factory=dict)
    """By subject, the configuration whose public values an answer had."""
    registry: Judge | None = None
    """The configuration whose registry an answer had."""
    unjudged: dict[tuple[str, ...], str] = field(default_factory=dict)
    """By subject, the position of the first answer that was not judged."""

    def find_certain(self, record: Record) -> Judge | None:
        """Return the configuration that is certainly in force, although it does not have an answer's public values.

        Charges state the locations, the designated times and ε; the fingerprint covers the registry. Neither says
        anything about thresholds, so an answer with another one may be that of a configuration that was not given.
        """
        if self.charges is None or not self.charges.are_stated or not self.candidates:
            return None
        judge = self.registry or self.candidates[0]
        names = STATED if self.registry is None else STATED | REGISTRY
        return None if judge.matches(record, names) else judge


@dataclass
class Stretches:
    """The configurations that may be in force, for each output partition. `judges`: newest configuration first.

    If no output record has expired, answers before the first owner record that states charges are those of the only
    configuration.
    """

    judges: Sequence[Judge]
    history: History
    findings: Findings
    _stretches: dict[int, Stretch] = field(default_factory=dict)

    def take_owner(self, partition: int, owner: Owner, *, takeover: bool) -> None:
        """Begin a stretch, unless the owner is the same."""
        known = self._stretches.get(partition)
        if known is None or takeover or (known.fingerprint, known.charges) != (owner.fingerprint, owner.charges):
            self._begin(partition, owner.fingerprint, owner.charges)

    def doubt(self, partition: int) -> None:
        """Note a takeover by an owner with an equal owner record, whose configuration may be another one."""
        known = self._stretches.get(partition)
        if known is not None:
            self._begin(partition, known.fingerprint, known.charges)

    def _begin(self, partition: int, fingerprint: str, charges: Charges | None) -> Stretch:
        fitting = [judge for judge in self.judges if charges is None or match_charges(charges, judge.terms)]
        stretch = self._stretches[partition] = Stretch(fingerprint, charges, fitting)
        return stretch

    def find(self, record: Record) -> Judge | None:
        """Return the judge of an answer; None if no given configuration was in force, or if this is not certain."""
        stretch = self._stretches.get(record.partition) or self._begin(record.partition, "", None)
        subject = _find_subject(record)
        fitting = next((judge for judge in stretch.candidates if judge.matches_public(record)), None)
        if fitting is None:
            found = stretch.confirmed.get(subject) or self._find_only(stretch) or stretch.find_certain(record)
            if found is None:
                stretch.unjudged.setdefault(subject, record.position)
            return found
        if position := stretch.unjudged.pop(subject, None):
            self.findings.add(
                FORM, f"{position}: the public values differ from those of later answers of the same owner"
            )
        stretch.confirmed[subject] = fitting
        if "registry" in record.form.__struct_fields__:
            stretch.registry = fitting
        return fitting

    def _find_only(self, stretch: Stretch) -> Judge | None:
        """Return the only configuration, if the output has no owner record that states charges."""
        return self.judges[0] if stretch.charges is None and self.history.whole and len(self.judges) == 1 else None

    def find_single(self, partition: int) -> Judge | None:
        """Return the judge of the only configuration that may be in force; None if there are several, or none."""
        stretch = self._stretches.get(partition)
        candidates = self.judges if stretch is None else stretch.candidates
        return candidates[0] if len(candidates) == 1 else None

    def find_in_force(self) -> list[Judge]:
        """Return the judges of the configurations that may be in force in some partition now."""
        stated = [stretch.candidates for stretch in self._stretches.values() if stretch.charges is not None]
        named = [judge for found in stated for judge in found]
        return [judge for judge in self.judges if not stated or judge in named]


def _find_subject(record: Record) -> tuple[str, ...]:
    """Return what an answer is about, as far as all answers of one owner must have equal public values."""
    return record.kind, record.monitor, record.form.watched


def match_charges(stated: Charges, terms: AuditTerms) -> bool:
    """Return whether charges are those of a configuration, as far as the owner stated them."""
    if stated.max_lead != terms.max_lead:
        return False
    configured = Counter(charge for monitor in terms.monitors for charge in monitor.list_charges())
    return not stated.are_stated or stated.list_charges() == configured
