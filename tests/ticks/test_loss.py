"""The worst privacy loss of the whole decision, by enumeration: Decider and ledger, with takeovers and losses.

Tiny streams (docs/rules.md, section 8): one location, two people at most, five ticks. At each tick an adversary picks
the counts under D and under its P-neighbour D', whether the tick is unknown, whether another owner takes over first
(it knows only what it folds from records), and whether the ledger is lost. Decisions depend on draws only, never on
q = e^-ε, so the enumeration at a rational q is exact: a loss of n·ε is a ratio of q^-n.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.contracts.parameters import AtTimes, Parameters
from monitor.privacy.over_time import Mark
from monitor.store.facts import COMPLETE_FROM_START, NEVER, Reading
from monitor.ticks.decide import Decider
from monitor.ticks.evidence import Evidence
from monitor.ticks.ledger import EncodedRecord
from monitor.ticks.state import LedgerState, OwnerTerms
from tests.builders import build_counts
from tests.privacy.exact_loss import worst_ratio

Q = Fraction(1, 2)
TICKS = 5
PEOPLE = 2
NOON = "2026-01-01T00:30:00Z"
SHAPES = list(product((1, 2), (0, 1, 2), (1, 2), (1, 2)))  # W, F, k, T
THRESHOLDS = (1, 2)
TAKEOVERS, LOSSES = ("", "takeover"), ("", "lost")

Ratio = Fraction | float


class Known(NamedTuple):
    """The knowledge of an owner: its marks, the last tick's records, and when the ledger was lost."""

    marks: tuple[Mark, ...] = ()
    noisy: tuple[int, int] | None = None
    records: Sequence[EncodedRecord] = ()
    lost_at: int | None = None


class TickInput(NamedTuple):
    """The adversary's choices at a tick. `people` is None if the tick is unknown."""

    people: int | None
    event: str = ""


Law = Mapping[Hashable, tuple[Fraction, Known]]


@dataclass
class Injected:
    """One branch of the noise and its probability: `reached` for a draw against a gap, `draw` for a geometric draw."""

    draw: int
    chance_of_draw: Fraction
    reached: bool
    chance: Fraction = Fraction(1)
    drew: bool = False
    compared: bool = False
    secure: bool = True

    def geometric(self, epsilon: Fraction, size: int) -> NDArray[np.int64]:  # noqa: ARG002  # the draws are given
        if size:
            self.drew = True
            self.chance *= self.chance_of_draw
        return np.full(size, self.draw, np.int64)

    def reaches(self, epsilon: Fraction, gaps: NDArray[np.int64]) -> NDArray[np.bool_]:  # noqa: ARG002  # as above
        for gap in gaps.tolist():
            self.compared = True
            self.chance *= Q**gap if self.reached else 1 - Q**gap
        return np.full(gaps.shape, self.reached)

    @property
    def counts(self) -> bool:
        """Whether to count the branch: of branches that differ only in unused draws, the first one counts."""
        return (self.drew or self.draw == 0) and (self.compared or self.reached)


def branches(parameters: Parameters, cap: int) -> Iterator[Injected]:
    """Yield the draws 0 to cap. The last one includes all larger draws, as the law is memoryless.

    If the caller's decision did not draw, it would not with another draw either, so these are left out.
    """
    for reached in (True, False) if parameters.at_times else (True,):
        for draw in range(cap + 1):
            noise = Injected(draw, Q**cap if draw == cap else (1 - Q) * Q**draw, reached)
            yield noise
            if not noise.drew:
                break


def state_of(known: Known, parameters: Parameters, event: str, tick: int) -> LedgerState:
    """Return the state before a tick: carried over, folded by a new owner, or empty after a loss."""
    state = LedgerState(terms=OwnerTerms("town", 1, lost_at=known.lost_at))
    if event == "lost":
        state.terms = OwnerTerms("town", 1, lost_at=parameters.grid.start(tick))
    elif event == "takeover":
        for record in (*known.records, *known.records):  # the new owner appends the last tick again
            state.fold(record, parameters.grid)
    else:
        state.marks = {("stations", "place-0"): {mark.tick: mark for mark in known.marks}}
        if known.noisy is not None:
            state.noisy = {
                (timed.name, at): {"place-0": known.noisy}
                for timed in parameters.at_times
                for at in timed.times.instants
            }
    return state


