"""What one person may pay within a period that holds answers of before a change and answers yet to come (section 6).

Pure. What was answered is known; what is yet to come is bounded by what the rules allow from a tick on, given what
still runs. For a configuration that did not change this is never more than its own worst case.
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
    """A noisy answer as a period sees it: its ε, the first and last slot whose visits it may have counted, its end."""

    epsilon: Fraction
    first: int
    last: int
    until: int

    @classmethod
    def of(cls, mark: Mark, max_lead: int, mark_lifetime: int = 0) -> PaidAnswer:
        """A mark, made where visits were accepted `ahead` slots ahead (F); `reach`: W + F of the present rule."""
        window = max(1, mark.until - mark.last_stamp + 1 - max_lead)
        until = max(mark.until, mark.last_stamp + mark_lifetime - 1)
        return cls(mark.epsilon, mark.tick - window + 1, mark.last_stamp + max_lead, until)


@dataclass(frozen=True, slots=True)
class Bound:
    """What may be answered at a place: `each` at a tick, `epsilon` within any `reach` consecutive ticks, at most.

    `window` and `ahead` are W and F, in slots: how many ticks' counts hold a visit.
    """

    epsilon: Fraction
    each: Fraction
    window: int
    max_lead: int
    mark_lifetime: int

    @classmethod
    def of(cls, rule: OverTimeRule) -> Bound:
        """What one rule allows."""
        return cls(rule.epsilon, rule.answer_epsilon, rule.window, rule.max_lead, rule.mark_lifetime)

    def combine(self, other: Bound) -> Bound:
        """What two rules allow that take turns in any order: the larger of both, and the shorter pause."""
        return Bound(
            max(self.epsilon, other.epsilon),
            max(self.each, other.each),
            max(self.window, other.window),
            max(self.max_lead, other.max_lead),
            min(self.mark_lifetime, other.mark_lifetime),
        )

    def most(self, ticks: int) -> Fraction:
        """The most that so many consecutive ticks hold, where nothing runs before them."""
        whole, rest = divmod(max(0, ticks), self.mark_lifetime)
        return whole * self.epsilon + min(self.epsilon, rest * self.each)

    def steady(self, slots: int) -> Fraction:
        """The most that visits in so many consecutive slots pay, where nothing runs before."""
        return self.most(slots + self.window + self.max_lead - 1)


@dataclass(frozen=True, slots=True)
class Place:
    """A place: what was answered, what may be answered (None: nothing any more), and from which tick on."""

    paid: tuple[PaidAnswer, ...]
    bound: Bound | None
    begins: int

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """What may be answered, if anything may."""
        return () if self.bound is None else (self.bound,)

    @property
    def is_steady(self) -> bool:
        """Whether all was answered as it is answered now: then what one rule allows in a period holds it as well."""
        if self.bound is None:
            return not self.paid
        if not self.paid:
            return True
        bound, lasts = self.bound, sorted(paid.last for paid in self.paid)
        return all(
            (paid.epsilon, paid.last - paid.first + 1, paid.until - paid.last + bound.max_lead + 1)
            == (bound.each, bound.window + bound.max_lead, bound.mark_lifetime)
            for paid in self.paid
        ) and all(
            later - one >= bound.mark_lifetime
            for one, later in zip(lasts, lasts[int(bound.epsilon / bound.each) :], strict=False)
        )

    def running(self) -> tuple[tuple[int, Fraction], ...]:
        """By its end the ε of each answer that still holds the place back; of those that end together the sum."""
        ends: dict[int, Fraction] = {}
        for paid in self.paid:
            if paid.until >= self.begins:
                ends[paid.until] = ends.get(paid.until, Fraction(0)) + paid.epsilon
        return tuple(sorted(ends.items()))

    def later(self, tick: int) -> Place:
        """The same place where nothing was answered before a later tick."""
        return replace(self, begins=max(self.begins, tick))


def most_paid(places: Sequence[Place], slots: int, oldest: int) -> Fraction:
    """The most that one person may pay by visits in any `slots` consecutive slots.

    Only periods count that hold a visit of slot `oldest` or later: no later answer charges an earlier one. The most is
    reached in a period that begins where an answer of before is just in it, or in one that holds none of them.
    """
    bounds = Counter((bound, place.begins, place.running()) for place in places for bound in place.bounds)
    beyond = sum((times * bound.steady(slots) for (bound, _, _), times in bounds.items()), Fraction(0))
    begins = sorted({paid.last for place in places for paid in place.paid if paid.last + slots > oldest})
    if not begins:
        return beyond
    unit, starts = _unit(places), np.array(begins, np.int64)
    kind = np.dtype(np.int64) if _fits(places, slots, unit) else np.dtype(object)
    total = _already((paid for place in places for paid in place.paid), starts, slots, unit, kind)
    for (bound, first, running), times in bounds.items():
        total = total + times * _Schedule(bound, first, running, unit, kind).most(starts, slots)
    return max(beyond, Fraction(int(total.max()), unit))


def _unit(places: Sequence[Place]) -> int:
    """What makes every ε a whole number."""
    known = {paid.epsilon.denominator for place in places for paid in place.paid}
    bounds = {bound for place in places for bound in place.bounds}
    return lcm(*known, *(n for bound in bounds for n in (bound.epsilon.denominator, bound.each.denominator)))


def _fits(places: Sequence[Place], slots: int, unit: int) -> bool:
    known = sum((paid.epsilon for place in places for paid in place.paid), Fraction(0))
    bounds = Counter(bound for place in places for bound in place.bounds)
    new = sum(
        (times * bound.steady(4 * slots + 4 * bound.mark_lifetime) for bound, times in bounds.items()), Fraction(0)
    )
    return (known + new) * unit < _INT64


def _already(paid: Iterable[PaidAnswer], starts: _Ticks, slots: int, unit: int, kind: np.dtype[Any]) -> NDArray[Any]:
    """What was paid by visits in the periods that begin at `starts`."""
    known = list(paid)
    amounts = [int(each.epsilon * unit) for each in known]
    # An answer counts if its last slot is not before the period, unless its first one is after it.
    ended = _summed([each.last for each in known], amounts, kind)
    begun = _summed([each.first for each in known], amounts, kind)
    found: NDArray[Any] = begun.up_to(starts + slots - 1) - ended.up_to(starts - 1)
    return found


@dataclass(frozen=True, slots=True)
class _Sums:
    """Amounts at ticks, added up."""

    at: _Ticks
    sums: NDArray[Any]

    def up_to(self, ticks: _Ticks) -> NDArray[Any]:
        found: NDArray[Any] = self.sums[np.searchsorted(self.at, ticks, side="right")]
        return found


def _summed(at: Sequence[int], amounts: Sequence[int], kind: np.dtype[Any]) -> _Sums:
    order = np.argsort(np.array(at, np.int64), kind="stable")
    sums = np.concatenate([np.zeros(1, kind), np.cumsum(np.array(amounts, kind)[order])])
    return _Sums(np.array(at, np.int64)[order], sums)


class _Schedule:
    """Answers that are given as soon as they may be: no other ones are more, up to any tick.

    Where the ε of what runs leaves room for a part of an answer, that part counts: an answer of another rule may fit.
    """

    def __init__(
        self, bound: Bound, begins: int, running: Sequence[tuple[int, Fraction]], unit: int, kind: np.dtype[Any]
    ) -> None:
        self._bound, self._begins, self._unit, self._kind = bound, begins, unit, kind
        last = max((until for until, _ in running), default=begins - 1)
        # One reach after all of before has ended the answers repeat, from one reach to the next.
        self._known = max(begins, last + 1) + 2 * bound.mark_lifetime
        self._sums = self._answered([(until, int(epsilon * unit)) for until, epsilon in running])

    def _answered(self, running: list[tuple[int, int]]) -> _Sums:
        """The answers before `_known`."""
        epsilon, each = int(self._bound.epsilon * self._unit), int(self._bound.each * self._unit)
        waiting = sorted(running)
        spent, ended, tick = sum(amount for _, amount in waiting), 0, self._begins
        at, amounts = [], []
        while tick < self._known:
            while ended < len(waiting) and waiting[ended][0] < tick:
                spent -= waiting[ended][1]
                ended += 1
            amount = min(each, epsilon - spent)
            if amount > 0:
                at.append(tick)
                amounts.append(amount)
                spent += amount
                _insert(waiting, (tick + self._bound.mark_lifetime - 1, amount), ended)
                tick += 1
            else:
                tick = waiting[ended][0] + 1
        return _summed(at, amounts, self._kind)

    def most(self, starts: _Ticks, slots: int) -> NDArray[Any]:
        """The most that is answered at the ticks whose counts hold visits of the periods that begin at `starts`."""
        bound = self._bound
        last = starts + slots + bound.window - 2
        within = self._up_to(last)
        ticks = np.maximum(last - np.maximum(starts - bound.max_lead, self._begins) + 1, 0)
        whole, rest = np.divmod(ticks, bound.mark_lifetime)
        epsilon, each = int(bound.epsilon * self._unit), int(bound.each * self._unit)
        fresh = whole.astype(self._kind) * epsilon + np.minimum(rest.astype(self._kind) * each, epsilon)
        found: NDArray[Any] = np.minimum(within, fresh)
        return found

    def _up_to(self, ticks: _Ticks) -> NDArray[Any]:
        known, mark_lifetime = self._known - 1, self._bound.mark_lifetime
        over = np.maximum(ticks - known, 0)
        whole, rest = np.divmod(over, mark_lifetime)
        ends = self._sums.up_to(np.array([known - mark_lifetime, known], np.int64))
        cycle = ends[1] - ends[0]
        part = self._sums.up_to(known - mark_lifetime + rest) - ends[0]
        found: NDArray[Any] = self._sums.up_to(np.minimum(ticks, known)) + whole.astype(self._kind) * cycle + part
        return found


def _insert(waiting: list[tuple[int, int]], entry: tuple[int, int], start: int) -> None:
    """Insert by end; new answers end last, unless one of before runs longer."""
    place = len(waiting)
    while place > start and waiting[place - 1] > entry:
        place -= 1
    waiting.insert(place, entry)
