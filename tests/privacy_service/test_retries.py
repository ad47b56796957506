"""Each answer has one draw, and is never drawn again."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from monitor.errors import UnreachableError
from monitor.kinds.facts_and_questions import COMPLETE_FROM_START
from monitor.kinds.parameters import Parameters
from monitor.ledger.ledger_state import LedgerState
from monitor.observe.update_service_metrics import Metrics
from monitor.privacy.one_sided_noise import OneSidedNoise, SeededEntropy
from monitor.thread_signals import Signal
from monitor.ticks.collect_answers import Decider
from monitor.ticks.owner import LedgerTopic, Owner, OwnerRecords
from monitor.ticks.run_partition import PartitionTicks
from monitor.ticks.shared_by_partitions import TickContext
from monitor.ticks.store_upkeep import Upkeep
from monitor.time.clock import SteppedClock
from tests.privacy.laws import Given
from tests.privacy_service.cells import Cell
from tests.privacy_service.town import Town
from tests.store.memory import MemoryWindows

pytestmark = pytest.mark.long


def statuses(records: Any) -> list[str]:
    return [json.loads(record.value)["status"] for record in records]


@pytest.mark.promise(18)
def test_unchanged_count_gets_a_fresh_draw() -> None:
    """Tick 1 has the same people as tick 0 and draws again: safe, then a noisy count (docs/rules.md, rule 3)."""
    town = Town(2, 0, 1, 2, times=())
    decider, state = Decider(town.parameters, [0], Given(0, 0, 5, 5)), LedgerState()
    evidence = {tick: town.evidence(tick, {Cell(0): 1, Cell(1): 0}) for tick in (0, 1)}
    assert statuses(decider.decide(0, evidence[0], state).records) == ["safe", "safe"]
    assert statuses(decider.decide(1, evidence[1], state).records) == ["noisy_count", "noisy_count"]


@pytest.mark.promise(1)
def test_noise_never_lowers_a_count() -> None:
    """Of 300 first answers with as many people as the threshold, none is safe, and none is too low."""
    town = Town(2, 0, 1, 3, times=())
    noise = OneSidedNoise(SeededEntropy(5))
    evidence = town.evidence(0, {Cell(0): 3, Cell(1): 4})
    for _ in range(300):
        records = Decider(town.parameters, [0], noise).decide(0, evidence, LedgerState()).records
        values = [json.loads(record.value) for record in records]
        assert [value["status"] for value in values] == ["noisy_count", "noisy_count"]
        assert all(value["count_at_most"] >= count for value, count in zip(values, (3, 4), strict=True))


@pytest.mark.promise(28)
def test_decided_ticks_are_not_decided_again() -> None:
    """A tick in the ledger is decided, by any owner, because a retry would be a second draw (docs/rules.md, rule 4)."""
    town = Town(2, 0, 1, 2, times=())
    records = Decider(town.parameters, [0], Given(0, 0)).decide(2, town.evidence(2, {}), LedgerState()).records
    owner = make_owner(town.parameters, Unacknowledged(), Given(0, 0))
    assert owner.may_decide(2)
    for record in records:
        owner.state.fold(record, town.parameters.grid)
    assert [owner.may_decide(tick) for tick in (1, 2, 3)] == [False, False, True]


@dataclass
class Unacknowledged:
    """A ledger that keeps all records and acknowledges every append except the first."""

    kept: list[Any] = field(default_factory=list)
    closed: bool = False

    def append(self, records: Any, within: float = 0.0) -> int:  # noqa: ARG002  # the test is not timed
        self.kept += records
        if len(self.kept) == len(records):
            raise UnreachableError("no broker answers")
        return len(self.kept) - 1

    def close(self) -> None:
        self.closed = True


def make_owner(parameters: Parameters, ledger: Unacknowledged, noise: Given) -> Owner:
    """Return the owner of partition 0 of an empty ledger, as after a takeover."""
    records = OwnerRecords(LedgerTopic("alerts", "", "", "", 0), parameters, lambda: 0)
    return Owner(0, cast("Any", ledger), LedgerState(), records, noise, 0)


class Unread:
    """An input topic without records."""

    most_partitions = 1

    def read_end_offsets_at(self, tick: int) -> dict[int, int]:  # noqa: ARG002  # the same at any tick
        return {0: 0}


@pytest.mark.promise(28)
def test_failed_append_is_not_decided_again() -> None:
    """
    The answers may be in the ledger, so the owner is closed, and the next one reads them (docs/rules.md, rule 4).

        draw      0        5
        append    kept, ?  -
    """
    town = Town(2, 0, 1, 2, times=())
    ledger, noise = Unacknowledged(), Given(0, 0, 5, 5)
    owner = make_owner(town.parameters, ledger, noise)
    clock = SteppedClock(town.parameters.grid.as_of(2) + town.parameters.release_delay)
    windows = MemoryWindows(town.parameters, clock)
    windows.begin(0, 0, COMPLETE_FROM_START)
    parts = TickContext(town.parameters, windows, cast("Any", Unread()), Metrics(), clock, Signal())
    release = PartitionTicks(0, parts, cast("Any", None), Upkeep(town.parameters, windows))
    release.owner = owner
    assert not release.decide_tick(2, threading.Event())
    assert ledger.closed
    assert cast("Any", release).owner is None
    by_id: dict[bytes, set[Any]] = {}
    for record in ledger.kept:
        by_id.setdefault(dict(record.headers)["ce_id"], set()).add(record)
    assert [len(records) for records in by_id.values()] == [1, 1]
    assert len(noise.asked) == 2
