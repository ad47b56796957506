"""Check the answers about locations over time (docs/rules.md, section 3 and rule 2)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from monitor.audit.configuration import OverTimeTerms
from monitor.audit.findings import BUDGET, FORM, NOISY, SAFE
from monitor.audit.monitor_checks import Check, Prove, Scope
from monitor.audit.records import FormError, Mark, Noisy, OverTime, Paused, Record

_P_VALUE_TOLERANCE: Final = 1e-9


class OverTimeCheck(Check):
    """The check of one monitor's records."""

    def __init__(self, monitor: OverTimeTerms, scope: Scope) -> None:
        super().__init__(scope)
        self._monitor = monitor
        self._cost = {location: share / monitor.answers for location, share in monitor.shares.items()}

    def take(self, record: Record) -> Prove | None:
        """Check the next record."""
        form, monitor, grid = record.form, self._monitor, self._terms.grid
        location = form.location_id
        where = f"{monitor.name}/{self._terms.name_location(location)}, tick {form.tick}"
        if location not in monitor.shares:
            self._findings.add(FORM, f"{where}: the monitor does not watch this location")
            return None
        if not all(grid.has(mark.until) for mark in form.answers):
            raise FormError("answers: the tick is out of range")
        key = f"{monitor.name}/{location}"
        in_order = self._history.note_tick((monitor.name, None, location), key, form.tick)
        self.statuses[form.status] += 1
        self.safe += form.status == "safe"
        self._check_facts(record, key)
        if isinstance(form, Noisy):
            self.noisy += 1
            self._payments.charge_window(self._terms, monitor, self._cost[location], form.tick)
            for text in self._find_inconsistent(form):
                self._findings.add(NOISY, f"{where}: {text}")
        if in_order:
            for text in self._find_unaffordable(record.partition, form):
                self._findings.add(BUDGET, f"{where}: {text}")
        return partial(self._prove, form, where)

    def list_facts(self, form: OverTime) -> dict[str, Any]:
        """Return the fields that follow from the configuration and the tick."""
        if form.location_id not in self._cost:
            return {}
        window_start = self._terms.grid.start(form.tick - self._monitor.window + 1)
        cost = self._cost[form.location_id]
        return {"threshold": self._monitor.threshold, "epsilon": cost, "window_start": window_start}

    def _prove(self, form: OverTime, where: str) -> None:
        if self._recount is None:
            return
        exact = self._recount.counts[self._monitor.name][form.location_id].at(form.tick)
        threshold = self._monitor.threshold
        if form.status == "safe" and exact >= threshold:
            self._findings.add(SAFE, f'{where}: "safe" is false, there were {threshold} people or more')
        if isinstance(form, Noisy):
            self.false_alarms += exact < threshold
            if exact > form.noisy_count:
                self._findings.add(NOISY, f"{where}: there were more people than the noisy count")

    def _find_inconsistent(self, form: Noisy) -> Iterator[str]:
        threshold, cost = self._monitor.threshold, self._cost[form.location_id]
        if form.noisy_count < threshold:
            yield "the noisy count is below the threshold"
        if form.count_at_most != form.noisy_count:
            yield "count_at_most is not the noisy count"
        p_value = math.exp(-float(cost * max(0, form.noisy_count - threshold + 1)))
        if not math.isclose(form.p_value, p_value, rel_tol=_P_VALUE_TOLERANCE):
            yield "p_value is not e^(-ε(z - T + 1))"

    def _find_unaffordable(self, partition: int, form: OverTime) -> Iterator[str]:
        """Yield the errors in the marks, the pause and the ε spent."""
        subject, about = (self._monitor.name, form.location_id), (self._monitor.name, None, form.location_id)
        share, cost = self._monitor.shares[form.location_id], self._cost[form.location_id]
        if self._is_paused_by_loss(partition, form):
            self._history.set_marks(subject, form.answers)
            return
        running = self._find_running_marks(form)
        spent = _sum_epsilon(running)
        yield from self._find_wrong_pause(form, running, spent)
        if isinstance(form, Noisy):
            until = form.tick + self._monitor.mark_lifetime - 1
            running.append(Mark(form.tick, form.noisy_count, cost, until))
            self._history.note_drawn(partition, (*about, form.tick))
            if spent + cost > share:
                yield f"the ε of the answers that run is {spent + cost}, more than the location's {share}"
        self._history.set_marks(subject, running)
        hidden = [mark for mark in running if self._history.is_unsigned(partition, (*about, mark.tick))]
        shown = [mark for mark in running if mark in form.answers or mark not in hidden]
        if form.answers != shown:
            yield "answers are not the noisy answers that run, each until tick + W + F - 1"

    def _find_wrong_pause(self, form: OverTime, running: list[Mark], spent: Fraction) -> Iterator[str]:
        share, cost = self._monitor.shares[form.location_id], self._cost[form.location_id]
        affordable = spent + cost <= share
        if isinstance(form, Paused):
            if affordable:
                yield "paused, and the next answer is affordable"
            elif form.resumes_at != self._terms.grid.as_of(
                resumes := _find_next_answer(running, share - cost, form.tick)
            ):
                yield f"resumes_at is not the as_of of tick {resumes}, the next that can answer"
        elif not affordable:
            yield f"not paused, and the next answer is not affordable: {spent} of {share} is spent"

    def _is_paused_by_loss(self, partition: int, form: OverTime) -> bool:
        """Return whether the location is paused because a ledger was lost. All its ε then counts as spent."""
        lost = self._history.lost_slots.get(partition)
        return lost is not None and form.tick < lost + self._monitor.mark_lifetime and isinstance(form, Paused)

    def _find_running_marks(self, form: OverTime) -> list[Mark]:
        """Return the earlier marks that still run. If the lifetime of marks has grown, the marks are extended."""
        lifetime = self._monitor.mark_lifetime
        known = self._history.get_marks((self._monitor.name, form.location_id))
        if known is None:
            known = [mark for mark in form.answers if mark.tick < form.tick]
        lengthened = [replace(mark, until=max(mark.until, mark.tick + lifetime - 1)) for mark in known]
        return [mark for mark in lengthened if mark.until >= form.tick]


def _sum_epsilon(marks: Sequence[Mark]) -> Fraction:
    return sum((mark.epsilon for mark in marks), Fraction(0))


def _find_next_answer(running: list[Mark], free_at: Fraction, tick: int) -> int:
    """Return the first tick after this one at which the marks that still run have at most the ε `free_at`."""
    ends = sorted({tick + 1, *(mark.until + 1 for mark in running if mark.until >= tick)})
    return next(end for end in ends if _sum_epsilon([mark for mark in running if mark.until >= end]) <= free_at)
