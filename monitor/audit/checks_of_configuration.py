"""The judge of one configuration: the checks of its monitors. Several configurations can have been in force in turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from monitor.audit.configuration import AuditTerms
from monitor.audit.findings import FORM
from monitor.audit.kinds.base.monitor import Check, Part, Prove, Scope
from monitor.audit.record_fields import FormError, Record
from monitor.audit.recount_visits import Recount


class Judge:
    """The checks of one configuration's monitors, by kind and name."""

    def __init__(self, terms: AuditTerms, scope: Scope, recount: Recount | None) -> None:
        self.terms = terms
        self._findings = scope.findings
        self._public = {monitor.name: monitor.public for monitor in terms.monitors}
        self.checks: dict[tuple[str, str], Check] = {}
        for monitor in terms.monitors:
            counts = None if recount is None else recount.monitors[monitor.name]
            self.checks[monitor.kind, monitor.name] = monitor.create_check(scope, counts)

    def matches_public(self, record: Record) -> bool:
        """Return whether an answer has the as_of and all public values of the configuration."""
        return self.matches(record, self._public.get(record.monitor, ()))

    def matches(self, record: Record, names: Collection[str]) -> bool:
        """Return whether an answer has the as_of and, of the named fields, those that the configuration gives it."""
        check = self.checks.get((record.kind, record.monitor))
        facts = {} if check is None else check.list_facts(record.form)
        return (
            bool(facts)
            and record.form.as_of == self.terms.grid.as_of(record.form.tick)
            and all(getattr(record.form, name) == facts[name] for name in facts.keys() & names)
        )

    def take(self, record: Record) -> Prove | None:
        """Check everything about an answer that does not need the recount.

        Return the comparison with the recount, or None if the answer cannot be compared.
        """
        check = self.checks.get((record.kind, record.monitor))
        if check is None:
            self._findings.add(FORM, f"{record.position}: the configuration has no such monitor")
            return None
        try:
            return check.take(record)
        except FormError as error:
            self._findings.add(FORM, f"{record.position}: not in the form of the interface: {error}")
            return None

    def expect_records(self, tick: int, part: Part, found: Counter[str]) -> dict[str, int]:
        """Return how many records of a tick each monitor should have in an output partition.

        `found`: the number of those that have been read.
        """
        return {name: check.expect_records(tick, part, found[name]) for (_kind, name), check in self.checks.items()}
