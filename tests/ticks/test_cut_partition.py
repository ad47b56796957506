"""What the owner of an in-memory partition does with a tick of which the ledger contains a part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest

from monitor.errors import UnreachableError
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.ledger.compute_payment import declare_charges
from monitor.ledger.ledger_state import LedgerState, OwnerTerms
from monitor.records.output_records import OutputRecord
from monitor.ticks.owner import NOT_SIGNED, LedgerTopic, OwnerRecords
from monitor.ticks.run_partition import PartitionTicks
from monitor.time.instants import SECOND
from tests.kit.signed import open_log
from tests.ticks.deciding import read
from tests.ticks.worlds import World

MakeWorld = Callable[..., World]
NO_BROKER = UnreachableError("no broker answers")


def at(world: World, tick: int) -> None:
    """Set both clocks to a second after a tick's end."""
    world.set_clocks(world.parameters.grid.as_of(tick) + SECOND)


def cut_tick(world: World, tick: int) -> list[OutputRecord]:
    """Let an owner be killed when the ledger has three of a tick's eight answers. Return these."""
    charges = declare_charges(world.parameters)
    ledger = LedgerState(OwnerTerms(world.parameters.name, 1, charges=charges))
    world.ledgers[0] = ledger
    questions = world.take_over(0).decider.build_questions(tick, ledger)
    decision = world.owners[-1].decide(tick, Evidence(read(questions)))
    for record in decision.records[:3]:
        ledger.fold(record, world.parameters.grid)
    world.cut = True
    return list(decision.records[:3])


def cut_tick_too_early(world: World) -> None:
    """Cut tick 99, and let slot 100 be about to close."""
    cut_tick(world, 99)
    at(world, 100)


@pytest.mark.promise(40)
def test_rest_of_a_cut_tick_is_decided(make_world: MakeWorld) -> None:
    """An owner was killed when the ledger had three of tick 99's eight answers: the next one draws the other five.

    slot      99    100
    tick 99         3   | takeover   8, of which 3 with the same bytes
    """
    world = make_world()
    part = cut_tick(world, 99)
    at(world, 99)
    release = world.take_partition()
    assert release.find_next_tick() == 99
    assert release.settle_rest(99)
    assert release.decide_tick(99, world.stop)
    assert list(release.last_records)[:3] == part
    assert world.statuses_by_tick() == [(99, ["safe"])]
    assert world.writers[-1].published == [(99, {("stations", "safe"): 8})]
    assert (world.observer.lost_ticks, world.observer.lost_answers) == ([], 0)
    assert release.find_next_tick() == 100


@pytest.mark.promise(40)
def test_rest_that_is_too_late_is_lost(make_world: MakeWorld, caplog: pytest.LogCaptureFixture) -> None:
    """If slot 100 is about to close, the three answers are repeated, and the other five are counted and logged."""
    world = make_world()
    part = cut_tick(world, 99)
    at(world, 100)
    release = world.take_partition()
    assert release.find_next_tick() == 100
    assert release.settle_rest(100)
    state = world.ledgers[0]
    assert (state.incomplete, list(state.last_records.values())) == (99, part)
    assert (world.observer.lost_ticks, world.observer.lost_answers) == ([(0, 1)], 5)
    assert "ledger partition 0: 5 answers of the tick of 2026-01-05T04:00:00Z are lost: no instance" in caplog.text
    assert release.settle_rest(100)
    assert release.decide_tick(100, world.stop)
    assert world.observer.lost_ticks == [(0, 1)]


def test_tick_of_the_open_slot_is_not_ahead(make_world: MakeWorld) -> None:
    """A cut tick of a slot that is open by this machine's clock is waited for, and is no trouble."""
    world = make_world()
    cut_tick(world, 99)
    world.set_clocks(world.parameters.grid.as_of(99) - SECOND)
    release = world.take_partition()
    assert release.find_next_tick() == 99
    assert release.trouble == ""


