"""What the checks of all kinds of monitors have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from monitor.audit.configuration import AuditTerms
from monitor.audit.findings import FORM, Findings
from monitor.audit.history import History
from monitor.audit.parsing import format_utc
from monitor.audit.payments import Payments
from monitor.audit.records import Record
from monitor.audit.recount import Recount

Prove = Callable[[], None]
"""A function that compares an answer with the recount."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What the checks of one configuration share. `recount` is None if there is no input to compare with."""

    terms: AuditTerms
    recount: Recount | None
    history: History
    payments: Payments
    findings: Findings


class Check(ABC):
    """The check of one monitor's records, which it takes in order of tick.

    `statuses` counts the records by status. `safe`, `noisy` and `bounds` are the numbers of "safe" answers, noisy
    counts and lower bounds that were checked. `false_alarms`: the noisy counts of fewer people than the threshold.
    """

    def __init__(self, scope: Scope) -> None:
        self._terms = scope.terms
        self._recount = scope.recount
        self._history = scope.history
        self._payments = scope.payments
        self._findings = scope.findings
        self.statuses: Counter[str] = Counter()
        self.safe = self.noisy = self.bounds = self.false_alarms = 0

    @abstractmethod
    def take(self, record: Record) -> Prove | None:
        """Check the next record. Return the comparison with the recount; None if the record cannot be compared.

        Raises:
            FormError: a field is not in the form of docs/interface.md.
        """

    @abstractmethod
    def list_facts(self, form: Any) -> dict[str, Any]:
        """Return the fields that follow from the configuration and the tick; nothing if the monitor has no such answer.

        A configuration that has other ones did not publish the answer, or published it wrongly.
        """

    def _check_facts(self, record: Record, key: str) -> None:
        """Check the fields and headers that follow from the configuration, the subject and the tick."""
        form = record.form
        as_of = self._terms.grid.as_of(form.tick)
        headers = {
            "ce_type": f"org.location-monitor.{record.kind}",
            "ce_specversion": "1.0",
            "ce_source": self._terms.service,
            "ce_time": format_utc(as_of),
            "content-type": "application/json",
        }
        wrong = [name for name, text in headers.items() if record.headers.get(name) != text]
        facts = {"kind": record.kind, "as_of": as_of, **self.list_facts(form)}
        wrong += [name for name, fact in facts.items() if getattr(form, name) != fact]
        for name in wrong:
            text = f"{key}/{form.tick} ({record.position}): {name} is not that of the configuration and the tick"
            self._findings.add(FORM, text)
