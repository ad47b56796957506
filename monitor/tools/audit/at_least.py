"""Check lower bounds: drawn once per designated time and shard, and never above the people who consented."""

from __future__ import annotations

from dataclasses import dataclass, replace

from monitor.tools.audit.check import Scope
from monitor.tools.audit.fields import Fields, check_whole
from monitor.tools.audit.findings import BUDGET, FORM, LEAST
from monitor.tools.audit.terms import AtTimesTerms

_FIELDS = ("at_least_epsilon", "counts_at_least")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The lower bounds that a snapshot may have. `epsilon` and `counts` are None if it has none.

    `may_draw`: the snapshot is final and complete. `where` identifies the snapshot in findings.
    """

    time: int
    shard: int
    tick: int
    where: str
    may_draw: bool
    epsilon: str | None = None
    counts: dict[str, int] | None = None


def read_bounds(bounds: Bounds, fields: Fields) -> Bounds:
    """Return the lower bounds with what a snapshot says about them.

    Raises:
        FormError: a field is missing, or is not in the form of the interface.
    """
    if not any(name in fields for name in _FIELDS):
        return bounds
    counts = fields.read_table("counts_at_least")
    for bound in counts.values():
        check_whole(bound, "counts_at_least", 1)
    return replace(bounds, epsilon=fields.read_text("at_least_epsilon"), counts=counts)


class AtLeastCheck:
    """The check of one monitor's lower bounds, snapshot by snapshot in order of tick.

    If output has expired, or the number of shards has changed, missing bounds are no finding, because they may have
    been published before.
    """

    def __init__(self, monitor: AtTimesTerms, scope: Scope) -> None:
        self._scope = scope
        self._terms = scope.terms
        self._monitor = monitor
        self._findings = scope.findings
        self._history = scope.history

    def take(self, bounds: Bounds) -> None:
        """Check the next snapshot."""
        where, at_least = bounds.where, self._monitor.at_least
        is_due = bounds.may_draw and at_least is not None
        subject = self._monitor.name, bounds.time, bounds.shard, self._terms.shards
        if bounds.counts is None:
            if is_due and self._history.marks.whole and not self._may_be_drawn(subject):
                self._findings.add(FORM, f"{where}: the final snapshot has no lower bounds")
            return
        if not is_due:
            self._findings.add(BUDGET, f"{where}: it has lower bounds, expected only in a complete final snapshot")
        if subject in self._history.bounds_drawn:
            self._findings.add(BUDGET, f"{where}: the lower bounds are drawn a second time")
        self._history.bounds_drawn.add(subject)
        if at_least is not None:
            place = bounds.time, bounds.shard
            self._scope.answers.add("at_least", self._monitor.name, place, at_least, bounds.tick)
        if bounds.epsilon != str(at_least):
            self._findings.add(FORM, f"{where}: at_least_epsilon is not that of the configuration")
        for location in bounds.counts:
            if not self._is_in_shard(bounds, location):
                text = f"{self._terms.name_location(location)}: the location is not in this shard"
                self._findings.add(FORM, f"{where}, {text}")

    def _may_be_drawn(self, subject: tuple[str, int, int, int]) -> bool:
        """Return whether the bounds may have been published before, by this shard or under another number of shards."""
        name, time, _shard, shards = subject
        return subject in self._history.bounds_drawn or any(
            (other, at) == (name, time) and number != shards for other, at, _, number in self._history.bounds_drawn
        )

    def prove(self, bounds: Bounds) -> int:
        """Compare the bounds of a snapshot that `take` has checked with the recount. Return how many were compared."""
        recount = self._scope.recount
        if recount is None or not recount.whole or bounds.counts is None:
            return 0
        compared = [location for location in bounds.counts if self._is_in_shard(bounds, location)]
        for location in compared:
            presence = recount.presence[self._monitor.name]
            people = presence.count_consenting(bounds.time, self._terms.rows[location], bounds.tick)
            if bounds.counts[location] > people:
                self._findings.add(LEAST, f"{bounds.where}, {location}: fewer people consented than the lower bound")
        return len(compared)

    def _is_in_shard(self, bounds: Bounds, location: str) -> bool:
        row = self._terms.rows.get(location)
        return row is not None and self._terms.shard[row] == bounds.shard