def cut_signed_tick(world: World) -> None:
    """Let an owner publish tick 98 and be killed when the ledger has three of tick 99's eight answers, all to sign.

    The next takeovers find the three answers before an owner record, as a real one appends it.
    """
    grid, charges = world.parameters.grid, declare_charges(world.parameters)
    ledger = LedgerState(OwnerTerms(world.parameters.name, 1, charges=charges), signed=open_log())
    world.ledgers[0] = ledger
    owner = world.take_over(0)
    owner.append(98, owner.decide(98, Evidence(read(owner.decider.build_questions(98, owner.state)))))
    for record in owner.decide(99, Evidence(read(owner.decider.build_questions(99, owner.state)))).records[:3]:
        ledger.fold(record, grid)
    topic = LedgerTopic("ledger", "1", "", "", 0)
    assert ledger.terms is not None
    ledger.fold(OwnerRecords(topic, world.parameters, world.clock.now).build(ledger.terms, 0), grid)
    world.cut = True
    at(world, 99)


def count_lost(world: World) -> tuple[list[tuple[int, int]], int]:
    """Return the lost ticks, by partition, and the number of lost answers that were counted."""
    return world.observer.lost_ticks, world.observer.lost_answers


@pytest.mark.promise(40)
def test_unsigned_part_is_counted_once(make_world: MakeWorld, caplog: pytest.LogCaptureFixture) -> None:
    """If the rest of a cut tick is signed, the three answers without a signature are lost, and counted once.

    slot      98      99      100
    tick      98 c    3     | takeover    5 c, owner (incomplete: 99)    100 c
    lost                      0           3                              3
    """
    world = make_world()
    cut_signed_tick(world)
    release = world.take_partition()
    assert release.settle_rest(99)
    assert count_lost(world) == ([], 0)
    assert release.decide_tick(99, world.stop)
    assert count_lost(world) == ([(0, 1)], 3)
    assert f"3 answers of the tick of 2026-01-05T04:00:00Z are lost: {NOT_SIGNED}" in caplog.text
    at(world, 100)
    assert release.decide_tick(100, world.stop)
    assert count_lost(world) == ([(0, 1)], 3)
    assert world.observer.skipped == 0


@dataclass(frozen=True)
class Loss:
    """How a tick is cut, the step whose append leaves answers out, and the number of lost answers."""

    cut: Callable[[World], object]
    step: Callable[[PartitionTicks, World], bool]
    answers: int


LOSSES: Final = {
    "rest": Loss(cut_tick_too_early, lambda release, _: release.settle_rest(100), 5),
    "unsigned": Loss(cut_signed_tick, lambda release, world: release.decide_tick(99, world.stop), 3),
}


@pytest.mark.promise(40)
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_refused_append_counts_nothing(make_world: MakeWorld, loss: Loss) -> None:
    """While the append that leaves answers out is refused, nothing is counted, and a takeover follows."""
    world = make_world()
    loss.cut(world)
    release = world.take_partition()
    world.writers[-1].refused = NO_BROKER
    assert not loss.step(release, world)
    assert (release.owner, count_lost(world)) == (None, ([], 0))
    assert release.take_over()
    assert count_lost(world) == ([], 0)
    assert loss.step(release, world)
    assert count_lost(world) == ([(0, 1)], loss.answers)


@pytest.mark.promise(40)
@pytest.mark.parametrize("committed", [True, False], ids=["committed", "aborted"])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_append_of_unknown_outcome_is_counted_once(make_world: MakeWorld, loss: Loss, committed: bool) -> None:
    """If that append has an unknown outcome, the loss is counted once: after the takeover, or when it is recorded."""
    world = make_world()
    loss.cut(world)
    release = world.take_partition()
    world.writers[-1].unacknowledged = NO_BROKER
    assert not loss.step(release, world)
    assert (release.owner, count_lost(world)) == (None, ([], 0))
    world.cut = not committed
    assert release.take_over()
    assert world.observer.lost_answers == (loss.answers if committed else 0)
    assert release.settle_rest(100)
    assert count_lost(world) == ([(0, 1)], loss.answers)
    world.cut = False
    assert release.take_over()
    assert release.settle_rest(100)
    assert count_lost(world) == ([(0, 1)], loss.answers)
