"""The audit of answers about locations over time (docs/rules.md, section 3 and rule 2)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from monitor.audit.findings import BUDGET, NOISY, SAFE
from monitor.audit.kinds.base.monitor import Check, Counts, Prove, Scope, Use
from monitor.audit.kinds.base.places import (
    FreshCount,
    PeopleCount,
    PlaceAnswer,
    PlaceMemory,
    PlacesCheck,
    PlacesMonitor,
    parse_shares,
)
from monitor.audit.parse_values import parse_duration
from monitor.audit.record_fields import (
    FormError,
    Instant,
    People,
    Positive,
    Record,
    Whole,
)
from monitor.audit.shared_terms import Grid, SharedTerms
from monitor.audit.visits import AcceptedVisit

_P_VALUE_TOLERANCE: Final = 1e-9


class Mark(Struct, frozen=True):
    """A noisy answer whose ε counts as spent at its location up to the tick `until`."""

    tick: Whole
    noisy_count: People
    epsilon: Fraction
    until: Whole


class Marks(PlaceMemory[Mark]):
    """The marks of each location."""


class OverTime(PlaceAnswer, frozen=True, kw_only=True, tag_field="status"):
    """An answer about one location over time. Its subclass is its status."""

    memory = Marks

    counted_since: Instant | None = None
    """Only people reported at or after this instant are counted. None: all people in the window are."""
    threshold: Positive
    answers: list[Mark]

    @property
    def status(self) -> str:
        """The status."""
        return str(self.__struct_config__.tag)


class Safe(OverTime, frozen=True, kw_only=True, tag="safe"):
    """The location is safe."""


class Noisy(OverTime, frozen=True, kw_only=True, tag="noisy_count"):
    """The answer is a noisy count."""

    noisy_count: People
    count_at_most: People
    p_value: float


class Paused(OverTime, frozen=True, kw_only=True, tag="paused"):
    """The ε of the location is spent."""

    resumes_at: Instant


class Unknown(OverTime, frozen=True, kw_only=True, tag="unknown"):
    """The input was not complete."""


class OverTimeCounts(Counts):
    """The people in the window, by location.

    `fresh`: of those, who was reported after a slot. It is empty if a window has one noisy answer: no count follows it.
    """

    def __init__(self, monitor: OverTimeMonitor, terms: SharedTerms) -> None:
        self._window = monitor.window
        self.people = {location: PeopleCount() for location in monitor.shares}
        counts_afresh = monitor.answers_per_window > 1
        self.fresh = {location: FreshCount() for location in monitor.shares} if counts_afresh else {}
        self._by_row: dict[int, list[PeopleCount | FreshCount]] = {}
        for counts in (self.people, self.fresh):
            for location, count in counts.items():
                self._by_row.setdefault(terms.rows[location], []).append(count)

    def add(self, visit: AcceptedVisit) -> Use:
        """Add a visit. If it is reported in slot c with the last slot s, the ticks c … s + W - 1 count it."""
        counts = self._by_row.get(visit.row)
        if counts is None:
            return Use.NONE
        if visit.current >= visit.last + self._window:
            return Use.OUT_OF_WINDOW
        for count in counts:
            count.add(visit.person, visit.current, visit.last + self._window)
        return Use.IN_WINDOW

    def __len__(self) -> int:
        """Return the number of people that a later tick may count, once for each location."""
        return sum(map(len, self.people.values()))

    def forget(self, tick: int) -> None:
        """Forget the counts before a tick."""
        for counts in self._by_row.values():
            for count in counts:
                count.forget(tick)

    def at(self, form: OverTime, grid: Grid) -> int:
        """Return the number of people that an answer is about: those in its window, or those of them reported since."""
        if form.counted_since is None or not self.fresh:
            return self.people[form.location_id].at(form.tick)
        return self.fresh[form.location_id].at(form.tick, grid.find_slot(form.counted_since) - 1)


@dataclass(frozen=True)
class OverTimeMonitor(PlacesMonitor[OverTimeCounts]):
    """A monitor of kind `over_time`."""

    kind = "over_time"
    answers = Safe | Noisy | Paused | Unknown
    public = frozenset({"epsilon", "threshold"})

    answers_per_window: int
    """k."""
    threshold: int
    """T, in people."""

    @classmethod
    def parse(cls, keys: Any, terms: SharedTerms) -> OverTimeMonitor:
        """Parse the keys of a monitor."""
        window = parse_duration(keys["window"]) // terms.grid.slot
        answers, threshold = int(keys.get("answers_per_window", 1)), int(keys["threshold"])
        return cls(keys["name"], parse_shares(keys, terms), window, window + terms.max_lead, answers, threshold)

    @property
    def answers_per_share(self) -> int:
        """K."""
        return self.answers_per_window

    def create_counts(self, terms: SharedTerms) -> OverTimeCounts:
        """Create an empty recount."""
        return OverTimeCounts(self, terms)

    def create_check(self, scope: Scope, counts: OverTimeCounts | None) -> Check:
        """Create the check."""
        return OverTimeCheck(self, scope, counts)


class OverTimeCheck(PlacesCheck[OverTimeCounts]):
    """The check of one monitor's records."""

    def __init__(self, monitor: OverTimeMonitor, scope: Scope, counts: OverTimeCounts | None) -> None:
        super().__init__(monitor, scope, counts)
        self._monitor, self._marks = monitor, self._history.recall(Marks)

    def list_facts(self, form: OverTime) -> dict[str, Any]:
        """Return the fields that follow from the configuration and the tick."""
        facts = super().list_facts(form)
        return facts and {**facts, "threshold": self._monitor.threshold}

    def _check_ticks(self, form: OverTime) -> None:
        if not all(self._terms.grid.has(mark.until) for mark in form.answers):
            raise FormError("answers: the tick is out of range")

    def _judge(self, record: Record, where: str, *, in_order: bool) -> Prove:
        form, monitor = record.form, self._monitor
        self.safe += form.status == "safe"
        if isinstance(form, Noisy):
            self.noisy += 1
            cost = self._cost[form.location_id]
            self._payments.charge_window(self._terms, monitor.name, monitor.window, cost, form.tick)
            for text in self._find_inconsistent(form):
                self._findings.add(NOISY, f"{where}: {text}")
        if in_order:
            for text in self._find_unaffordable(record.partition, form):
                self._findings.add(BUDGET, f"{where}: {text}")
        return partial(self._prove, form, where)

    def _prove(self, form: OverTime, where: str) -> None:
        if self._counts is None:
            return
        exact, threshold = self._counts.at(form, self._terms.grid), self._monitor.threshold
        if form.status == "safe" and exact >= threshold:
            self._findings.add(SAFE, f'{where}: "safe" is false, there were {threshold} people or more')
        if isinstance(form, Noisy):
            self._count_alarm(exact, threshold)
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
        about = self._monitor.name, None, form.location_id
        share, cost = self._monitor.shares[form.location_id], self._cost[form.location_id]
        if self._is_paused_by_loss(partition, form):
            self._marks.set(self._monitor.name, form.location_id, form.answers)
            yield from self._find_wrong_start(form, [])
            return
        running = self._find_running_marks(form)
        spent = _sum_epsilon(running)
        yield from self._find_wrong_pause(form, running, spent)
        if spent + cost <= share or isinstance(form, Paused):
            yield from self._find_wrong_start(form, running)
        if isinstance(form, Noisy):
            until = form.tick + self._monitor.lifetime - 1
            running.append(Mark(form.tick, form.noisy_count, cost, until))
            self._history.note_drawn(partition, (*about, form.tick))
            if spent + cost > share:
                yield f"the ε of the answers that run is {spent + cost}, more than the location's {share}"
        self._marks.set(self._monitor.name, form.location_id, running)
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

    def _find_wrong_start(self, form: OverTime, running: list[Mark]) -> Iterator[str]:
        """Yield an error if the count begins too early, so that a record pays twice, or too late.

        While marks run, a count begins with the records that were stamped after the tick of the latest noisy answer.
        """
        counts = isinstance(form, Safe | Noisy) and bool(running)
        expected = self._terms.grid.as_of(running[-1].tick) if counts else None
        if form.counted_since == expected:
            return
        if expected is None:
            yield "counted_since is given, and nothing was counted since a noisy answer"
        else:
            yield f"counted_since is not the as_of of tick {running[-1].tick}, the latest noisy answer that runs"

    def _is_paused_by_loss(self, partition: int, form: OverTime) -> bool:
        """Return whether the location is paused because a ledger was lost. All its ε then counts as spent."""
        lost = self._history.lost_slots.get(partition)
        return lost is not None and form.tick < lost + self._monitor.lifetime and isinstance(form, Paused)

    def _find_running_marks(self, form: OverTime) -> list[Mark]:
        """Return the earlier marks that still run. If the lifetime of marks has grown, the marks are extended."""
        lifetime = self._monitor.lifetime
        known = self._marks.get(self._monitor.name, form.location_id, whole=self._history.whole)
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