Begin = Callable[[Known, Parameters, str, int], LedgerState]
COUNTS = frozenset({"noisy_count", "count_at_most"})


def show(value: Any, cap: int) -> Any:
    """Return what the public sees. All noisy counts from the cap on are equal."""
    if isinstance(value, dict):
        return tuple((key, min(got, cap) if key in COUNTS else show(got, cap)) for key, got in value.items())
    return tuple(show(item, cap) for item in value) if isinstance(value, list) else value


def law_of(parameters: Parameters, cap: int, begin: Begin = state_of) -> Callable[[Known, int, TickInput], Law]:
    """Return the law of the real decision: outcome → (probability, knowledge afterwards), with every draw injected."""

    def decide(known: Known, tick: int, tick_input: TickInput, noise: Injected) -> tuple[Hashable, Known]:
        state = begin(known, parameters, tick_input.event, tick)
        decider = Decider(parameters, [0], noise)
        question = decider.build_questions(tick)[0]
        people = 0 if tick_input.people is None else tick_input.people
        counts, present = build_counts(question, lambda _: people), dict.fromkeys(question.times, np.array([people]))
        reading = Reading({}, COMPLETE_FROM_START, COMPLETE_FROM_START, NEVER, 0, counts, present)
        decision = decider.decide(tick, Evidence({} if tick_input.people is None else {0: reading}), state)
        state.forget(tick, parameters.mark_lifetime, parameters.grid.start(tick) - 100 * parameters.grid.length)
        outcome = tuple(show({**json.loads(record.value), "p_value": 0}, cap) for record in decision.records)
        return outcome, Known(
            state.find_marks("stations", "place-0"),
            next((counted for noisy in state.noisy.values() for counted in noisy.values()), None),
            tuple(decision.records),
            state.terms.lost_at if state.terms else None,
        )

    @cache
    def law(known: Known, tick: int, tick_input: TickInput) -> Law:
        outcomes: dict[Hashable, tuple[Fraction, Known]] = {}
        for noise in branches(parameters, cap):
            outcome, after = decide(known, tick, tick_input, noise)
            if not noise.counts:
                continue
            before, kept = outcomes.get(outcome, (Fraction(0), after))
            outcomes[outcome] = (before + noise.chance, kept)  # what differs beyond the cap decides nothing later
        assert sum(chance for chance, _ in outcomes.values()) == 1
        return outcomes

    return law


def pairs(tick: int, counted: range) -> list[tuple[int | None, int | None]]:
    """Return pairs (count under D, count under D'), with and without another person, and unknown."""
    people = product((0, 1), (0, 1), (0, 1) if tick in counted else (0,))
    return [*sorted({(other + max(rest, gone), other + rest) for other, rest, gone in people}), (None, None)]


def choices(counted: range, events: Sequence[str]) -> list[list[tuple[TickInput, TickInput]]]:
    return [
        [(TickInput(one, event), TickInput(other, event)) for event in events for one, other in pairs(tick, counted)]
        for tick in range(TICKS)
    ]


def visits(mark_lifetime: int) -> list[range]:
    """Return the ticks that count one visit: W + F in a row, fewer if it was reported late or the stream ends."""
    return [
        range(first, last) for first in range(TICKS) for last in range(first + 1, min(first + mark_lifetime, TICKS) + 1)
    ]


REPORTED = [range(first, TICKS) for first in range(TICKS)]
"""The ticks that count a visit at a designated time: from its report to the end."""


@pytest.mark.promise(10)
@pytest.mark.parametrize(("window", "max_lead", "answers", "threshold"), SHAPES)
@pytest.mark.parametrize("events", [TAKEOVERS, LOSSES], ids=["takeovers", "losses"])
def test_one_visit_costs_its_locations_epsilon(
    window: int,
    max_lead: int,
    answers: int,
    threshold: int,
    events: Sequence[str],
    make_parameters: Callable[..., Parameters],
) -> None:
    """
    The worst ratio of one visit is e^(ε_l), through takeovers and losses of the ledger at any ticks.

        W = 2, F = 1, k = 1: a visit of slot 1, stamped in slot 0

            tick      0  1  2  3  4
            counted   #  #  #              W + F = 3 ticks, of which one may be answered
    """
    parameters = make_parameters(
        places=1, window=window, max_lead=max_lead, answers=answers, threshold=threshold, epsilon=Fraction(1)
    )
    law = law_of(parameters, cap=max(threshold, PEOPLE) + 1)
    worst = max(worst_ratio(law, Known(), choices(counted, events)) for counted in visits(parameters.mark_lifetime))
    assert worst == Q ** -min(answers, parameters.mark_lifetime)


