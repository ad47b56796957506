"""The terms of a run that all monitors share: slots, shards, locations, and what one person may pay."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from monitor.audit.parse_values import EARLIEST, LATEST


@dataclass(frozen=True, slots=True)
class Grid:
    """Slot s covers [origin + s·slot, origin + (s+1)·slot) (docs/interface.md, section 1)."""

    origin: int
    slot: int

    def find_slot(self, at: int) -> int:
        """Return the slot of an instant."""
        return (at - self.origin) // self.slot

    def start(self, slot: int) -> int:
        """Return the first instant of a slot."""
        return self.origin + slot * self.slot

    def as_of(self, tick: int) -> int:
        """Return the instant at which tick t closes slot t."""
        return self.origin + (tick + 1) * self.slot

    def has(self, tick: int) -> bool:
        """Return whether the as_of of a tick is an instant that can be written as a time."""
        return EARLIEST <= self.as_of(tick) <= LATEST


@dataclass(frozen=True, kw_only=True)
class SharedTerms:
    """The terms that all monitors share. Durations are in microseconds, `accept_ahead` and F in slots."""

    service: str
    shards: int
    grid: Grid
    accept_ahead: int
    max_lead: int
    """F."""
    default_stay: int
    may_pay: Fraction
    period: int
    locations: tuple[str, ...]
    public_key: str = ""
    """The key that signs the answers; empty if they are not verified."""

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each location: its position in the registry."""
        return {location: row for row, location in enumerate(self.locations)}

    def name_location(self, location: str) -> str:
        """Return a location for a finding. A text that the registry does not have may be about a person."""
        return location if location in self.rows else "(not in the registry)"

    @cached_property
    def shard(self) -> tuple[int, ...]:
        """The shard of each row: the first 8 bytes of SHA-256 of the id, big-endian, mod shards."""
        return tuple(hash_text(location) % self.shards for location in self.locations)

    @cached_property
    def shard_sizes(self) -> Counter[int]:
        """The number of locations in each shard."""
        return Counter(self.shard)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all location ids in file order, each followed by a newline."""
        digest = hashlib.sha256()
        for location in self.locations:
            digest.update(location.encode() + b"\n")
        return digest.hexdigest()


def hash_text(text: str) -> int:
    """Return the number that selects a shard or a partition: the first 8 bytes of SHA-256, big-endian."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:16], 16)
