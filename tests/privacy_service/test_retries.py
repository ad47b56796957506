"""One answer, one draw: what is said was drawn for it, and is never drawn again."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from monitor.errors import UnreachableError
from monitor.privacy.noise import OneSidedNoise, SeededEntropy
from monitor.public.clock import SteppedClock
from monitor.release.decide import Decider
from monitor.release.owner import Owner
from monitor.release.partition import PartitionRelease
from monitor.release.parts import Parts
from monitor.release.state import LedgerState
from monitor.release.upkeep import Upkeep
from monitor.signals import Signal
from monitor.windows.facts import COMPLETE_FROM_START
from tests.windows.memory import MemoryWindows


@dataclass
class Given:
    """Noise that is given: every draw of the next call is the next of these numbers."""

    draws: list[int] = field(default_factory=list)
    secure: bool = True

    def geometric(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:  # noqa: ARG002  # the draws are given
        return np.full(size, self.draws.pop(0), np.int64)

    def reaches(self, epsilon: Fraction, gaps: NDArray[np.int64]) -> NDArray[np.bool_]:  # noqa: ARG002  # as above
        return np.zeros(gaps.size, np.bool_)


def statuses(records: Any) -> list[str]:
    return [json.loads(record.value)["status"] for record in records]


def test_an_unchanged_count_is_answered_by_its_own_draw(
    make_town: Callable[..., Any], cell_of: Callable[..., Any]
) -> None:
    """Tick 0 draws 0: safe; at tick 1 the same people are there, and the draw is high: a noisy count (docs/rules.md, rule 3)."""
    town = make_town(2, 0, 1, 2, times=())
    decider, state = Decider(town.parameters, [0], Given([0, 5])), LedgerState()
    evidence = {tick: town._evidence(tick, {cell_of(0): 1, cell_of(1): 0}) for tick in (0, 1)}
    assert statuses(decider.decide(0, evidence[0], state).records) == ["safe", "safe"]
    assert statuses(decider.decide(1, evidence[1], state).records) == ["noisy_count", "noisy_count"]


def test_noise_of_the_service_never_lowers_a_count(make_town: Callable[..., Any], cell_of: Callable[..., Any]) -> None:
    """Three hundred locations' first answers with as many people as the threshold: none is safe, none too low."""
    town = make_town(2, 0, 1, 3, times=())
    noise = OneSidedNoise(SeededEntropy(5))
    evidence = town._evidence(0, {cell_of(0): 3, cell_of(1): 4})
    for _ in range(300):
        records = Decider(town.parameters, [0], noise).decide(0, evidence, LedgerState()).records
        values = [json.loads(record.value) for record in records]
        assert [value["status"] for value in values] == ["noisy_count", "noisy_count"]
        assert all(value["count_at_most"] >= count for value, count in zip(values, (3, 4), strict=True))


def test_an_owner_never_decides_what_the_ledger_holds(make_town: Callable[..., Any]) -> None:
    """The tick of the last record is decided, whoever appended it: a retry would be a second draw (docs/rules.md, rule 4)."""
    town = make_town(2, 0, 1, 2, times=())
    records = Decider(town.parameters, [0], Given([0])).decide(2, town._evidence(2, {}), LedgerState()).records
    owner = object.__new__(Owner)  # as after a takeover, without the Kafka that its records were read from
    owner.state, owner.first_tick = LedgerState(), 0
    assert owner.may_decide(2)
    for record in records:
        owner.state.fold(record, town.parameters.grid)
    assert [owner.may_decide(tick) for tick in (1, 2, 3)] == [False, False, True]


@dataclass
class Unacknowledged:
    """A ledger that keeps what is appended, and acknowledges all but the first."""

    kept: list[Any] = field(default_factory=list)
    closed: bool = False

    def append(self, records: Any) -> int:
        self.kept += records
        if len(self.kept) == len(records):
            raise UnreachableError("no broker answers")
        return len(self.kept) - 1

    def close(self) -> None:
        self.closed = True


class Unread:
    """An input topic that nothing was produced to."""

    most = 1

    def end_offsets_at(self, tick: int) -> dict[int, int]:  # noqa: ARG002  # at any tick
        return {0: 0}


def test_a_tick_whose_append_fails_is_not_decided_again(make_town: Callable[..., Any]) -> None:
    """
    Its answers may be in the ledger: the owner is let go, and the next one finds out by reading (docs/rules.md, rule 4).

        draw      0        5
        append    kept, ?  -
    """
    town = make_town(2, 0, 1, 2, times=())
    owner, ledger, noise = object.__new__(Owner), Unacknowledged(), Given([0, 5])
    owner.partition, owner.state, owner.first_tick = 0, LedgerState(), 0
    owner._parameters, owner._writer, owner._owner_record_at = town.parameters, cast("Any", ledger), 2
    owner._decider = Decider(town.parameters, [0], noise)
    clock = SteppedClock(town.parameters.grid.as_of(2) + town.parameters.release_delay)
    windows = MemoryWindows(town.parameters, clock)
    windows.begin(0, 0, COMPLETE_FROM_START)
    parts = Parts(
        town.parameters, windows, cast("Any", Unread()), cast("Any", None), cast("Any", None), clock, Signal()
    )
    release = PartitionRelease(0, parts, Upkeep(town.parameters, windows))
    release.owner = owner
    assert not release.tick(2, threading.Event())
    assert ledger.closed
    assert cast("Any", release).owner is None
    told: dict[bytes, set[Any]] = {}
    for record in ledger.kept:
        told.setdefault(dict(record.headers)["ce_id"], set()).add(record)
    assert [len(records) for records in told.values()] == [1, 1]
    assert noise.draws == [5]
