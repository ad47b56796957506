"""The state of one designated time, which follows from the latest snapshot of each shard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from monitor.kinds.at_times.record import AtTimesSnapshot, NoisyCount
from monitor.kinds.locations import Registry

AtTimeStatus = Literal["safe", "noisy_count", "unknown"]


@dataclass
class Snapshots:
    """The latest snapshot of each shard about one time (an instant). `as_of` is the latest of any shard, an instant.

    A snapshot in a newer form, of which only the time, the shard and the as_of are known, is None.

    If the number of shards changes, the locations are divided differently, so earlier snapshots no longer fit. Lower
    bounds are published once, so they are kept when later snapshots do not contain them.
    """

    time: int
    shards: int
    as_of: int
    by_shard: dict[int, AtTimesSnapshot | None] = field(default_factory=dict)
    as_ofs: dict[int, int] = field(default_factory=dict)
    bounds: dict[str, int] = field(default_factory=dict)

    def accepts(self, shard: int, shards: int, as_of: int) -> bool:
        """Return whether a snapshot is later than that of its shard or, if the number of shards differs, than all."""
        if shards != self.shards:
            return as_of > self.as_of
        return shard not in self.as_ofs or as_of > self.as_ofs[shard]

    def put(self, shard: int, shards: int, as_of: int, snapshot: AtTimesSnapshot | None) -> None:
        """Store a snapshot for which `accepts` is true."""
        if shards != self.shards:
            self.shards, self.by_shard, self.as_ofs = shards, {}, {}
        self.by_shard[shard], self.as_ofs[shard] = snapshot, as_of
        self.as_of = max(self.as_of, as_of)
        if snapshot is not None:
            self.bounds |= snapshot.bounds

    @property
    def understood(self) -> dict[int, AtTimesSnapshot]:
        """The snapshots that could be read, by shard."""
        return {shard: one for shard, one in self.by_shard.items() if one is not None}


def calls_others_safe(snapshot: AtTimesSnapshot | None, registry: Registry) -> bool:
    """Return whether a snapshot means that every location of its shard that it does not list is safe.

    Only a complete snapshot means this, and only if the service uses the same registry: a location that the service
    does not know is not listed either.
    """
    return snapshot is not None and snapshot.status == "complete" and snapshot.registry == registry.digest


@dataclass(frozen=True)
class AtTime:
    """The state of one designated time: the latest snapshot per shard, the bounds, and the subscriber's registry."""

    monitor: str
    time: str
    snapshots: Mapping[int, AtTimesSnapshot]
    counts_at_least: Mapping[str, int]
    registry: Registry

    @property
    def sample(self) -> AtTimesSnapshot:
        """One of the snapshots, for the fields that are equal in all of them."""
        return next(iter(self.snapshots.values()))

    @property
    def tick(self) -> int:
        """The latest tick of any shard."""
        return max(snapshot.tick for snapshot in self.snapshots.values())

    @property
    def final(self) -> bool:
        """Whether no further snapshots of this time will follow."""
        return len(self.snapshots) == self.sample.shards and all(snapshot.final for snapshot in self.snapshots.values())

    @cached_property
    def noisy(self) -> dict[str, NoisyCount]:
        """The noisy counts of each location that has any, sorted by id."""
        noisy = {place: one for snapshot in self.snapshots.values() for place, one in snapshot.noisy_counts.items()}
        return dict(sorted(noisy.items()))

    @cached_property
    def noisy_counts(self) -> dict[str, int]:
        """The sum of the noisy counts of each location that has any: a certain upper bound as of the latest one."""
        return {place: noisy.upper_bound for place, noisy in self.noisy.items()}

    @cached_property
    def below_since(self) -> dict[str, int]:
        """The locations that are below the threshold since their latest noisy count, with a certain upper bound."""
        below = {
            place: snapshot.find_upper_bound(place)
            for snapshot in self.snapshots.values()
            for place in snapshot.noisy_counts
            if snapshot.is_below_since(place)
        }
        return {place: most for place, most in below.items() if most is not None}

    @cached_property
    def bounds(self) -> dict[str, tuple[int, int | None]]:
        """The certain lower and upper bound of each location with a lower bound or a noisy count, sorted by id.

        A missing lower bound is 0. If a safe location has no noisy count, its upper bound is T - 1, and both bounds
        hold at once. So they do at a location in `below_since`. Any other noisy count is an upper bound as of its own
        tick. The lower bound is as of the final tick, so the two are no interval (`find_upper_bound`). A location with
        neither a noisy count nor the status "safe" is left out.
        """
        most = {place: self.sample.threshold - 1 for place, status in self.statuses.items() if status == "safe"}
        most |= self.noisy_counts | self.below_since
        places = sorted(self.noisy_counts.keys() | (self.counts_at_least.keys() & most.keys()))
        least = {place: self.counts_at_least.get(place, 0) for place in places}
        return {place: (least[place], find_upper_bound(least[place], most[place])) for place in places}

    @cached_property
    def statuses(self) -> dict[str, AtTimeStatus]:
        """The status of each location of the subscriber's registry, in its order."""
        by_shard = Registry(self.registry.ids, self.sample.shards)
        usable = {shard: calls_others_safe(snapshot, self.registry) for shard, snapshot in self.snapshots.items()}
        statuses: dict[str, AtTimeStatus] = {}
        for place, shard in zip(by_shard.ids, by_shard.shard.tolist(), strict=True):
            safe: AtTimeStatus = "safe" if usable.get(shard, False) else "unknown"
            statuses[place] = "noisy_count" if place in self.noisy_counts else safe
        return statuses

    @property
    def safe(self) -> int:
        """The number of safe locations of the subscriber's registry."""
        return sum(status == "safe" for status in self.statuses.values())

    @property
    def is_known(self) -> bool:
        """Whether no location of the subscriber's registry has the status "unknown"."""
        return "unknown" not in self.statuses.values()


def find_upper_bound(least: int, noisy_count: int) -> int | None:
    """Return a noisy count as the upper bound as of its own tick; None if it is below the lower bound.

    Then later reports have exceeded it, so it has no more information. If it is not below, later reports may have
    exceeded it too: "between the two bounds" would not be certain.
    """
    return None if noisy_count < least else noisy_count
