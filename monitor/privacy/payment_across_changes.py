"""The maximum payment of one person in a period across a change of configuration (docs/rules.md, section 6).

The functions are pure. Past answers are known. Future answers are bounded by the most that the rules allow from a tick
on, given the running marks. If the configuration never changed, the bound is at most the worst case of the
configuration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from monitor.privacy.over_time import Mark, OverTimeRule

_INT64: Final = 2**62

_Ticks = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PaidAnswer:
    """A past noisy answer: its ε, the first and last slot of visits it may count, and the last tick of its mark."""

    epsilon: Fraction
    first: int
    last: int
    until: int

    @classmethod
    def of(cls, mark: Mark, max_lead: int, mark_lifetime: int = 0) -> PaidAnswer:
        """Return the answer of a mark. `max_lead` is F when it was published; `mark_lifetime` is the present W + F."""
        window = max(1, mark.until - mark.tick + 1 - max_lead)
        until = max(mark.until, mark.tick + mark_lifetime - 1)
        return cls(mark.epsilon, mark.tick - window + 1, mark.tick + max_lead, until)


@dataclass(frozen=True, slots=True)
class Bound:
    """The limits on answers at a place. A visit is in the counts of W + F ticks."""

    epsilon: Fraction
    """The limit in any `mark_lifetime` consecutive ticks."""
    answer_epsilon: Fraction
    """The limit per tick."""
    window: int
    """W, in slots."""
    max_lead: int
    """F, in slots."""
    mark_lifetime: int

    @classmethod
    def of(cls, rule: OverTimeRule) -> Bound:
        """Return the bound of one rule."""
        return cls(rule.epsilon, rule.answer_epsilon, rule.window, rule.max_lead, rule.mark_lifetime)

    def combine(self, other: Bound) -> Bound:
        """Return the bound of two rules that alternate in any order: the larger values, the shorter mark lifetime."""
        return Bound(
            max(self.epsilon, other.epsilon),
            max(self.answer_epsilon, other.answer_epsilon),
            max(self.window, other.window),
            max(self.max_lead, other.max_lead),
            min(self.mark_lifetime, other.mark_lifetime),
        )

    def compute_most_in_ticks(self, ticks: int) -> Fraction:
        """Return the maximum ε of answers at `ticks` consecutive ticks, if no mark runs at the first of them."""
        whole, rest = divmod(max(0, ticks), self.mark_lifetime)
        return whole * self.epsilon + min(self.epsilon, rest * self.answer_epsilon)

    def compute_most_in_slots(self, slots: int) -> Fraction:
        """Return the maximum payment for visits in `slots` consecutive slots, if there are no earlier answers."""
        return self.compute_most_in_ticks(slots + self.window + self.max_lead - 1)


@dataclass(frozen=True, slots=True)
class Place:
    """A place: its past answers, the bound of future answers (None if it gives none), and the first undecided tick."""

    paid: tuple[PaidAnswer, ...]
    bound: Bound | None
    begins: int

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """The bound of future answers as a tuple, empty if there are none."""
        return () if self.bound is None else (self.bound,)

    @property
    def is_steady(self) -> bool:
        """Whether all past answers follow the present rule, so that the worst case of that rule includes them."""
        if self.bound is None:
            return not self.paid
        if not self.paid:
            return True
        bound, lasts = self.bound, sorted(paid.last for paid in self.paid)
        return all(
            (paid.epsilon, paid.last - paid.first + 1, paid.until - paid.last + bound.max_lead + 1)
            == (bound.answer_epsilon, bound.window + bound.max_lead, bound.mark_lifetime)
            for paid in self.paid
        ) and all(
            later - earlier >= bound.mark_lifetime
            for earlier, later in zip(lasts, lasts[int(bound.epsilon / bound.answer_epsilon) :], strict=False)
        )

    def list_running_ends(self) -> tuple[tuple[int, Fraction], ...]:
        """Return (last tick, ε) of the running marks, sorted, with the ε of marks that end together added up."""
        ends: dict[int, Fraction] = {}
        for paid in self.paid:
            if paid.until >= self.begins:
                ends[paid.until] = ends.get(paid.until, Fraction(0)) + paid.epsilon
        return tuple(sorted(ends.items()))

    def without_answers_before(self, tick: int) -> Place:
        """Return the same place with the assumption that it gives no new answers before `tick`."""
        return replace(self, begins=max(self.begins, tick))


def compute_most_paid(places: Sequence[Place], slots: int, oldest: int) -> Fraction:
    """Return the maximum payment of one person for visits in any `slots` consecutive slots.

    Only periods that include slot `oldest` or a later slot matter, because no future answer charges an earlier visit.
    The maximum is reached in a period that begins at the last slot of a past answer, or in one without past answers.
    """
    bounds = Counter((bound, place.begins, place.list_running_ends()) for place in places for bound in place.bounds)
    beyond = sum((times * bound.compute_most_in_slots(slots) for (bound, _, _), times in bounds.items()), Fraction(0))
    begins = sorted({paid.last for place in places for paid in place.paid if paid.last + slots > oldest})
    if not begins:
        return beyond
    unit, starts = _find_unit(places), np.array(begins, np.int64)
    kind = np.dtype(np.int64) if _fits_int64(places, slots, unit) else np.dtype(object)
    total = _sum_past_charges((paid for place in places for paid in place.paid), starts, slots, unit, kind)
    for (bound, first, running_ends), times in bounds.items():
        total = total + times * _GreedyAnswers(bound, first, running_ends, unit, kind).compute_most(starts, slots)
    return max(beyond, Fraction(int(total.max()), unit))


def _find_unit(places: Sequence[Place]) -> int:
    """Return the least common denominator of every ε."""
    known = {paid.epsilon.denominator for place in places for paid in place.paid}
    bounds = {bound for place in places for bound in place.bounds}
    return lcm(*known, *(n for bound in bounds for n in (bound.epsilon.denominator, bound.answer_epsilon.denominator)))


def _fits_int64(places: Sequence[Place], slots: int, unit: int) -> bool:
    """Return whether all sums, in units of 1/`unit`, fit in 64-bit integers."""
    known = sum((paid.epsilon for place in places for paid in place.paid), Fraction(0))
    bounds = Counter(bound for place in places for bound in place.bounds)
    new = sum(
        (times * bound.compute_most_in_slots(4 * slots + 4 * bound.mark_lifetime) for bound, times in bounds.items()),
        Fraction(0),
    )
    return (known + new) * unit < _INT64


def _sum_past_charges(
    paid: Iterable[PaidAnswer], starts: _Ticks, slots: int, unit: int, kind: np.dtype[Any]
) -> NDArray[Any]:
    """Return the ε that past answers charge to visits, for each period that begins at one of `starts`."""
    answers = list(paid)
    amounts = [int(answer.epsilon * unit) for answer in answers]
    # An answer counts unless its last slot is before the period, or its first slot is after it.
    last_sums = _cumulate([answer.last for answer in answers], amounts, kind)
    first_sums = _cumulate([answer.first for answer in answers], amounts, kind)
    charged: NDArray[Any] = first_sums.sum_up_to(starts + slots - 1) - last_sums.sum_up_to(starts - 1)
    return charged


@dataclass(frozen=True, slots=True)
class _Sums:
    """Cumulative amounts by tick."""

    at: _Ticks
    sums: NDArray[Any]

    def sum_up_to(self, ticks: _Ticks) -> NDArray[Any]:
        sums: NDArray[Any] = self.sums[np.searchsorted(self.at, ticks, side="right")]
        return sums


def _cumulate(at: Sequence[int], amounts: Sequence[int], kind: np.dtype[Any]) -> _Sums:
    order = np.argsort(np.array(at, np.int64), kind="stable")
    sums = np.concatenate([np.zeros(1, kind), np.cumsum(np.array(amounts, kind)[order])])
    return _Sums(np.array(at, np.int64)[order], sums)


class _GreedyAnswers:
    """Answers at the earliest possible ticks: no other sequence spends more ε up to any tick.

    If the ε left by the running marks is less than that of an answer, it is all counted, because an answer under
    another rule may use it.
    """

    def __init__(
        self, bound: Bound, begins: int, running_ends: Sequence[tuple[int, Fraction]], unit: int, kind: np.dtype[Any]
    ) -> None:
        self._bound, self._begins, self._unit, self._kind = bound, begins, unit, kind
        last = max((until for until, _ in running_ends), default=begins - 1)
        # From one mark lifetime after the last past mark has ended, the sequence repeats every mark lifetime.
        self._known = max(begins, last + 1) + 2 * bound.mark_lifetime
        self._sums = self._simulate([(until, int(epsilon * unit)) for until, epsilon in running_ends])

    def _simulate(self, running_ends: list[tuple[int, int]]) -> _Sums:
        """Return the cumulative ε of the answers before tick `_known`."""
        epsilon, answer_epsilon = int(self._bound.epsilon * self._unit), int(self._bound.answer_epsilon * self._unit)
        waiting = sorted(running_ends)
        spent, ended, tick = sum(amount for _, amount in waiting), 0, self._begins
        at, amounts = [], []
        while tick < self._known:
            while ended < len(waiting) and waiting[ended][0] < tick:
                spent -= waiting[ended][1]
                ended += 1
            amount = min(answer_epsilon, epsilon - spent)
            if amount > 0:
                at.append(tick)
                amounts.append(amount)
                spent += amount
                _insert(waiting, (tick + self._bound.mark_lifetime - 1, amount), ended)
                tick += 1
            else:
                tick = waiting[ended][0] + 1
        return _cumulate(at, amounts, self._kind)

    def compute_most(self, starts: _Ticks, slots: int) -> NDArray[Any]:
        """Return the maximum ε of future answers that count visits of each period that begins at one of `starts`."""
        bound = self._bound
        last = starts + slots + bound.window - 2
        within = self._sum_up_to(last)
        ticks = np.maximum(last - np.maximum(starts - bound.max_lead, self._begins) + 1, 0)
        whole, rest = np.divmod(ticks, bound.mark_lifetime)
        epsilon, answer_epsilon = int(bound.epsilon * self._unit), int(bound.answer_epsilon * self._unit)
        fresh = whole.astype(self._kind) * epsilon + np.minimum(rest.astype(self._kind) * answer_epsilon, epsilon)
        most: NDArray[Any] = np.minimum(within, fresh)
        return most

    def _sum_up_to(self, ticks: _Ticks) -> NDArray[Any]:
        known, mark_lifetime = self._known - 1, self._bound.mark_lifetime
        over = np.maximum(ticks - known, 0)
        whole, rest = np.divmod(over, mark_lifetime)
        ends = self._sums.sum_up_to(np.array([known - mark_lifetime, known], np.int64))
        cycle = ends[1] - ends[0]
        part = self._sums.sum_up_to(known - mark_lifetime + rest) - ends[0]
        sums: NDArray[Any] = self._sums.sum_up_to(np.minimum(ticks, known)) + whole.astype(self._kind) * cycle + part
        return sums


def _insert(waiting: list[tuple[int, int]], entry: tuple[int, int], start: int) -> None:
    """Insert an entry in the order of last ticks. A new mark ends last, unless a past mark runs longer."""
    index = len(waiting)
    while index > start and waiting[index - 1] > entry:
        index -= 1
    waiting.insert(index, entry)
