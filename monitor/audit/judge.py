"""The judge of one configuration: the checks of its monitors. Several configurations can have been in force in turn."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from monitor.audit.at_times import AtTimesCheck
from monitor.audit.findings import FORM
from monitor.audit.hot_spots_and_dwell import DwellCheck, HotSpotsCheck
from monitor.audit.monitor_checks import Check, Prove, Scope
from monitor.audit.over_time import OverTimeCheck
from monitor.audit.records import FormError, Record


class Judge:
    """The checks of one configuration's monitors, by kind and name."""

    def __init__(self, scope: Scope) -> None:
        self.terms = terms = scope.terms
        self._findings = scope.findings
        self._history = scope.history
        self.checks: dict[tuple[str, str], Check] = {}
        self.checks |= {("over_time", monitor.name): OverTimeCheck(monitor, scope) for monitor in terms.over_time}
        self.checks |= {("at_times", monitor.name): AtTimesCheck(monitor, scope) for monitor in terms.at_times}
        self.checks |= {("hot_spots", monitor.name): HotSpotsCheck(monitor, scope) for monitor in terms.hot_spots}
        self.checks |= {("dwell", monitor.name): DwellCheck(monitor, scope) for monitor in terms.dwell}

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

    def list_unanswered(self, tick: int) -> Iterator[str]:
        """Yield the monitor of each designated time whose hot spots or dwell times this tick should have answered."""
        for monitor in (*self.terms.hot_spots, *self.terms.dwell):
            for time in monitor.find_final_times(tick, self.terms.grid):
                if (monitor.name, time) not in self._history.answered:
                    yield monitor.name
