"""Check the snapshots about designated times (docs/rules.md, section 4), and the lower bounds in them.

Noisy counts and lower bounds are drawn once. A lower bound is never above the number of people who consented.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from msgspec import UNSET

from monitor.audit.configuration import AtTimesTerms
from monitor.audit.findings import BUDGET, FORM, LEAST, NOISY, SAFE, TICKS
from monitor.audit.monitor_checks import Check, Prove, Scope
from monitor.audit.parsing import format_utc
from monitor.audit.records import AtTimes, FormError, Record
from monitor.audit.recount import Presence


class AtTimesCheck(Check):
    """The check of one monitor's snapshots. `safe` is the number of "safe" answers in complete snapshots."""

    def __init__(self, monitor: AtTimesTerms, scope: Scope) -> None:
        super().__init__(scope)
        self._monitor = monitor

    def take(self, record: Record) -> Prove | None:
        """Check the next record."""
        form, terms, monitor = record.form, self._terms, self._monitor
        if form.shard >= terms.shards:
            raise FormError("shard: the number is out of range")
        key = f"{monitor.name}/{format_utc(form.time)}/{form.shard}"
        where, as_of = f"{key}, tick {form.tick}", terms.grid.as_of(form.tick)
        if form.time not in monitor.find_times(as_of - monitor.horizon, as_of):
            self._findings.add(TICKS, f"{where}: the time is not designated, or not evaluated at this tick")
            return None
        in_order = self._history.note_tick((monitor.name, form.time, form.shard), key, form.tick)
        self.statuses[form.status] += 1
        self._check_facts(record, key)
        if form.status == "complete":
            self.safe += terms.shard_sizes[form.shard] - len(form.noisy_counts)
        if in_order:
            self._check_changes(record.partition, form, where)
            self._check_bounds(form, where)
        return partial(self._prove, form, where)

    def list_facts(self, form: AtTimes) -> dict[str, Any]:
        """Return the fields that follow from the configuration and the tick."""
        terms, monitor = self._terms, self._monitor
        return {
            "shards": terms.shards,
            "final": form.time in monitor.find_final_times(form.tick, terms.grid),
            "registry": terms.digest,
            "locations": terms.shard_sizes[form.shard],
            "threshold": monitor.threshold,
            "epsilon": monitor.epsilon,
        }

    def _prove(self, form: AtTimes, where: str) -> None:
        if self._recount is None:
            return
        presence, threshold = self._recount.presence[self._monitor.name], self._monitor.threshold
        for row in presence.list_rows_at(form.time, threshold) if form.status == "complete" else ():
            location = self._terms.locations[row]
            if location in form.noisy_counts or self._terms.shard[row] != form.shard:
                continue
            if presence.count(form.time, row, form.tick) >= threshold:
                text = f'"safe" is false for {location}, there were {threshold} people or more'
                self._findings.add(SAFE, f"{where}: {text}")
        for location, noisy in form.noisy_counts.items():
            row_of = self._terms.rows.get(location)
            if noisy.tick != form.tick or row_of is None:
                continue
            exact = presence.count(form.time, row_of, form.tick)
            self.false_alarms += exact < threshold
            if exact > noisy.noisy_count:
                self._findings.add(NOISY, f"{where}, {location}: there were more people than the noisy count")
        if self._recount.whole:
            self._prove_bounds(form, where, presence)

    def _prove_bounds(self, form: AtTimes, where: str, presence: Presence) -> None:
        bounds = {} if form.counts_at_least is UNSET else form.counts_at_least
        for location in self._select_shard(bounds, form.shard):
            self.bounds += 1
            people = presence.count_consenting(form.time, self._terms.rows[location], form.tick)
            if bounds[location] > people:
                self._findings.add(LEAST, f"{where}, {location}: fewer people consented than the lower bound")

    def _check_changes(self, partition: int, form: AtTimes, where: str) -> None:
        """Compare with the earlier noisy counts. Each is drawn once, at a complete tick, and never changes."""
        known, about = self._history.get_noisy_counts(form), (self._monitor.name, form.time)
        for location in self._select_shard(known, form.shard) - form.noisy_counts.keys():
            drawn = (*about, location, known[location].tick)
            if form.status == "complete" or not self._history.is_unsigned(partition, drawn):
                self._findings.add(BUDGET, f"{where}: the noisy count of {location} is gone")
        for location, noisy in form.noisy_counts.items():
            if location not in known:
                known[location] = noisy
                self._history.note_drawn(partition, (*about, location, noisy.tick))
                self._check_new(form, where, location)
            elif known[location] != noisy:
                text = f"the noisy count of {self._terms.name_location(location)} has changed"
                self._findings.add(BUDGET, f"{where}: {text}")

    def _check_new(self, form: AtTimes, where: str, location: str) -> None:
        where = f"{where}, {self._terms.name_location(location)}"
        if not self._select_shard([location], form.shard):
            self._findings.add(FORM, f"{where}: the location is not in this shard")
            return
        self.noisy += 1
        tick, count = form.noisy_counts[location].tick, form.noisy_counts[location].noisy_count
        self._payments.charge_time(self._terms, "at_times", self._monitor.name, form.time, self._monitor.epsilon, tick)
        if tick != form.tick or form.status != "complete":
            self._findings.add(BUDGET, f"{where}: the noisy count of tick {tick} was not published at that tick")
        if count < self._monitor.threshold:
            self._findings.add(NOISY, f"{where}: the noisy count is below the threshold")

    def _select_shard(self, locations: Iterable[str], shard: int) -> set[str]:
        """Return the locations that the registry assigns to a shard."""
        rows, shards = self._terms.rows, self._terms.shard
        return {name for name in locations if name in rows and shards[rows[name]] == shard}

    def _check_bounds(self, form: AtTimes, where: str) -> None:
        """Check that lower bounds are drawn once, at the final tick, with the configured ε."""
        monitor, drawn = self._monitor, self._history.bounds_drawn
        is_due = form.final and form.status == "complete" and monitor.at_least is not None
        subject = monitor.name, form.time, form.shard, self._terms.shards
        if form.counts_at_least is UNSET:
            if is_due and self._history.whole and not self._may_be_drawn(subject):
                self._findings.add(FORM, f"{where}: the final snapshot has no lower bounds")
            return
        if not is_due:
            self._findings.add(BUDGET, f"{where}: it has lower bounds, expected only in a complete final snapshot")
        if subject in drawn:
            self._findings.add(BUDGET, f"{where}: the lower bounds are drawn a second time")
        drawn.add(subject)
        if monitor.at_least is not None:
            self._payments.charge_time(self._terms, "at_least", monitor.name, form.time, monitor.at_least, form.tick)
            if form.at_least_epsilon != monitor.at_least:
                self._findings.add(FORM, f"{where}: at_least_epsilon is not that of the configuration")
        for location in form.counts_at_least.keys() - self._select_shard(form.counts_at_least, form.shard):
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
