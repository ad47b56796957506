"""Lower bounds: drawn once per shard, at the final tick, from complete input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from monitor.kinds.all_records import read_record
from monitor.kinds.answer_state import TimeAnswers
from monitor.kinds.at_times.keys_and_parameters import AtTimes
from monitor.kinds.at_times.record import AtTimesSnapshot
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.parameters import Parameters
from monitor.ledger.compute_payment import CarriedOverTimes
from monitor.ledger.ledger_state import LedgerState
from monitor.records.fields import make_decoder
from monitor.ticks.collect_answers import Decider, Decision
from monitor.time.instants import parse_instant
from tests.ticks.deciding import read, value_of

NOON = "2026-01-01T12:30:00Z"
TIME = parse_instant(NOON)
LEAST = Fraction(1, 4)


@pytest.fixture
def make(
    make_parameters: Callable[..., Parameters], make_at_times: Callable[..., AtTimes]
) -> Callable[..., Parameters]:
    """A function that makes parameters with a designated time in slot 12 and lower bounds, final at tick 13."""

    def parameters(horizon: int = 2, at_least: Fraction | None = LEAST, **more: Any) -> Parameters:
        noon = replace(make_at_times("noon", NOON, horizon=horizon, threshold=50), at_least=at_least)
        return make_parameters(watched={}, at_times=(noon,), **more)

    return parameters


def decide(
    parameters: Parameters,
    tick: int,
    noise: Any,
    state: LedgerState | None = None,
    consented: Mapping[int, int] | None = None,
) -> Decision:
    """Decide a tick on complete readings with these people who consented, by row."""
    registry = parameters.registry
    decider = Decider(parameters, range(registry.shards), noise)
    questions = decider.build_questions(tick, LedgerState())
    readings = {}
    for shard, reading in read(questions).items():
        counts = np.array([(consented or {}).get(int(row), 0) for row in registry.by_shard[shard]], np.int64)
        readings[shard] = replace(
            reading,
            present=dict.fromkeys(questions[shard].times, counts),
            consenting=dict.fromkeys(questions[shard].consenting, counts),
        )
    return decider.decide(tick, Evidence(readings), LedgerState() if state is None else state)


@pytest.mark.promise(43)
def test_final_snapshot_has_lower_bounds(make: Callable[..., Parameters], noise: Any) -> None:
    """
    Only the final snapshot has lower bounds, at the ε configured for them: τ = 12:30, horizon 2 h.

        tick            12  13
        consented        4   4
        noise                1
        at least         -   3
    """
    parameters = make()
    (early,) = decide(parameters, 12, noise, consented={1: 4}).records
    assert "counts_at_least" not in value_of(early)
    assert "at_least_epsilon" not in value_of(early)
    noise.script[:] = [0, 0, 0, 0, 1, 0]  # three comparisons with the threshold, then the draws of the bounds
    (final,) = decide(parameters, 13, noise, consented={1: 4}).records
    value = make_decoder(AtTimesSnapshot)(final.value)
    assert (value.final, value.bounds, value.at_least_epsilon) == (True, {"place-1": 3}, Fraction(1, 4))
    assert noise.drawn[-1] == (LEAST, 3), "every location draws, also without people"


def test_no_bounds_without_the_key(make: Callable[..., Parameters], noise: Any) -> None:
    """Without `at_least`, the final snapshot has no lower bounds, and people who consented are not counted."""
    parameters = make(at_least=None)
    assert Decider(parameters, [0], noise).build_questions(13, LedgerState())[0].consenting == ()
    (final,) = decide(parameters, 13, noise, consented={1: 4}).records
    assert not {"counts_at_least", "at_least_epsilon"} & value_of(final).keys()


@pytest.mark.promise(5)
def test_incomplete_input_draws_no_bounds(make: Callable[..., Parameters], noise: Any) -> None:
    """A final snapshot on incomplete input has no lower bounds. They would be true, but would depend on the load."""
    parameters = make()
    state = LedgerState()
    (final,) = Decider(parameters, [0], noise).decide(13, Evidence({}), state).records
    assert (value_of(final)["final"], value_of(final)["status"]) == (True, "unknown")
    assert "counts_at_least" not in value_of(final)
    assert noise.drawn == []


@pytest.mark.promise(43)
@pytest.mark.parametrize("consented", [{1: 4}, {}], ids=["with people", "empty"])
def test_longer_horizon_draws_no_second_bound(
    consented: dict[int, int], make: Callable[..., Parameters], noise: Any
) -> None:
    """
    An owner that reads bounds of tick 13 in the ledger does not draw them at tick 14, the end of a longer horizon.

        tick      12  13  14
        before     -   x
        after      -   -   -
    """
    state = LedgerState()
    for record in decide(make(), 13, noise, consented=consented).records:
        state.fold(record, make().grid)
    noise.drawn.clear()
    (final,) = decide(make(horizon=3), 14, noise, state, consented=consented).records
    assert value_of(final)["final"]
    assert "counts_at_least" not in value_of(final)
    assert LEAST not in {epsilon for epsilon, _ in noise.drawn}


@pytest.mark.promise(43)
def test_other_shards_draw_no_second_bound(make: Callable[..., Parameters], noise: Any) -> None:
    """With another number of shards, a location may be in any other shard: no shard draws again."""
    state = LedgerState()
    for record in decide(make(places=6, shards=2), 13, noise, consented={1: 4}).records[:1]:
        state.fold(record, make().grid)
    for shards, drawing in ((2, 1), (1, 0), (4, 0)):
        records = decide(make(horizon=3, places=6, shards=shards), 14, noise, state_copy(state)).records
        assert sum("counts_at_least" in value_of(record) for record in records) == drawing


def state_copy(state: LedgerState) -> LedgerState:
    return LedgerState(
        last_tick=state.last_tick,
        times=TimeAnswers(bounded={key: set(drawn) for key, drawn in state.times.bounded.items()}),
    )


def test_same_owner_draws_once(make: Callable[..., Parameters], noise: Any) -> None:
    """The owner that drew the bounds records it at once, before the ledger has them."""
    state = LedgerState()
    assert "counts_at_least" in value_of(decide(make(), 13, noise, state).records[0])
    assert "counts_at_least" not in value_of(decide(make(), 13, noise, state).records[0])


@pytest.mark.promise(15)
def test_bounds_are_charged_separately(make: Callable[..., Parameters], noise: Any) -> None:
    """The ledger charges the ε of drawn bounds in addition to that of noisy counts, also if all bounds are 0."""
    (final,) = decide(make(), 13, noise).records
    entry = read_record(final.key, final.value, final.headers)
    assert isinstance(entry, AtTimesSnapshot)
    assert entry.at_least_epsilon == LEAST
    state = LedgerState()
    state.fold(final, make().grid)
    assert state.charged == {("at_least", "noon", TIME): LEAST}


def test_drawn_bounds_end_with_their_time(make: Callable[..., Parameters], noise: Any) -> None:
    """The record of drawn bounds is dropped with the designated time, and not before."""
    state = LedgerState()
    decide(make(), 13, noise, state)
    state.forget(14, 0, TIME)
    assert state.times.bounded == {("noon", TIME): {(0, 1)}}
    state.forget(14, 0, TIME + 1)
    assert state.times.bounded == {}


@pytest.mark.promise(15)
@pytest.mark.parametrize(
    ("at_least", "excess"),
    [(LEAST, Fraction(0)), (Fraction(1, 8), Fraction(1, 8)), (None, LEAST)],
    ids=["same", "less", "removed"],
)
def test_drawn_bounds_count_after_a_change(
    at_least: Fraction | None, excess: Fraction, make: Callable[..., Parameters], noise: Any
) -> None:
    """Bounds that were drawn under an earlier configuration are charged by the amount that exceeds the present one.

    A noisy count of the same time was published too. Otherwise its ε, which was not spent, would pay for the bounds.
    """
    state = LedgerState()
    for record in decide(make(), 13, noise, consented={1: 60}).records:
        state.fold(record, make().grid)
    parameters = replace(make(at_least=at_least), period=24 * 3_600_000_000)
    assert CarriedOverTimes(parameters, [state.summarize_spent()]).compute_excess(14) == excess


@pytest.mark.promise(41)
def test_bound_exceeds_an_earlier_noisy_count(make: Callable[..., Parameters], noise: Any) -> None:
    """
    A lower bound is at most the count and the noisy count of its own tick. It can exceed an earlier noisy count.

        tick                12            13 (final)
        people, consenting  50 at place-0   90 at place-0, 60 at place-1
        noisy count         50            the same 50; 60 + 5 at place-1
        at least                          90 - 1;      60 - 2
    """
    parameters, state = make(), LedgerState()
    decide(parameters, 12, noise, state, consented={0: 50})
    noise.script[:] = [0, 0, 5, 1, 2, 0]  # two comparisons and a noisy count, then the draws of the bounds
    (final,) = decide(parameters, 13, noise, state, consented={0: 90, 1: 60}).records
    value = make_decoder(AtTimesSnapshot)(final.value)
    noisy = {place: (one.tick, one.noisy_count) for place, one in value.noisy_counts.items()}
    assert noisy == {"place-0": (12, 50), "place-1": (13, 65)}
    assert value.counts_at_least == {"place-0": 89, "place-1": 58}
