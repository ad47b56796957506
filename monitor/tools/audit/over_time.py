"""The answers about locations over time, judged (docs/rules.md, section 3 and rule 2)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NamedTuple

from monitor.tools.audit.counts import Steps
from monitor.tools.audit.findings import BUDGET, FORM, NOISY, SAFE, Findings
from monitor.tools.audit.records import PublishedRecord, check_envelope, check_said
from monitor.tools.audit.sequence import Sequence
from monitor.tools.audit.terms import AuditTerms, OverTimeTerms
from monitor.tools.audit.text import epsilon, is_utc

P_VALUE_RELATIVE: Final = 1e-9


class Mark(NamedTuple):
    """A noisy answer that holds its location until a tick."""

    tick: int
    noisy_count: int
    epsilon: Fraction
    until: int


class Answer(NamedTuple):
    """A noisy answer, for what it charges."""

    location: str
    tick: int
    epsilon: Fraction


@dataclass(frozen=True, slots=True)
class _Said:
    """A record of one location and tick; `where` names them."""

    record: PublishedRecord
    location: str
    tick: int
    status: str
    where: str

    @property
    def value(self) -> Any:
        return self.record.value


class OverTimeCheck:
    """Judges the records of one monitor, in order of tick.

    `answers` are the noisy ones, `statuses` all by status. Where the output is not `whole`, a location's first record
    is taken at its word for what was answered before. `lost_tick`: in which slot an earlier ledger was lost, if any.
    """

    def __init__(
        self,
        terms: AuditTerms,
        monitor: OverTimeTerms,
        counts: dict[str, Steps],
        sequence: Sequence,
        findings: Findings,
        *,
        whole: bool = True,
    ) -> None:
        self._terms = terms
        self._monitor = monitor
        self._counts = counts
        self._sequence = sequence
        self._findings = findings
        self._marks: dict[str, list[Mark]] = {location: [] for location in monitor.shares} if whole else {}
        self.lost_tick: int | None = None
        self._cost = {location: share / monitor.answers for location, share in monitor.shares.items()}
        self.answers: list[Answer] = []
        self.statuses: Counter[str] = Counter()

    @property
    def safe(self) -> int:
        """How many "safe" answers were checked."""
        return self.statuses["safe"]

    @property
    def noisy(self) -> int:
        """How many noisy counts were checked."""
        return len(self.answers)

    def take(self, record: PublishedRecord) -> None:
        """Judge the next record.

        Raises:
            KeyError, TypeError, ValueError: it lacks what the interface says, or has it in another form.
        """
        location, tick = record.value["location_id"], record.value["tick"]
        said = _Said(record, location, tick, record.value["status"], f"{self._monitor.name}/{location}, tick {tick}")
        if location not in self._counts:
            self._findings.say(FORM, f"{said.where}: the monitor does not watch this location")
            return
        self.statuses[said.status] += 1
        self._form(said)
        for text in self._untrue(said):
            self._findings.say(NOISY, f"{said.where}: {text}")
        if self._sequence.see((self._monitor.name, location), f"{self._monitor.name}/{location}", tick):
            for text in self._unaffordable(said):
                self._findings.say(BUDGET, f"{said.where}: {text}")

    def finish(self, first: int, last: int) -> None:
        """Check that the answers about every location reach from the first tick to the last."""
        for location in self._monitor.shares:
            name = f"{self._monitor.name}/{location}"
            self._sequence.expect((self._monitor.name, location), name, first, last)

    def _form(self, said: _Said) -> None:
        monitor, grid = self._monitor, self._terms.grid
        check_envelope(said.record, self._terms, f"{monitor.name}/{said.location}", said.tick, self._findings)
        facts = {"kind": "over_time", "threshold": monitor.threshold, "epsilon": str(self._cost[said.location])}
        check_said(said.record, facts, self._findings)
        if not is_utc(said.value["window_start"], grid.start(said.tick - monitor.window + 1)):
            self._findings.say(FORM, f"{said.where}: window_start is not where its window begins")
        if said.status not in ("safe", "noisy_count", "paused", "unknown"):
            self._findings.say(FORM, f"{said.where}: {said.status!r} is no status")

    def _untrue(self, said: _Said) -> Iterator[str]:
        """What is wrong with a noisy count; a false "safe" is said at once."""
        exact, threshold = self._counts[said.location].at(said.tick), self._monitor.threshold
        if said.status == "safe" and exact >= threshold:
            self._findings.say(SAFE, f"{said.where}: said safe, and there were {threshold} people or more")
        if said.status != "noisy_count":
            return
        noisy, cost = said.value["noisy_count"], self._cost[said.location]
        self.answers.append(Answer(said.location, said.tick, cost))
        if exact > noisy:
            yield "there were more people than said"
        if noisy < threshold:
            yield "the noisy count is below the threshold"
        if said.value["count_at_most"] != noisy:
            yield "count_at_most is not the noisy count"
        if not math.isclose(said.value["p_value"], _chance(cost, noisy - threshold + 1), rel_tol=P_VALUE_RELATIVE):
            yield "p_value is not e^(-ε(z - T + 1))"

    def _all_is_spent(self, said: _Said) -> bool:
        """Whether it must pause because an earlier ledger was lost: all counted as spent then."""
        if (
            self.lost_tick is None
            or said.tick >= self.lost_tick + self._monitor.mark_lifetime
            or said.status != "paused"
        ):
            return False
        self._marks[said.location] = _marks(said.value["answers"])
        return True

    def _unaffordable(self, said: _Said) -> Iterator[str]:
        """What is wrong with the marks, the pause and the ε spent."""
        share, cost = self._monitor.shares[said.location], self._cost[said.location]
        if self._all_is_spent(said):
            return
        known = self._marks.get(said.location)
        if known is None:
            known = [mark for mark in _marks(said.value["answers"]) if mark.tick < said.tick]
        running = [mark for mark in known if mark.until >= said.tick]
        spent = sum((mark.epsilon for mark in running), Fraction(0))
        affordable = spent + cost <= share
        if said.status == "paused" and affordable:
            yield "paused, and the next answer is affordable"
        elif said.status != "paused" and not affordable:
            yield f"not paused, and the next answer is not affordable: {spent} of {share} is spent"
        if said.status == "paused" and not affordable:
            resumes = _resumes(running, share - cost, said.tick)
            if not is_utc(said.value["resumes_at"], self._terms.grid.as_of(resumes)):
                yield f"resumes_at is not the as_of of tick {resumes}, the next that can answer"
        if said.status == "noisy_count":
            until = said.tick + self._monitor.mark_lifetime - 1
            running.append(Mark(said.tick, said.value["noisy_count"], cost, until))
            if spent + cost > share:
                yield f"ε of the answers that run is {spent + cost}, more than the location's {share}"
        self._marks[said.location] = running
        if _marks(said.value["answers"]) != running:
            yield "answers are not the noisy answers that run, each until tick + W + F - 1"


def _chance(cost: Fraction, above: int) -> float:
    return math.exp(-float(cost * above))


def _resumes(running: list[Mark], free_at: Fraction, tick: int) -> int:
    """The first tick after this one at which the ε of the marks that still run leaves room for an answer."""
    ends = sorted({mark.until + 1 for mark in running} | {tick + 1})
    return next(
        end
        for end in ends
        if end > tick and sum((mark.epsilon for mark in running if mark.until >= end), Fraction(0)) <= free_at
    )


def _marks(said: Any) -> list[Mark]:
    return [Mark(one["tick"], one["noisy_count"], epsilon(one["epsilon"]), one["until"]) for one in said]
