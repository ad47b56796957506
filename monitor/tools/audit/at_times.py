"""Check the snapshots about designated times (docs/rules.md, section 4), and the lower bounds in them.

Noisy counts and lower bounds are drawn once. A lower bound is never above the number of people who consented.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from monitor.tools.audit.check import Check, Prove, Scope
from monitor.tools.audit.fields import Fields, check_whole
from monitor.tools.audit.findings import BUDGET, FORM, LEAST, NOISY, SAFE, TICKS
from monitor.tools.audit.records import PublishedRecord, check_envelope, check_facts
from monitor.tools.audit.recount import Presence
from monitor.tools.audit.terms import AtTimesTerms
from monitor.tools.audit.text import format_utc


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """A snapshot of one designated time, shard and tick. `where` identifies it in findings.

    `noisy_counts`: the tick and the noisy count of each location that has one. `at_least`: the ε and the lower bounds,
    if it has any. `may_bound`: it is final and complete, so it may have lower bounds.
    """

    time: int
    shard: int
    tick: int
    where: str
    status: str
    noisy_counts: dict[str, tuple[int, int]]
    may_bound: bool
    at_least: tuple[str, dict[str, int]] | None


class AtTimesCheck(Check):
    """The check of one monitor's snapshots. `safe` is the number of "safe" answers in complete snapshots."""

    def __init__(self, monitor: AtTimesTerms, scope: Scope) -> None:
        super().__init__(scope)
        self._monitor = monitor
        self._due: tuple[int, frozenset[int]] = (0, frozenset())

    def take(self, record: PublishedRecord) -> Prove | None:
        """Check the next record."""
        fields = Fields(record.value)
        shard = fields.read_whole("shard", 0, self._terms.shards - 1)
        time, tick = fields.read_instant("time"), fields.read_tick("tick", self._terms.grid)
        key = f"{self._monitor.name}/{format_utc(time)}/{shard}"
        if time not in self._find_times_due(tick):
            text = f"{key}, tick {tick}: the time is not designated, or not evaluated at this tick"
            self._findings.add(TICKS, text)
            return None
        in_order = self._history.sequence.see((self._monitor.name, time, shard), key, tick)
        snapshot = self._read(fields, time, shard, tick)
        self.statuses[snapshot.status] += 1
        self._check_form(record, key, snapshot)
        if snapshot.status == "complete":
            self.safe += self._terms.shard_sizes[shard] - len(snapshot.noisy_counts)
        if in_order:
            self._check_changes(snapshot, snapshot.noisy_counts)
            self._check_bounds(snapshot)
        return partial(self._prove, snapshot)

    def _read(self, fields: Fields, time: int, shard: int, tick: int) -> _Snapshot:
        where = f"{self._monitor.name}/{format_utc(time)}/{shard}, tick {tick}"
        status = fields.read_choice("status", "complete", "unknown")
        counts = {name: Fields(count) for name, count in fields.read_table("noisy_counts").items()}
        noisy = {
            name: (count.read_tick("tick", self._terms.grid), count.read_whole("noisy_count", 0))
            for name, count in counts.items()
        }
        may_bound = fields.read_flag("final") and status == "complete"
        return _Snapshot(time, shard, tick, where, status, noisy, may_bound, _read_bounds(fields))

    def _prove(self, snapshot: _Snapshot) -> None:
        if self._recount is None:
            return
        presence, threshold = self._recount.presence[self._monitor.name], self._monitor.threshold
        noisy = snapshot.noisy_counts
        crowded = presence.list_rows_at(snapshot.time, threshold) if snapshot.status == "complete" else ()
        for row in crowded:
            location = self._terms.locations[row]
            if location in noisy or self._terms.shard[row] != snapshot.shard:
                continue
            if presence.count(snapshot.time, row, snapshot.tick) >= threshold:
                text = f'"safe" is false for {location}, there were {threshold} people or more'
                self._findings.add(SAFE, f"{snapshot.where}: {text}")
        for location, (tick, count) in noisy.items():
            row_of = self._terms.rows.get(location)
            if tick == snapshot.tick and row_of is not None and presence.count(snapshot.time, row_of, tick) > count:
                self._findings.add(NOISY, f"{snapshot.where}, {location}: there were more people than the noisy count")
        if snapshot.at_least is not None and self._recount.whole:
            self._prove_bounds(snapshot, snapshot.at_least[1], presence)

    def _prove_bounds(self, snapshot: _Snapshot, bounds: dict[str, int], presence: Presence) -> None:
        for location in self._select_shard(bounds, snapshot.shard):
            self.bounds += 1
            people = presence.count_consenting(snapshot.time, self._terms.rows[location], snapshot.tick)
            if bounds[location] > people:
                self._findings.add(LEAST, f"{snapshot.where}, {location}: fewer people consented than the lower bound")

    def finish(self, first: int, last: int) -> None:
        """Check that each designated time has a snapshot in every shard at every tick of its horizon."""
        grid = self._terms.grid
        for time in self._monitor.find_times(grid.as_of(first) - self._monitor.horizon, grid.as_of(last)):
            began, ended = self._monitor.find_ticks(time, grid)
            for shard in range(self._terms.shards):
                name = f"{self._monitor.name}/{format_utc(time)}/{shard}"
                subject = (self._monitor.name, time, shard)
                self._history.sequence.expect(subject, name, max(first, began), min(last, ended))

    def _find_times_due(self, tick: int) -> frozenset[int]:
        """Return the designated times with τ < as_of ≤ τ + horizon. The result for the latest tick is cached."""
        if not self._due[1] or self._due[0] != tick:
            as_of = self._terms.grid.as_of(tick)
            self._due = tick, frozenset(self._monitor.find_times(as_of - self._monitor.horizon, as_of))
        return self._due[1]

    def _check_form(self, record: PublishedRecord, key: str, snapshot: _Snapshot) -> None:
        terms, monitor = self._terms, self._monitor
        check_envelope(record, terms, key, snapshot.tick, self._findings)
        facts = {
            "kind": "at_times",
            "shards": terms.shards,
            "final": snapshot.tick == monitor.find_ticks(snapshot.time, terms.grid)[1],
            "registry": terms.digest,
            "locations": terms.shard_sizes[snapshot.shard],
            "threshold": monitor.threshold,
            "epsilon": str(monitor.epsilon),
        }
        check_facts(record, key, snapshot.tick, facts, self._findings)

    def _check_changes(self, snapshot: _Snapshot, noisy: dict[str, tuple[int, int]]) -> None:
        """Compare with the earlier noisy counts. Each is drawn once, at a complete tick, and never changes."""
        before = {location: count for location, count in noisy.items() if count[0] < snapshot.tick}
        shard = snapshot.shard, self._terms.shards
        known = self._history.noisy.get_known(self._monitor.name, snapshot.time, shard, before)
        for location in self._select_shard(known, snapshot.shard) - noisy.keys():
            self._findings.add(BUDGET, f"{snapshot.where}: the noisy count of {location} is gone")
        for location, (tick, count) in noisy.items():
            if location not in known:
                known[location] = tick, count
                self._check_new(snapshot, location, tick, count)
            elif known[location] != (tick, count):
                text = f"the noisy count of {self._terms.name_location(location)} has changed"
                self._findings.add(BUDGET, f"{snapshot.where}: {text}")

    def _select_shard(self, locations: Iterable[str], shard: int) -> set[str]:
        """Return the locations that the registry assigns to a shard."""
        rows, shards = self._terms.rows, self._terms.shard
        return {name for name in locations if name in rows and shards[rows[name]] == shard}

    def _check_new(self, snapshot: _Snapshot, location: str, tick: int, count: int) -> None:
        where = f"{snapshot.where}, {self._terms.name_location(location)}"
        row = self._terms.rows.get(location)
        if row is None or self._terms.shard[row] != snapshot.shard:
            self._findings.add(FORM, f"{where}: the location is not in this shard")
            return
        self.noisy += 1
        self._answers.add("at_times", self._monitor.name, (snapshot.time, row), self._monitor.epsilon, tick)
        if tick != snapshot.tick or snapshot.status != "complete":
            self._findings.add(BUDGET, f"{where}: the noisy count of tick {tick} was not published at that tick")
        if count < self._monitor.threshold:
            self._findings.add(NOISY, f"{where}: the noisy count is below the threshold")

    def _check_bounds(self, snapshot: _Snapshot) -> None:
        """Check that lower bounds are drawn once, at the final tick, with the configured ε."""
        monitor, where, drawn = self._monitor, snapshot.where, self._history.bounds_drawn
        is_due = snapshot.may_bound and monitor.at_least is not None
        subject = monitor.name, snapshot.time, snapshot.shard, self._terms.shards
        if snapshot.at_least is None:
            if is_due and self._history.marks.whole and not self._may_be_drawn(subject):
                self._findings.add(FORM, f"{where}: the final snapshot has no lower bounds")
            return
        epsilon, bounds = snapshot.at_least
        if not is_due:
            self._findings.add(BUDGET, f"{where}: it has lower bounds, expected only in a complete final snapshot")
        if subject in drawn:
            self._findings.add(BUDGET, f"{where}: the lower bounds are drawn a second time")
        drawn.add(subject)
        if monitor.at_least is not None:
            about = snapshot.time, snapshot.shard
            self._answers.add("at_least", monitor.name, about, monitor.at_least, snapshot.tick)
        if epsilon != str(monitor.at_least):
            self._findings.add(FORM, f"{where}: at_least_epsilon is not that of the configuration")
        for location in bounds.keys() - self._select_shard(bounds, snapshot.shard):
            text = f"{self._terms.name_location(location)}: the location is not in this shard"
            self._findings.add(FORM, f"{where}, {text}")

    def _may_be_drawn(self, subject: tuple[str, int, int, int]) -> bool:
        """Return whether the bounds may have been published before, by this shard or under another number of shards.

        Missing bounds are then no finding.
        """
        name, time, _shard, shards = subject
        return subject in self._history.bounds_drawn or any(
            (other, at) == (name, time) and number != shards for other, at, _, number in self._history.bounds_drawn
        )


def _read_bounds(fields: Fields) -> tuple[str, dict[str, int]] | None:
    """Read the ε and the lower bounds of a snapshot; None if it has none. Raise FormError for another form."""
    if not any(name in fields for name in ("at_least_epsilon", "counts_at_least")):
        return None
    bounds = fields.read_table("counts_at_least")
    for bound in bounds.values():
        check_whole(bound, "counts_at_least", 1)
    return fields.read_text("at_least_epsilon"), bounds
