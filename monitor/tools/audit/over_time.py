"""Check the answers about locations over time (docs/rules.md, section 3 and rule 2)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Final

from monitor.tools.audit.check import Check, Prove, Scope
from monitor.tools.audit.fields import Fields
from monitor.tools.audit.findings import BUDGET, FORM, NOISY, SAFE
from monitor.tools.audit.history import Mark
from monitor.tools.audit.records import PublishedRecord, check_envelope, check_facts
from monitor.tools.audit.terms import Grid, OverTimeTerms
from monitor.tools.audit.text import is_utc

_P_VALUE_TOLERANCE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class _LocationRecord:
    """A record of one location and tick. `where` identifies it in findings.

    `marks` are the noisy answers that run. `noisy_count`, `count_at_most` and `p_value` belong to the status
    "noisy_count", and `resumes_at` to "paused".
    """

    partition: int
    location: str
    tick: int
    where: str
    status: str
    window_start: str
    marks: list[Mark]
    noisy_count: int = 0
    count_at_most: int = 0
    p_value: float = 0.0
    resumes_at: str = ""


class OverTimeCheck(Check):
    """The check of one monitor's records."""

    def __init__(self, monitor: OverTimeTerms, scope: Scope) -> None:
        super().__init__(scope)
        self._monitor = monitor
        self._cost = {location: share / monitor.answers for location, share in monitor.shares.items()}

    def take(self, record: PublishedRecord) -> Prove | None:
        """Check the next record."""
        fields = Fields(record.value)
        location, tick = fields.read_text("location_id"), fields.read_tick("tick", self._terms.grid)
        where = f"{self._monitor.name}/{self._terms.name_location(location)}, tick {tick}"
        if location not in self._monitor.shares:
            self._findings.add(FORM, f"{where}: the monitor does not watch this location")
            return None
        key = f"{self._monitor.name}/{location}"
        in_order = self._history.sequence.see((self._monitor.name, location), key, tick)
        read = self._read(record.partition, fields, where)
        self.statuses[read.status] += 1
        self.safe += read.status == "safe"
        self._check_form(record, key, read)
        if read.status == "noisy_count":
            self.noisy += 1
            row = self._terms.rows[location]
            self._answers.add("over_time", self._monitor.name, (row,), self._cost[location], tick)
            for text in self._find_inconsistent(read):
                self._findings.add(NOISY, f"{where}: {text}")
        if in_order:
            for text in self._find_unaffordable(read):
                self._findings.add(BUDGET, f"{where}: {text}")
        return partial(self._prove, read)

    def _read(self, partition: int, fields: Fields, where: str) -> _LocationRecord:
        record = _LocationRecord(
            partition,
            fields.read_text("location_id"),
            fields.read_tick("tick", self._terms.grid),
            where,
            fields.read_choice("status", "safe", "noisy_count", "paused", "unknown"),
            fields.read_text("window_start"),
            [_read_mark(answer, self._terms.grid) for answer in fields.read_objects("answers")],
        )
        if record.status == "noisy_count":
            noisy, bound = (fields.read_whole(name, 0) for name in ("noisy_count", "count_at_most"))
            return replace(record, noisy_count=noisy, count_at_most=bound, p_value=fields.read_number("p_value"))
        if record.status == "paused":
            return replace(record, resumes_at=fields.read_text("resumes_at"))
        return record

    def _prove(self, record: _LocationRecord) -> None:
        if self._recount is None:
            return
        exact = self._recount.counts[self._monitor.name][record.location].at(record.tick)
        threshold = self._monitor.threshold
        if record.status == "safe" and exact >= threshold:
            self._findings.add(SAFE, f'{record.where}: "safe" is false, there were {threshold} people or more')
        if record.status == "noisy_count" and exact > record.noisy_count:
            self._findings.add(NOISY, f"{record.where}: there were more people than the noisy count")

    def finish(self, first: int, last: int) -> None:
        """Check that every location was answered from the first tick to the last."""
        for location in self._monitor.shares:
            name = f"{self._monitor.name}/{location}"
            self._history.sequence.expect((self._monitor.name, location), name, first, last)

    def _check_form(self, record: PublishedRecord, key: str, read: _LocationRecord) -> None:
        monitor, grid = self._monitor, self._terms.grid
        check_envelope(record, self._terms, key, read.tick, self._findings)
        facts = {"kind": "over_time", "threshold": monitor.threshold, "epsilon": str(self._cost[read.location])}
        check_facts(record, key, read.tick, facts, self._findings)
        if not is_utc(read.window_start, grid.start(read.tick - monitor.window + 1)):
            self._findings.add(FORM, f"{read.where}: window_start is not the start of its window")

    def _find_inconsistent(self, record: _LocationRecord) -> Iterator[str]:
        threshold, cost = self._monitor.threshold, self._cost[record.location]
        if record.noisy_count < threshold:
            yield "the noisy count is below the threshold"
        if record.count_at_most != record.noisy_count:
            yield "count_at_most is not the noisy count"
        p_value = _compute_p_value(cost, max(0, record.noisy_count - threshold + 1))
        if not math.isclose(record.p_value, p_value, rel_tol=_P_VALUE_TOLERANCE):
            yield "p_value is not e^(-ε(z - T + 1))"

    def _find_unaffordable(self, record: _LocationRecord) -> Iterator[str]:
        """Yield the errors in the marks, the pause and the ε spent."""
        share, cost = self._monitor.shares[record.location], self._cost[record.location]
        published = record.marks
        lifetime = self._monitor.mark_lifetime
        if self._is_paused_by_loss(record, lifetime):
            self._history.marks.set(self._monitor.name, record.location, published)
            return
        running = self._find_running_marks(record, published, lifetime)
        spent = sum((mark.epsilon for mark in running), Fraction(0))
        yield from self._find_wrong_pause(record, running, spent)
        if record.status == "noisy_count":
            running.append(Mark(record.tick, record.noisy_count, cost, record.tick + lifetime - 1))
            if spent + cost > share:
                yield f"the ε of the answers that run is {spent + cost}, more than the location's {share}"
        self._history.marks.set(self._monitor.name, record.location, running)
        if published != running:
            yield "answers are not the noisy answers that run, each until tick + W + F - 1"

    def _find_wrong_pause(self, record: _LocationRecord, running: list[Mark], spent: Fraction) -> Iterator[str]:
        share, cost = self._monitor.shares[record.location], self._cost[record.location]
        affordable = spent + cost <= share
        if record.status == "paused" and affordable:
            yield "paused, and the next answer is affordable"
        elif record.status != "paused" and not affordable:
            yield f"not paused, and the next answer is not affordable: {spent} of {share} is spent"
        if record.status == "paused" and not affordable:
            resumes = _find_next_answer(running, share - cost, record.tick)
            if not is_utc(record.resumes_at, self._terms.grid.as_of(resumes)):
                yield f"resumes_at is not the as_of of tick {resumes}, the next that can answer"

    def _is_paused_by_loss(self, record: _LocationRecord, lifetime: int) -> bool:
        """Return whether the location is paused because a ledger was lost. All its ε then counts as spent."""
        lost = self._history.lost_slots.get(record.partition)
        return lost is not None and record.tick < lost + lifetime and record.status == "paused"

    def _find_running_marks(self, record: _LocationRecord, published: list[Mark], lifetime: int) -> list[Mark]:
        """Return the earlier marks that still run. If the lifetime of marks has grown, the marks are extended."""
        known = self._history.marks.get(self._monitor.name, record.location)
        if known is None:
            known = [mark for mark in published if mark.tick < record.tick]
        lengthened = [mark._replace(until=max(mark.until, mark.tick + lifetime - 1)) for mark in known]
        return [mark for mark in lengthened if mark.until >= record.tick]


def _compute_p_value(cost: Fraction, above: int) -> float:
    return math.exp(-float(cost * above))


def _find_next_answer(running: list[Mark], free_at: Fraction, tick: int) -> int:
    """Return the first tick after this one at which the marks that still run have at most the ε `free_at`."""
    ends = sorted({mark.until + 1 for mark in running} | {tick + 1})
    return next(
        end
        for end in ends
        if end > tick and sum((mark.epsilon for mark in running if mark.until >= end), Fraction(0)) <= free_at
    )


def _read_mark(answer: Fields, grid: Grid) -> Mark:
    return Mark(
        answer.read_tick("tick", grid),
        answer.read_whole("noisy_count", 0),
        answer.read_epsilon("epsilon"),
        answer.read_tick("until", grid),
    )