@pytest.mark.promise(12)
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_designated_time_costs_its_epsilon(
    threshold: int, make_parameters: Callable[..., Parameters], make_at_times: Callable[..., AtTimes]
) -> None:
    """
    A designated time that is evaluated at five ticks costs one answer at ε, through takeovers.

        τ = 00:30, horizon 5 h

            tick      0  1  2  3  4
                      s  s  z  .  .        "." is marked, for good
    """
    noon = make_at_times("noon", NOON, horizon=5, threshold=threshold)
    law = law_of(make_parameters(places=1, watched={}, at_times=(noon,)), cap=3)
    worst = max(worst_ratio(law, Known(), choices(counted, TAKEOVERS)) for counted in REPORTED)
    assert worst == 1 / Q


def test_number_of_streams_matches_the_theory(
    make_parameters: Callable[..., Parameters], stated_streams: Callable[[str], int]
) -> None:
    """The enumeration covers the number of streams that tests/enumerated.txt states, over all W, F, k and T."""

    def enumerated(ranges: Iterable[range], events: Sequence[str]) -> int:
        return sum(math.prod(map(len, choices(counted, events))) for counted in ranges)

    reaches = [
        make_parameters(places=1, window=window, max_lead=max_lead).mark_lifetime for window, max_lead, _, _ in SHAPES
    ]
    ranges = [counted for mark_lifetime in reaches for counted in visits(mark_lifetime)]
    assert enumerated(ranges, TAKEOVERS) == stated_streams("Decisions and ledger, takeovers")
    assert enumerated(ranges, LOSSES) == stated_streams("Decisions and ledger, losses")
    timed = enumerated(REPORTED, TAKEOVERS) * len(THRESHOLDS)
    assert timed == stated_streams("Decisions and ledger, a designated time")


def test_lost_ledger_costs_times_nothing_more(
    make_parameters: Callable[..., Parameters], make_at_times: Callable[..., AtTimes]
) -> None:
    """A lost ledger makes a designated time unknown for good, because its marked locations are not known any more."""
    noon = make_at_times("noon", NOON, horizon=5, threshold=1)
    law = law_of(make_parameters(places=1, watched={}, at_times=(noon,)), cap=3)
    chosen = choices(range(TICKS), ("",))
    for tick in range(1, TICKS):
        chosen[tick] += choices(range(TICKS), ("lost",))[tick]
    assert worst_ratio(law, Known(), chosen) == 1 / Q


class TestMutants:
    """Small bugs of a takeover, which the enumeration must detect."""

    def worst(self, event: str, begin: Begin, make_parameters: Callable[..., Parameters]) -> Ratio:
        parameters = make_parameters(places=1, window=2, max_lead=1, threshold=1)
        law = law_of(parameters, 3, begin)
        return max(
            worst_ratio(law, Known(), choices(counted, ("", event))) for counted in visits(parameters.mark_lifetime)
        )

    @pytest.mark.promise(31)
    def test_owner_without_ledger_draws_again(self, make_parameters: Callable[..., Parameters]) -> None:
        """An owner that does not read the ledger draws again at each of the three ticks that count the visit."""

        def begin(known: Known, parameters: Parameters, event: str, tick: int) -> LedgerState:
            return LedgerState() if event == "takeover" else state_of(known, parameters, event, tick)

        assert self.worst("takeover", begin, make_parameters) == Q**-3

    @pytest.mark.promise(32)
    def test_lost_ledger_as_first_start_refunds(self, make_parameters: Callable[..., Parameters]) -> None:
        """A wrong `--first-start` after a loss refunds the spent ε (docs/rules.md, rule 5)."""

        def begin(known: Known, parameters: Parameters, event: str, tick: int) -> LedgerState:
            return LedgerState() if event == "lost" else state_of(known, parameters, event, tick)

        assert self.worst("lost", begin, make_parameters) == Q**-3
