"""Check lower bounds: drawn once per designated time and shard, and never above the people who consented."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from monitor.tools.audit.counts import PeopleAtTimes
from monitor.tools.audit.fields import Fields, check_whole
from monitor.tools.audit.findings import BUDGET, FORM, LEAST, Findings
from monitor.tools.audit.history import History
from monitor.tools.audit.terms import AtTimesTerms, AuditTerms

_FIELDS = ("at_least_epsilon", "counts_at_least")


class BoundsDrawing(NamedTuple):
    """The lower bounds of a designated time and shard. They count visits reported up to the slot `last_report`."""

    time: int
    shard: int
    tick: int
    last_report: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """The lower bounds that a snapshot may have. `epsilon` and `counts` are None if it has none.

    `may_draw`: the snapshot is final and complete.
    """

    drawing: BoundsDrawing
    may_draw: bool
    epsilon: str | None
    counts: dict[str, int] | None


def read_bounds(drawing: BoundsDrawing, fields: Fields, *, complete: bool) -> Bounds:
    """Read the lower bounds of a snapshot.

    Raises:
        FormError: a field is missing, or is not in the form of the interface.
    """
    may_draw = fields.read_flag("final") and complete
    if not any(name in fields for name in _FIELDS):
        return Bounds(drawing, may_draw, None, None)
    counts = fields.read_table("counts_at_least")
    for bound in counts.values():
        check_whole(bound, "counts_at_least", 1)
    return Bounds(drawing, may_draw, fields.read_text("at_least_epsilon"), counts)


class AtLeastCheck:
    """The check of one monitor's lower bounds, snapshot by snapshot in order of tick.

    `answers` lists the drawings, and `bounds` is the number of bounds that were compared with the recount. While
    `whole_input` is False, bounds are not compared, because the recount may lack people. If output has expired, or the
    number of shards has changed, missing bounds are no finding, because they may have been published before.
    """

    def __init__(
        self,
        terms: AuditTerms,
        monitor: AtTimesTerms,
        presence: PeopleAtTimes | None,
        history: History,
        findings: Findings,
    ) -> None:
        self._terms = terms
        self._monitor = monitor
        self._presence = presence
        self._findings = findings
        self._whole_output = history.marks.whole
        self._drawn = history.bounds_drawn
        self.whole_input = True
        self.answers: list[BoundsDrawing] = []
        self.bounds = 0

    def take(self, bounds: Bounds, where: str) -> None:
        """Check the next snapshot."""
        drawing = bounds.drawing
        is_due = bounds.may_draw and self._monitor.at_least is not None
        subject = self._monitor.name, drawing.time, drawing.shard, self._terms.shards
        if bounds.counts is None:
            if is_due and self._whole_output and not self._may_be_drawn(subject):
                self._findings.add(FORM, f"{where}: the final snapshot has no lower bounds")
            return
        if not is_due:
            self._findings.add(BUDGET, f"{where}: it has lower bounds, expected only in a complete final snapshot")
        if subject in self._drawn:
            self._findings.add(BUDGET, f"{where}: the lower bounds are drawn a second time")
        self._drawn.add(subject)
        self.answers.append(drawing)
        if bounds.epsilon != str(self._monitor.at_least):
            self._findings.add(FORM, f"{where}: at_least_epsilon is not that of the configuration")
        for location in bounds.counts:
            if not self._is_in_shard(drawing, location):
                text = f"{self._terms.name_location(location)}: the location is not in this shard"
                self._findings.add(FORM, f"{where}, {text}")

    def _may_be_drawn(self, subject: tuple[str, int, int, int]) -> bool:
        """Return whether the bounds may have been published before, by this shard or under another number of shards."""
        name, time, _shard, shards = subject
        return subject in self._drawn or any(
            (other, at) == (name, time) and number != shards for other, at, _, number in self._drawn
        )

    def prove(self, bounds: Bounds, where: str) -> None:
        """Compare the bounds of a snapshot that `take` has checked with the recount."""
        if self._presence is None or not self.whole_input:
            return
        drawing = bounds.drawing
        for location, bound in (bounds.counts or {}).items():
            if not self._is_in_shard(drawing, location):
                continue
            self.bounds += 1
            people = self._presence.count_consenting(drawing.time, self._terms.rows[location], drawing.last_report)
            if bound > people:
                self._findings.add(LEAST, f"{where}, {location}: fewer people consented than the lower bound")

    def forget(self, tick: int) -> None:
        """Forget the drawings before a tick."""
        self.answers = [answer for answer in self.answers if answer.tick >= tick]

    def _is_in_shard(self, drawing: BoundsDrawing, location: str) -> bool:
        row = self._terms.rows.get(location)
        return row is not None and self._terms.shard[row] == drawing.shard
