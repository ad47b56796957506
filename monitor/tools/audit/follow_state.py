"""The state of a follower: its checks and what they share, the ticks that wait, and which records are the service's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from monitor.tools.audit.findings import FORM, Findings
from monitor.tools.audit.history import History
from monitor.tools.audit.input_ids import InputIds
from monitor.tools.audit.judge import KINDS, Judge
from monitor.tools.audit.paid import PaidCheck
from monitor.tools.audit.partition_ticks import PartitionTicks
from monitor.tools.audit.parts import TickParts
from monitor.tools.audit.recent import RecentBytes
from monitor.tools.audit.records import PublishedRecord
from monitor.tools.audit.stretches import Stretches
from monitor.tools.audit.terms import AuditTerms

OWN_KINDS: Final = (*KINDS, "owner", "ledger")


@dataclass(slots=True)
class WaitingTick:
    """The answers of a tick that have not been compared with the input.

    `ends`: the ends of the input, requested after the answers were read; None if they have not been requested since.
    `unjudged`: no given configuration explains some answer. `input_ids`: the known ids of the input topics that the
    answers count. `size`: the bytes of the answers as published.
    """

    tick: int
    ends: Mapping[int, int] | None
    answers: list[tuple[Judge, PublishedRecord]] = field(default_factory=list)
    unjudged: bool = False
    input_ids: set[str] = field(default_factory=set)
    size: int = 0


class FollowState:
    """The checks, and what they share.

    `reach`: a tick counts visits reported at most this many slots before it. `period`: `privacy.period` in slots.
    `unjudged`: the output partitions whose latest answer no given configuration explains.
    """

    def __init__(self, judges: list[Judge], history: History, paid: PaidCheck, findings: Findings) -> None:
        self.judges = judges
        self.history = history
        self.paid = paid
        self._findings = findings
        self.stretches = Stretches(judges)
        self.ticks = PartitionTicks()
        self.parts = TickParts(findings)
        self.recent = RecentBytes()
        self.unjudged: set[int | None] = set()
        self.input_ids = InputIds()
        self.reach = max(map(_find_reach, (judge.terms for judge in judges)))
        self.period = max(-(-judge.terms.period // judge.terms.grid.slot) for judge in judges)

    @property
    def may_pay(self) -> Fraction:
        """The largest `privacy.epsilon` of the configurations in force."""
        return max(judge.terms.may_pay for judge in self.stretches.find_in_force() or self.judges)

    def take_owner(self, record: PublishedRecord) -> None:
        """Take an owner or start record."""
        try:
            for judge in self.judges:
                judge.take_owner(record)
        except ValueError:
            self._findings.add(FORM, f"{record.place}: lost_at is not a time of RFC 3339 with an offset")
        if record.kind == "owner":
            self.stretches.take_owner(record)
        self.parts.take_owner(record)
        self.input_ids.take_owner(record)

    def belongs(self, record: PublishedRecord) -> bool:
        """Return whether a record names this service, and only a monitor and a place that a configuration has.

        So a finding that names them does not quote another program.
        """
        value, names = record.value, {judge.terms.service for judge in self.judges}
        if record.kind not in OWN_KINDS or not isinstance(value, dict):
            return False
        if record.kind not in KINDS:
            return record.key == record.kind and record.headers.get("ce_source") in names
        key = "/".join(str(value.get(part)) for part in _KEYS[record.kind] if part in value)
        addressed = record.key == key and record.ce_id == f"{key}/{value.get('tick')}"
        return addressed and any(_knows(judge, record) for judge in self.judges)


_KEYS: Final = {
    "over_time": ("monitor", "location_id"),
    "at_times": ("monitor", "time", "shard"),
    "hot_spots": ("monitor", "time"),
    "dwell": ("monitor", "time"),
}


def _knows(judge: Judge, record: PublishedRecord) -> bool:
    if record.headers.get("ce_source") != judge.terms.service or judge.find_check(record) is None:
        return False
    if record.kind == "over_time":
        location = record.value.get("location_id")
        return isinstance(location, str) and location in judge.terms.rows
    return isinstance(record.value.get("time"), str) and record.value["time"].endswith("Z")


def _find_reach(terms: AuditTerms) -> int:
    windows = [monitor.window for monitor in terms.over_time]
    horizons = [-(-monitor.horizon // terms.grid.slot) + 1 for monitor in terms.timed]
    return max([*windows, *horizons]) + terms.max_lead + 1
