"""The checks of a follower and what they share, what waits for the input, and which records belong to the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from monitor.tools.audit.bench import KINDS, Bench
from monitor.tools.audit.findings import FORM, Findings
from monitor.tools.audit.history import History
from monitor.tools.audit.input_ids import InputIds
from monitor.tools.audit.paid import PaidCheck
from monitor.tools.audit.partition_ticks import PartitionTicks
from monitor.tools.audit.parts import TickParts
from monitor.tools.audit.recent import RecentBytes
from monitor.tools.audit.records import PublishedRecord
from monitor.tools.audit.stretches import Stretches
from monitor.tools.audit.terms import AuditTerms

OWN_KINDS: Final = (*KINDS, "owner", "ledger")


@dataclass(slots=True)
class Waiting:
    """The answers of a tick that have not been compared with the input.

    `ends`: where the input ended after they were published; None if it was not asked since. `input_ids`: the ids of the
    topics whose visits they count, as far as they are known.
    """

    tick: int
    ends: Mapping[int, int] | None
    answers: list[tuple[Bench, PublishedRecord]] = field(default_factory=list)
    unjudged: bool = False
    input_ids: set[str] = field(default_factory=set)
    size: int = 0


class FollowState:
    """The checks, and what they share. `reach`: how many slots before a tick the visits that it counts may begin."""

    def __init__(self, benches: list[Bench], history: History, paid: PaidCheck, findings: Findings) -> None:
        self.benches = benches
        self.history = history
        self.paid = paid
        self._findings = findings
        self.stretches = Stretches(benches)
        self.ticks = PartitionTicks()
        self.parts = TickParts(findings)
        self.recent = RecentBytes()
        self.unjudged: set[int | None] = set()
        self.input_ids = InputIds()
        self.reach = max(map(_reach, (bench.terms for bench in benches)))
        self.period = max(-(-bench.terms.period // bench.terms.grid.slot) for bench in benches)

    @property
    def may_pay(self) -> Fraction:
        """The ε that the configurations in force state."""
        return max(bench.terms.may_pay for bench in self.stretches.in_force() or self.benches)

    def take_owner(self, record: PublishedRecord) -> None:
        """Take an owner or start record."""
        try:
            for bench in self.benches:
                bench.take_owner(record)
        except ValueError:
            self._findings.add(FORM, f"{record.place}: lost_at is not a time of RFC 3339 with an offset")
        if record.kind == "owner":
            self.stretches.take_owner(record)
        self.parts.take_owner(record)
        self.input_ids.take_owner(record)

    def belongs(self, record: PublishedRecord) -> bool:
        """Return whether a record names this service, and only monitors and places that a configuration has.

        So a finding can name them: what a stranger wrote is never repeated.
        """
        value, names = record.value, {bench.terms.service for bench in self.benches}
        if record.kind not in OWN_KINDS or not isinstance(value, dict):
            return False
        if record.kind not in KINDS:
            return record.key == record.kind and record.headers.get("ce_source") in names
        key = "/".join(str(value.get(part)) for part in _KEYS[record.kind] if part in value)
        addressed = record.key == key and record.ce_id == f"{key}/{value.get('tick')}"
        return addressed and any(_knows(bench, record) for bench in self.benches)


_KEYS: Final = {
    "over_time": ("monitor", "location_id"),
    "at_times": ("monitor", "time", "shard"),
    "hot_spots": ("monitor", "time"),
    "dwell": ("monitor", "time"),
}


def _knows(bench: Bench, record: PublishedRecord) -> bool:
    if record.headers.get("ce_source") != bench.terms.service or bench.find_check(record) is None:
        return False
    if record.kind == "over_time":
        location = record.value.get("location_id")
        return isinstance(location, str) and location in bench.terms.rows
    return isinstance(record.value.get("time"), str) and record.value["time"].endswith("Z")


def _reach(terms: AuditTerms) -> int:
    windows = [monitor.window for monitor in terms.over_time]
    horizons = [-(-monitor.horizon // terms.grid.slot) + 1 for monitor in terms.timed]
    return max([*windows, *horizons]) + terms.max_lead + 1
