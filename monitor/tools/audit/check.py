"""What the checks of all kinds of monitors have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from monitor.tools.audit.findings import Findings
from monitor.tools.audit.history import History
from monitor.tools.audit.payments import NoisyAnswers
from monitor.tools.audit.records import PublishedRecord
from monitor.tools.audit.recount import Recount
from monitor.tools.audit.terms import AuditTerms

Prove = Callable[[], None]
"""A function that compares an answer with the recount."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What the checks of one configuration share. `recount` is None if there is no input to compare with."""

    terms: AuditTerms
    recount: Recount | None
    history: History
    answers: NoisyAnswers
    findings: Findings


class Check(ABC):
    """The check of one monitor's records, which it takes in order of tick.

    `statuses` counts the records by status. `safe`, `noisy` and `bounds` are the numbers of "safe" answers, noisy
    counts and lower bounds that were checked.
    """

    def __init__(self, scope: Scope) -> None:
        self._terms = scope.terms
        self._recount = scope.recount
        self._history = scope.history
        self._answers = scope.answers
        self._findings = scope.findings
        self.statuses: Counter[str] = Counter()
        self.safe = self.noisy = self.bounds = 0

    @abstractmethod
    def take(self, record: PublishedRecord) -> Prove | None:
        """Check the next record. Return the comparison with the recount; None if the record cannot be compared.

        Raises:
            FormError: a field is missing, or is not in the form of docs/interface.md.
        """

    @abstractmethod
    def finish(self, first: int, last: int) -> None:
        """Check that every tick from the first to the last was answered, if every tick must be."""
