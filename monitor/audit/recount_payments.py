"""The most that the published answers may have cost one person (docs/rules.md, section 6).

A noisy answer charges every person with a visit in its count. The charge falls in a period if the last slot of such a
visit touches the period. For an answer about a designated time τ, it falls in the periods that contain τ. Periods may
begin at any instant. The sum is that of somebody who was at every location, but at a designated time at one. So it
bounds what anyone paid, it needs no input, and anyone can compute it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from fractions import Fraction
from typing import NamedTuple

from monitor.audit.findings import PAID, Findings
from monitor.audit.shared_terms import SharedTerms


class Charge(NamedTuple):
    """The ε that one person may pay for an answer, in every period that begins at an instant in [first, end).

    A person pays once per period for all charges of the same `answer`. `tick` is the tick of the answer.
    """

    answer: Hashable
    epsilon: Fraction
    first: int
    end: int
    monitor: str = ""
    tick: int = 0


class Payments:
    """The charges of the noisy answers, and the check that they cannot have cost anyone more than stated.

    A sum above the stated ε is a finding if it exceeds all earlier sums. `most_spent`: the largest sum so far.
    """

    def __init__(self, findings: Findings) -> None:
        self.most_spent = Fraction(0)
        self._charges: list[Charge] = []
        self._findings = findings
        self._reported = Fraction(0)
        self._added = self._checked = 0

    def charge_window(self, terms: SharedTerms, monitor: str, window: int, epsilon: Fraction, tick: int) -> None:
        """Charge the people in the window of a noisy answer about a location over time. `window`: W in slots."""
        first, end = terms.grid.start(tick - window + 1), terms.grid.start(tick + terms.max_lead + 1)
        self._add(Charge(self._added, epsilon, first - terms.period + 1, end, monitor, tick))

    def charge_time(  # the parts of a charge
        self, terms: SharedTerms, kind: str, monitor: str, time: int, epsilon: Fraction, tick: int
    ) -> None:
        """Charge the people at a designated time for a drawing of a configuration: each is at one location."""
        answer = id(terms), monitor, kind, time
        self._add(Charge(answer, epsilon, time - terms.period + 1, time + 1, monitor, tick))

    def _add(self, charge: Charge) -> None:
        self._charges.append(charge)
        self._added += 1

    def forget(self, tick: int) -> None:
        """Forget the answers before a tick."""
        self._charges = [charge for charge in self._charges if charge.tick >= tick]

    def find_most_spent(self, monitor: str | None = None) -> Fraction:
        """Return the most ε that one person may have paid in a period, for a monitor's published answers or for all."""
        return find_most_in_a_period(charge for charge in self._charges if monitor in (None, charge.monitor))

    def check(self, may_pay: Fraction) -> None:
        """Check the answers so far."""
        if self._added == self._checked:
            return
        self._checked, spent = self._added, self.find_most_spent()
        self.most_spent = max(self.most_spent, spent)  # earlier answers may have been forgotten
        if self._findings.muted:  # a sum that is not reported must not hide a later one
            return
        if spent > may_pay and spent > self._reported:
            text = f"the published answers may have cost one person ε = {spent} within a period"
            self._findings.add(PAID, f"{text}, more than the stated {may_pay}")
        self._reported = max(self._reported, spent)


def find_most_in_a_period(charges: Iterable[Charge]) -> Fraction:
    """Return the most that one person pays in any period, given all their charges."""
    begins_and_ends = [
        (at, begins, charge) for charge in charges for at, begins in ((charge.first, True), (charge.end, False))
    ]
    charged: Counter[Hashable] = Counter()
    paid = most = Fraction(0)
    for _at, begins, charge in sorted(begins_and_ends, key=lambda event: event[:2]):  # ends come before beginnings
        if begins:
            charged[charge.answer] += 1
            if charged[charge.answer] == 1:
                paid += charge.epsilon
                most = max(most, paid)
        else:
            charged[charge.answer] -= 1
            if charged[charge.answer] == 0:
                paid -= charge.epsilon
    return most
