"""The audit of snapshots about designated times (docs/rules.md, section 4), and of the lower bounds in them.

Each noisy count is drawn once, and so are the lower bounds. After a noisy count, only people who were reported since
are counted. A lower bound is never above the number of people who consented.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from monitor.audit.findings import BUDGET, FORM, LEAST, NOISY, SAFE, TICKS
from monitor.audit.history import History, Memory
from monitor.audit.kinds.base.designated_times import Presence, Timed, TimedMonitor, parse_timed
from monitor.audit.kinds.base.monitor import Check, Part, Prove, Scope
from monitor.audit.parse_values import format_utc, parse_epsilon
from monitor.audit.record_fields import FormError, Instant, People, Positive, Record, Whole
from monitor.audit.shared_terms import SharedTerms
from monitor.audit.visits import AcceptedVisit


class Number(Struct, frozen=True):
    """A noisy count of a location. Without `epsilon`, all ε of the location is spent."""

    tick: Whole
    noisy_count: People
    epsilon: Fraction | None = None


class NoisyCount(Number, frozen=True):
    """The noisy counts of a location in a snapshot. This is the first one.

    `counted_since`: this tick counted only people reported at or after this instant.
    """

    later: tuple[Number, ...] = ()
    counted_since: Instant | None = None

    def __post_init__(self) -> None:
        """Check the order of the noisy counts."""
        if any(number.tick >= after.tick for number, after in pairwise(self.numbers)):
            raise ValueError

    @property
    def numbers(self) -> tuple[Number, ...]:
        """The noisy counts, by tick."""
        return Number(self.tick, self.noisy_count, self.epsilon), *self.later


class AtTimes(Timed, frozen=True, kw_only=True):
    """A snapshot of one shard. Only the one that draws lower bounds has the last two fields."""

    shard: People
    shards: Positive
    threshold: Positive
    noisy_counts: dict[str, NoisyCount]
    answers_per_time: Positive = 1
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
        known = history.recall(Snapshots).known.setdefault((self.monitor, self.time), {})
        known.update({location: noisy.numbers for location, noisy in self.noisy_counts.items()})

    @property
    def below_since(self) -> int:
        """The number of locations that are below the threshold since a noisy count."""
        counted = (noisy for noisy in self.noisy_counts.values() if noisy.counted_since is not None)
        return sum(noisy.numbers[-1].tick != self.tick for noisy in counted)


class Snapshots(Memory):
    """What earlier snapshots say.

    `known` has the noisy counts about a designated time by monitor and τ, then by location. `bounds_drawn` has
    (monitor, τ, shard, number of shards) of lower bounds.
    """

    def __init__(self) -> None:
        self.known: dict[tuple[str, int], dict[str, tuple[Number, ...]]] = {}
        self.bounds_drawn: set[tuple[str, int, int, int]] = set()
        self._shards: set[tuple[str, int, int, int]] = set()

    def get_noisy_counts(self, snapshot: AtTimes, *, whole: bool) -> dict[str, tuple[Number, ...]]:
        """Return the noisy counts about a designated time by location, to which the caller adds new ones.

        Locations can change their shards when the configuration changes, so the counts of all shards are together. If
        earlier records are not known (`whole` is False), the first snapshot of a shard is correct about them.
        """
        known = self.known.setdefault((snapshot.monitor, snapshot.time), {})
        subject = (snapshot.monitor, snapshot.time, snapshot.shard, snapshot.shards)
        if subject not in self._shards and not whole:
            for location in snapshot.noisy_counts.keys() - known.keys():
                numbers = snapshot.noisy_counts[location].numbers
                known[location] = tuple(number for number in numbers if number.tick < snapshot.tick)
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


class StampedPresence(Presence):
    """The people reported to be at each location, with the slots of all their reports if a location has several counts.

    `_stamps` has these slots, by τ, row and person. It is empty if a location has one noisy count: no count follows it.
    """

    def __init__(self, monitor: AtTimesMonitor, terms: SharedTerms) -> None:
        super().__init__(monitor, terms)
        self._counts_afresh = monitor.answers_per_time > 1
        self._stamps: dict[int, dict[int, dict[int, set[int]]]] = {}

    def add_at(self, time: int, visit: AcceptedVisit) -> None:
        """Add a visit that covers τ."""
        super().add_at(time, visit)
        if self._counts_afresh:
            people = self._stamps.setdefault(time, {}).setdefault(visit.row, {})
            people.setdefault(visit.person, set()).add(visit.current)

    def forget_before(self, time: int) -> None:
        """Forget the designated times before an instant."""
        super().forget_before(time)
        self._stamps = {at: people for at, people in self._stamps.items() if at >= time}

    def count_answered(self, form: AtTimes, row: int, since: Instant | None) -> int:
        """Return the number of people that a snapshot counts at a location: all, or those reported at `since` or later.

        Those who are reported at its as_of or later are not counted.
        """
        if since is None or not self._counts_afresh:
            return self.count(form.time, row, form.tick)
        first, people = self._grid.find_slot(since), self._stamps.get(form.time, {}).get(row, {})
        return sum(any(first <= slot <= form.tick for slot in slots) for slots in people.values())


@dataclass(frozen=True)
class AtTimesMonitor(TimedMonitor[StampedPresence]):
    """A monitor of kind `at_times`: T people, k, and the ε of lower bounds (None without them)."""

    kind = "at_times"
    answers = AtTimes
    public = frozenset({"answers_per_time", "epsilon", "registry", "shards", "threshold"})
    charged = ("at_times", "at_least")

    threshold: int
    answers_per_time: int = 1
    at_least: Fraction | None = None

    @property
    def cost(self) -> Fraction:
        """The ε of one noisy count."""
        return self.epsilon / self.answers_per_time

    def may_answer(self, numbers: Iterable[Number]) -> bool:
        """Return whether a location with these noisy counts has the ε of another one."""
        spent = (self.epsilon if number.epsilon is None else number.epsilon for number in numbers)
        return sum(spent, self.cost) <= self.epsilon

    @classmethod
    def parse(cls, keys: Any, terms: SharedTerms) -> AtTimesMonitor:
        """Parse the keys of a monitor."""
        del terms
        bounds = keys.get("at_least")
        at_least = None if bounds is None else parse_epsilon(bounds["epsilon"])
        answers = int(keys.get("answers_per_time", 1))
        return cls(**parse_timed(keys), threshold=int(keys["threshold"]), answers_per_time=answers, at_least=at_least)

    def list_charges(self) -> Iterator[Hashable]:
        """Yield the charge of all designated times, and that of lower bounds."""
        yield from super().list_charges()
        if self.at_least is not None:
            yield self.state_charge("at_least", self.at_least)

    def create_counts(self, terms: SharedTerms) -> StampedPresence:
        """Create an empty recount."""
        return StampedPresence(self, terms)

    def create_check(self, scope: Scope, counts: StampedPresence | None) -> Check:
        """Create the check."""
        return AtTimesCheck(self, scope, counts)


class AtTimesCheck(Check):
    """The check of one monitor's snapshots. `safe` is the number of "safe" answers in complete snapshots."""

    def __init__(self, monitor: AtTimesMonitor, scope: Scope, presence: StampedPresence | None) -> None:
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
            self.safe += terms.shard_sizes[form.shard] - len(form.noisy_counts) + form.below_since
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
            "answers_per_time": monitor.answers_per_time,
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
            self._prove_safe(presence.count(form.time, row, form.tick), where, location)
        for location, noisy in form.noisy_counts.items():
            latest, row_of = noisy.numbers[-1], self._terms.rows.get(location)
            if row_of is None or (latest.tick != form.tick and noisy.counted_since is None):
                continue
            exact = presence.count_answered(form, row_of, noisy.counted_since)
            if latest.tick == form.tick:
                self._count_alarm(exact, threshold)
                if exact > latest.noisy_count:
                    self._findings.add(NOISY, f"{where}, {location}: there were more people than the noisy count")
            elif form.status == "complete":
                self._prove_safe(exact, where, location)
        if presence.whole:
            self._prove_bounds(form, where, presence)

    def _prove_safe(self, exact: int, where: str, location: str) -> None:
        if exact >= self._monitor.threshold:
            text = f'"safe" is false for {location}, there were {self._monitor.threshold} people or more'
            self._findings.add(SAFE, f"{where}: {text}")

    def _prove_bounds(self, form: AtTimes, where: str, presence: Presence) -> None:
        bounds = {} if form.counts_at_least is UNSET else form.counts_at_least
        for location in self._select_shard(bounds, form.shard):
            self.bounds += 1
            people = presence.count_consenting(form.time, self._terms.rows[location], form.tick)
            if bounds[location] > people:
                self._findings.add(LEAST, f"{where}, {location}: fewer people consented than the lower bound")

    def _check_changes(self, partition: int, form: AtTimes, where: str) -> None:
        """Compare with the earlier noisy counts. Each is drawn once, at a complete tick, and never changes."""
        known = self._snapshots.get_noisy_counts(form, whole=self._history.whole)
        for location in sorted(self._select_shard(known, form.shard) | form.noisy_counts.keys()):
            before = known.get(location, ())
            for text in self._find_altered(partition, form, location, before):
                self._findings.add(BUDGET, f"{where}: {text}")
            if location not in form.noisy_counts:
                continue
            noisy, ticks = form.noisy_counts[location], {number.tick for number in before}
            new = [number for number in noisy.numbers if number.tick not in ticks]
            known[location] = (*before, *new)
            for number in new:
                self._history.note_drawn(partition, (self._monitor.name, form.time, location, number.tick))
                self._check_new(form, where, location, number)
            for text in self._find_unaffordable(form, noisy, before, new):
                self._findings.add(BUDGET, f"{where}, {self._terms.name_location(location)}: {text}")

    def _find_altered(self, partition: int, form: AtTimes, location: str, before: Iterable[Number]) -> Iterator[str]:
        """Yield an error for each earlier noisy count of a location that is gone or has changed."""
        noisy, name = form.noisy_counts.get(location), self._terms.name_location(location)
        given = {} if noisy is None else {number.tick: number for number in noisy.numbers}
        for number in before:
            drawn = (self._monitor.name, form.time, location, number.tick)
            if number.tick not in given:
                if form.status == "complete" or not self._history.is_unsigned(partition, drawn):
                    yield f"the noisy count of {name} is gone"
            elif given[number.tick] != number:
                yield f"the noisy count of {name} has changed"

    def _find_unaffordable(
        self, form: AtTimes, noisy: NoisyCount, before: tuple[Number, ...], new: list[Number]
    ) -> Iterator[str]:
        """Yield the errors in the ε of the new noisy counts, and in the start of the count.

        After a noisy count, a count begins with the records that were stamped after its tick, so that no record pays
        twice. When the ε is spent, nothing is counted.
        """
        monitor = self._monitor
        for number in new:
            if number.epsilon != (monitor.cost if monitor.answers_per_time > 1 else None):
                yield "the ε of the noisy count is not ε/k"
        if new and not monitor.may_answer(before):
            yield f"the ε of its noisy counts is more than the monitor's {monitor.epsilon}"
        start = self._find_start(form, before)
        if noisy.counted_since == start:
            return
        if start is None:
            yield "counted_since is given, and nothing was counted since a noisy answer"
        else:
            yield "counted_since is not the as_of of its latest noisy count"

    def _find_start(self, form: AtTimes, before: Iterable[Number]) -> int | None:
        """Return the as_of since which a snapshot counts a location with earlier noisy counts; None if it does not."""
        latest = max((number.tick for number in before), default=form.tick)
        counts = form.status == "complete" and latest < form.tick and self._monitor.may_answer(before)
        return self._terms.grid.as_of(latest) if counts else None

    def _check_new(self, form: AtTimes, where: str, location: str, number: Number) -> None:
        where = f"{where}, {self._terms.name_location(location)}"
        if not self._select_shard([location], form.shard):
            self._findings.add(FORM, f"{where}: the location is not in this shard")
            return
        self.noisy += 1
        tick = number.tick
        self._payments.charge_time(self._terms, "at_times", self._monitor.name, form.time, self._monitor.epsilon, tick)
        if tick != form.tick or form.status != "complete":
            self._findings.add(BUDGET, f"{where}: the noisy count of tick {tick} was not published at that tick")
        if number.noisy_count < self._monitor.threshold:
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
