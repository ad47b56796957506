"""The audit of snapshots about designated times (docs/rules.md, section 4), and of the lower bounds in them.

Noisy counts and lower bounds are drawn once. A lower bound is never above the number of people who consented.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from monitor.audit.findings import BUDGET, FORM, LEAST, NOISY, SAFE, TICKS
from monitor.audit.history import History, Memory
from monitor.audit.kinds.designated_times import Presence, Timed, TimedMonitor, parse_timed
from monitor.audit.kinds.monitor import Check, Part, Prove, Scope
from monitor.audit.parsing import format_utc, parse_epsilon
from monitor.audit.records import FormError, People, Positive, Record, Whole
from monitor.audit.shared_terms import SharedTerms


class NoisyCount(Struct, frozen=True):
    """A noisy count in a snapshot."""

    tick: Whole
    noisy_count: People


class AtTimes(Timed, frozen=True, kw_only=True):
    """A snapshot of one shard. Only the one that draws lower bounds has the last two fields."""

    shard: People
    shards: Positive
    threshold: Positive
    noisy_counts: dict[str, NoisyCount]
    at_least_epsilon: Fraction | None = None
    counts_at_least: dict[str, Positive] | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Check that the bounds have their ε."""
        if (self.at_least_epsilon is None) is not (self.counts_at_least is UNSET):
            raise ValueError

    @property
    def subject(self) -> str:
        """The designated time and the shard."""
        return f"{format_utc(self.time)}/{self.shard}"

    def note_unjudged(self, history: History) -> None:
        """Note the noisy counts as they are."""
        history.recall(Snapshots).known.setdefault((self.monitor, self.time), {}).update(self.noisy_counts)


class Snapshots(Memory):
    """What earlier snapshots say.

    `known` has the noisy counts about a designated time by monitor and τ, then by location. `bounds_drawn` has
    (monitor, τ, shard, number of shards) of lower bounds.
    """

    def __init__(self) -> None:
        self.known: dict[tuple[str, int], dict[str, NoisyCount]] = {}
        self.bounds_drawn: set[tuple[str, int, int, int]] = set()
        self._shards: set[tuple[str, int, int, int]] = set()

    def get_noisy_counts(self, snapshot: AtTimes, *, whole: bool) -> dict[str, NoisyCount]:
        """Return the noisy counts about a designated time by location, to which the caller adds new ones.

        Locations can change their shards when the configuration changes, so the counts of all shards are together. If
        earlier records are not known (`whole` is False), the first snapshot of a shard is correct about them.
        """
        known = self.known.setdefault((snapshot.monitor, snapshot.time), {})
        subject = (snapshot.monitor, snapshot.time, snapshot.shard, snapshot.shards)
        if subject not in self._shards and not whole:
            earlier = {name: count for name, count in snapshot.noisy_counts.items() if count.tick < snapshot.tick}
            known.update({name: count for name, count in earlier.items() if name not in known})
        self._shards.add(subject)
        return known

    def may_have_bounds(self, snapshot: AtTimes) -> bool:
        """Return whether the bounds may have been published before, by this shard or under another number of shards."""
        return any(
            (monitor, time) == (snapshot.monitor, snapshot.time)
            and (shard == snapshot.shard or shards != snapshot.shards)
            for monitor, time, shard, shards in self.bounds_drawn
        )

    def forget(self, time: int) -> None:
        """Forget the designated times before an instant."""
        self.known = {subject: counts for subject, counts in self.known.items() if subject[1] >= time}
        self._shards = {subject for subject in self._shards if subject[1] >= time}
        self.bounds_drawn = {subject for subject in self.bounds_drawn if subject[1] >= time}


@dataclass(frozen=True)
class AtTimesMonitor(TimedMonitor[Presence]):
    """A monitor of kind `at_times`: T people, and the ε of lower bounds (None without them)."""

    kind = "at_times"
    answers = AtTimes
    public = frozenset({"epsilon", "registry", "shards", "threshold"})
    charged = ("at_times", "at_least")

    threshold: int
    at_least: Fraction | None = None

    @classmethod
    def parse(cls, keys: Any, terms: SharedTerms) -> AtTimesMonitor:
        """Parse the keys of a monitor."""
        del terms
        bounds = keys.get("at_least")
        at_least = None if bounds is None else parse_epsilon(bounds["epsilon"])
        return cls(**parse_timed(keys), threshold=int(keys["threshold"]), at_least=at_least)

    def list_charges(self) -> Iterator[Hashable]:
        """Yield the charge of all designated times, and that of lower bounds."""
        yield from super().list_charges()
        if self.at_least is not None:
            yield self.state_charge("at_least", self.at_least)

    def create_counts(self, terms: SharedTerms) -> Presence:
        """Create an empty recount."""
        return Presence(self, terms)

    def create_check(self, scope: Scope, counts: Presence | None) -> Check:
        """Create the check."""
        return AtTimesCheck(self, scope, counts)


class AtTimesCheck(Check):
    """The check of one monitor's snapshots. `safe` is the number of "safe" answers in complete snapshots."""

    def __init__(self, monitor: AtTimesMonitor, scope: Scope, presence: Presence | None) -> None:
        super().__init__(scope)
        self._monitor, self._presence = monitor, presence
        self._snapshots = self._history.recall(Snapshots)

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

    def expect_records(self, tick: int, part: Part, found: int) -> int:
        """Return one record per shard of a partition and designated time that this tick is about."""
        del found
        as_of = self._terms.grid.as_of(tick)
        times = self._monitor.find_times(as_of - self._monitor.horizon, as_of)
        return sum(map(part.has, range(self._terms.shards))) * len(times)

    def _prove(self, form: AtTimes, where: str) -> None:
        presence, threshold = self._presence, self._monitor.threshold
        if presence is None:
            return
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
            self._count_alarm(exact, threshold)
            if exact > noisy.noisy_count:
                self._findings.add(NOISY, f"{where}, {location}: there were more people than the noisy count")
        if presence.whole:
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
        known, about = (
            self._snapshots.get_noisy_counts(form, whole=self._history.whole),
            (self._monitor.name, form.time),
        )
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
        monitor, drawn = self._monitor, self._snapshots.bounds_drawn
        is_due = form.final and form.status == "complete" and monitor.at_least is not None
        subject = monitor.name, form.time, form.shard, self._terms.shards
        if form.counts_at_least is UNSET:
            if is_due and self._history.whole and not self._snapshots.may_have_bounds(form):
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
