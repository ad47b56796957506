"""The audit of upper bounds: one number for each bucket, and the sum of the numbers (docs/rules.md, section 5)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from msgspec import Struct

from monitor.audit.findings import BUDGET, NOISY
from monitor.audit.kinds.base.monitor import Check, Counts, Prove, Scope, Use
from monitor.audit.kinds.base.places import (
    PeopleCount,
    PlaceAnswer,
    PlaceMemory,
    PlacesCheck,
    PlacesMonitor,
    parse_shares,
)
from monitor.audit.parse_values import parse_duration
from monitor.audit.record_fields import FormError, Instant, People, Positive, Record, Status, Whole
from monitor.audit.shared_terms import Grid, SharedTerms
from monitor.audit.visits import AcceptedVisit


class Number(Struct, frozen=True):
    """The number of the bucket whose last slot is `tick`. Its visits are in windows up to the tick `until`."""

    tick: Whole
    noisy_count: People
    epsilon: Fraction
    until: Whole
    bucket: Positive
    window: Positive

    def overlaps(self, other: Number) -> bool:
        """Return whether both buckets have a slot in common."""
        return self.tick - self.bucket < other.tick and other.tick - other.bucket < self.tick


class Drawn(Struct, frozen=True):
    """A number, and the tick of the record that published it first; None if that record was not read."""

    number: Number
    at: int | None


class Numbers(PlaceMemory[Drawn]):
    """The numbers of each location."""


class UpperBound(PlaceAnswer, frozen=True, kw_only=True):
    """An answer about one location at the end of a bucket."""

    memory = Numbers

    bucket_start: Instant
    status: Status
    numbers: list[Number]
    count_at_most: People | None = None


class BucketCounts(Counts):
    """The people by location and bucket, and those in the window, which the sum of the numbers must not be below."""

    def __init__(self, monitor: UpperBoundMonitor, terms: SharedTerms) -> None:
        self._monitor = monitor
        self.people = {location: PeopleCount() for location in monitor.shares}
        self._buckets: dict[str, dict[int, set[int]]] = {location: defaultdict(set) for location in monitor.shares}
        self._by_row = {terms.rows[location]: location for location in monitor.shares}

    def add(self, visit: AcceptedVisit) -> Use:
        """Add a visit. The bucket of its stamp counts it if it is in the window of the last slot of the bucket."""
        location, window, bucket = self._by_row.get(visit.row), self._monitor.window, self._monitor.bucket
        if location is None:
            return Use.NONE
        if visit.current >= visit.last + window:
            return Use.OUT_OF_WINDOW
        last = visit.current // bucket * bucket + bucket - 1
        if last < visit.last + window:
            self._buckets[location][last].add(visit.person)
        self.people[location].add(visit.person, visit.current, visit.last + window)
        return Use.IN_WINDOW

    def count(self, location: str, last: int) -> int:
        """Return the number of people in the bucket that ends with a slot."""
        return len(self._buckets[location].get(last, ()))

    def __len__(self) -> int:
        """Return the number of people that a later number may count, once for each location and bucket."""
        return sum(len(people) for buckets in self._buckets.values() for people in buckets.values())

    def forget(self, tick: int) -> None:
        """Forget the windows before a tick, and the buckets that no number can count from then on."""
        for location, buckets in self._buckets.items():
            kept = {last: people for last, people in buckets.items() if last + self._monitor.lifetime > tick}
            self._buckets[location] = defaultdict(set, kept)
            self.people[location].forget(tick)


@dataclass(frozen=True)
class UpperBoundMonitor(PlacesMonitor[BucketCounts]):
    """A monitor of kind `upper_bound`."""

    kind = "upper_bound"
    answers = UpperBound
    public = frozenset({"epsilon"})

    bucket: int
    """The slots of a bucket."""

    @classmethod
    def parse(cls, keys: Any, terms: SharedTerms) -> UpperBoundMonitor:
        """Parse the keys of a monitor."""
        bucket, window = (parse_duration(keys[name]) // terms.grid.slot for name in ("bucket", "window"))
        if bucket < 1 or window % bucket:
            raise ValueError(f"{keys['name']} has a bucket that does not divide its window")
        return cls(keys["name"], parse_shares(keys, terms), window, window + terms.max_lead, bucket)

    @property
    def answers_per_share(self) -> int:
        """B, the number of buckets of a window."""
        return self.window // self.bucket

    @property
    def bucket_length(self) -> int:
        """The slots of a bucket."""
        return self.bucket

    def find_lifetime(self, grid: Grid) -> int:
        """Return how many slots after its last one no number counts a visit, and no window contains it."""
        del grid
        return self.window + self.lifetime - 1

    def create_counts(self, terms: SharedTerms) -> BucketCounts:
        """Create an empty recount."""
        return BucketCounts(self, terms)

    def create_check(self, scope: Scope, counts: BucketCounts | None) -> Check:
        """Create the check."""
        return UpperBoundCheck(self, scope, counts)

    def answers_at(self, tick: int) -> bool:
        """Return whether a slot is the last one of a bucket."""
        return tick % self.bucket == self.bucket - 1

    def list_buckets(self, tick: int) -> range:
        """Return the last slots of the buckets that have a slot among the last W + F slots."""
        first = tick - self.lifetime + 1
        return range(first // self.bucket * self.bucket + self.bucket - 1, tick + 1, self.bucket)

    def is_own(self, number: Number) -> bool:
        """Return whether a number was drawn under the present bucket, W and F, so that it lacks no visit."""
        until = number.tick + self.lifetime - 1
        return (number.bucket, number.window, number.until) == (self.bucket, self.window, until)


class UpperBoundCheck(PlacesCheck[BucketCounts]):
    """The check of one monitor's records."""

    def __init__(self, monitor: UpperBoundMonitor, scope: Scope, counts: BucketCounts | None) -> None:
        super().__init__(monitor, scope, counts)
        self._monitor, self._numbers = monitor, self._history.recall(Numbers)

    def list_facts(self, form: UpperBound) -> dict[str, Any]:
        """Return the fields that follow from the configuration and the tick."""
        facts = super().list_facts(form)
        bucket_start = self._terms.grid.start(form.tick - self._monitor.bucket + 1)
        return facts and {**facts, "bucket_start": bucket_start}

    def _check_ticks(self, form: UpperBound) -> None:
        grid = self._terms.grid
        if not all(grid.has(number.until) and grid.has(number.tick) for number in form.numbers):
            raise FormError("numbers: the tick is out of range")

    def _judge(self, record: Record, where: str, *, in_order: bool) -> Prove:
        form, monitor = record.form, self._monitor
        new: list[Number] = []
        if in_order:
            new, errors = self._find_new(record.partition, form)
            for text in errors:
                self._findings.add(BUDGET, f"{where}: {text}")
        for number in new:
            self.noisy += 1
            cost = self._cost[form.location_id]
            self._payments.charge_window(self._terms, monitor.name, monitor.window, cost, number.tick)
        for text in self._find_wrong_sum(form):
            self._findings.add(NOISY, f"{where}: {text}")
        return partial(self._prove, form, new, where)

    def _find_new(self, partition: int, form: UpperBound) -> tuple[list[Number], list[str]]:
        """Return the numbers that this record draws, and the errors in its numbers."""
        monitor, location = self._monitor, form.location_id
        known = self._numbers.get(monitor.name, location, whole=self._history.whole)
        if known is None:  # earlier records are missing: what this one says about them counts as correct
            known = [Drawn(number, None) for number in form.numbers if number.tick < form.tick]
        running = [drawn for drawn in known if drawn.number.until >= form.tick]
        earlier = [drawn.number for drawn in running]
        new = [number for number in form.numbers if number not in earlier]
        errors = [text for number in new for text in self._find_undue(partition, form, number, known)]
        errors += [
            f"the number of the bucket that ends with slot {drawn.number.tick} is not repeated"
            for drawn in running
            if drawn.number not in form.numbers and not self._is_hidden(partition, location, drawn)
        ]
        if form.numbers != sorted(form.numbers, key=lambda number: number.tick):
            errors.append("numbers are not in the order of their buckets")
        if any(number.overlaps(other) for n, number in enumerate(new) for other in new[:n]):
            errors.append("two numbers count the same slot")
        for number in new:
            self._history.note_drawn(partition, (monitor.name, None, location, form.tick))
            running.append(Drawn(number, form.tick))
        self._numbers.set(monitor.name, location, running)
        return new, errors

    def _find_undue(self, partition: int, form: UpperBound, number: Number, known: list[Drawn]) -> Iterator[str]:
        """Yield the errors of a number that a record draws."""
        monitor, where = self._monitor, f"the number of the bucket that ends with slot {number.tick}"
        if number.tick not in monitor.list_buckets(form.tick) or not monitor.is_own(number):
            yield f"{where} is not one of a bucket that the bound of this tick needs"
        if number.epsilon != self._cost[form.location_id]:
            yield f"{where} has another ε than ε_l·b/W"
        if any(number.overlaps(drawn.number) for drawn in known):
            yield f"{where} counts a slot that an earlier number counts"
        lost = self._history.lost_slots.get(partition)
        if lost is not None and number.tick - number.bucket + 1 < lost:
            yield f"{where} has a slot from before the loss of the ledger"

    def _is_hidden(self, partition: int, location: str, drawn: Drawn) -> bool:
        """Return whether a number lacks a signature, so that later records leave it out."""
        about = (self._monitor.name, None, location)
        return drawn.at is not None and self._history.is_unsigned(partition, (*about, drawn.at))

    def _find_wrong_sum(self, form: UpperBound) -> Iterator[str]:
        """Yield an error unless the bound is the sum of the numbers of all buckets, or unknown if one is missing."""
        own = {number.tick: number.noisy_count for number in form.numbers if self._monitor.is_own(number)}
        buckets = self._monitor.list_buckets(form.tick)
        expected = sum(own[last] for last in buckets) if all(last in own for last in buckets) else None
        if form.count_at_most != expected:
            yield "count_at_most is not the sum of the numbers of the last W + F slots"
        if (form.status == "complete") != (expected is not None):
            yield "the status is not complete although no number is missing, or complete although one is"

    def _prove(self, form: UpperBound, new: list[Number], where: str) -> None:
        if self._counts is None:
            return
        for number in new:
            if self._monitor.is_own(number) and self._counts.count(form.location_id, number.tick) > number.noisy_count:
                text = f"there were more people in the bucket that ends with slot {number.tick} than its number"
                self._findings.add(NOISY, f"{where}: {text}")
        most = form.count_at_most
        if most is not None and self._counts.people[form.location_id].at(form.tick) > most:
            self._findings.add(NOISY, f"{where}: there were more people in the window than the bound")
