"""Algorithm 3: one location over time, with marks on slots (docs/rules.md, section 3 and rules 1-3).

Pure: the state is the location's marks, which the ledger carries; a tick turns (marks, count, noise) into an answer and
the marks that run. When a location is paused depends on published answers and the public clock, on nothing else.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from monitor.errors import PrivacyError
from monitor.privacy.epsilon import require_drawable

Status = Literal["safe", "noisy_count", "paused", "unknown"]


@dataclass(frozen=True, slots=True)
class Mark:
    """The record that a slot's budget is spent: a noisy answer, its ε, and the last tick that may hold its visits.

    `noisy_count` is what was published; what may be answered later depends on the others alone. `counted_after`: an
    earlier build made the answer, whose counts held visits that were reported after their tick too. So it may hold a
    visit that was stamped in slot tick + 1, and runs one tick longer under a changed rule.
    """

    tick: int
    noisy_count: int
    epsilon: Fraction
    until: int
    counted_after: bool = False

    @property
    def last_stamp(self) -> int:
        """The last slot in which a visit that this answer counted can have been stamped."""
        return self.tick + self.counted_after


@dataclass(frozen=True, slots=True)
class OverTimeRule:
    """What decides one location's answers. All of it is public.

    `epsilon` is the location's own ε_l, `answers` the noisy answers a window (k), `threshold` a number of people (T),
    `window` its length W and `ahead` how far ahead a visit may be stamped (F), both in slots.
    """

    epsilon: Fraction
    answers: int
    threshold: int
    window: int
    max_lead: int

    def __post_init__(self) -> None:
        """Raise PrivacyError (EpsilonError for ε) for what the algorithm is not defined for."""
        require_drawable(self.answer_epsilon if self.answers > 0 else self.epsilon, "ε of one answer")
        for name, value, least in (
            ("answers_per_window", self.answers, 1),
            ("threshold", self.threshold, 1),
            ("window", self.window, 1),
            ("accept_ahead", self.max_lead, 0),
        ):
            if value < least:
                raise PrivacyError(
                    f"{name} is {value} (in whole answers, people or slots): expected at least {least}; raise it."
                )

    @property
    def answer_epsilon(self) -> Fraction:
        """The ε that one noisy answer is drawn at and costs: ε_l/k."""
        return self.epsilon / self.answers

    @property
    def mark_lifetime(self) -> int:
        """W + F: in how many ticks' counts a visit can be, so how long a mark runs (docs/rules.md, rule 2).

        Stamped in slot c, it is in the counts of the ticks c … c + F + W - 1.
        """
        return self.window + self.max_lead


@dataclass(frozen=True, slots=True)
class OverTimeAnswer:
    """What one tick says of one location, and the marks that run at it, this answer's own included.

    `noisy_count` is set for a noisy count only; `resumes_at`, the next tick that may answer, while paused only.
    """

    status: Status
    noisy_count: int | None
    marks: tuple[Mark, ...]
    resumes_at: int | None


def running_marks(marks: tuple[Mark, ...], tick: int) -> tuple[Mark, ...]:
    """The marks that run at a tick: until ≥ tick. Marks ahead of the clock, after it jumped back, run too (docs/rules.md, rule 5)."""
    return tuple(mark for mark in marks if mark.until >= tick)


def extend_marks(rule: OverTimeRule, marks: tuple[Mark, ...]) -> tuple[Mark, ...]:
    """The marks under the present rule: a longer window (or F) lengthens them, a shorter one changes nothing.

    After a change pass every mark of the last W + F ticks, also those that had run out under the old window.
    """
    return tuple(_lengthen(mark, mark.last_stamp + rule.mark_lifetime - 1) for mark in marks)


def _lengthen(mark: Mark, until: int) -> Mark:
    return mark if mark.until >= until else replace(mark, until=until)


def may_answer(rule: OverTimeRule, marks: tuple[Mark, ...], tick: int, lost_tick: int | None = None) -> bool:
    """Whether the ε of the marks that run, plus that of the next answer, is at most ε_l (docs/rules.md, section 3).

    `lost_tick` is the tick at which the ledger was lost, if it was: everything then counts as spent for W + F ticks.
    """
    if lost_tick is not None and tick < lost_tick + rule.mark_lifetime:
        return False
    return _spent(running_marks(extend_marks(rule, marks), tick)) + rule.answer_epsilon <= rule.epsilon


def next_answer_tick(rule: OverTimeRule, marks: tuple[Mark, ...], tick: int, lost_tick: int | None = None) -> int:
    """The first tick after `tick` at which the location may answer, if nothing is published until then."""
    first = tick + 1 if lost_tick is None else max(tick + 1, lost_tick + rule.mark_lifetime)
    run = running_marks(extend_marks(rule, marks), first)
    spent, allowed = _spent(run), rule.epsilon - rule.answer_epsilon
    for mark in sorted(run, key=lambda each: each.until):
        if spent <= allowed:
            break
        spent -= mark.epsilon
        first = mark.until + 1
    return first


def step(
    rule: OverTimeRule,
    marks: tuple[Mark, ...],
    tick: int,
    count: int | None,
    noise: int,
    *,
    lost_tick: int | None = None,
) -> OverTimeAnswer:
    """Decide one tick of one location: "safe" if count + noise is below the threshold, else the noisy count, marked.

    `count` is the number of distinct people in the window, None where the input is not complete (docs/rules.md, rule 9); `noise` a
    fresh draw of one-sided geometric noise at `rule.answer_epsilon`, for every location and tick (docs/rules.md, rule 3). Paused beats
    unknown. Raises PrivacyError for a negative count or noise, without saying the count.
    """
    if noise < 0 or (count is not None and count < 0):
        raise PrivacyError(
            "A count or its noise is negative: expected 0 or more; pass distinct people and one-sided noise."
        )
    run = running_marks(extend_marks(rule, marks), tick)
    if not may_answer(rule, marks, tick, lost_tick):
        return OverTimeAnswer("paused", None, run, next_answer_tick(rule, marks, tick, lost_tick))
    if count is None:
        return OverTimeAnswer("unknown", None, run, None)
    noisy_count = count + noise
    if noisy_count < rule.threshold:
        return OverTimeAnswer("safe", None, run, None)
    mark = Mark(tick, noisy_count, rule.answer_epsilon, until=tick + rule.mark_lifetime - 1)
    return OverTimeAnswer("noisy_count", noisy_count, (*run, mark), None)


def p_value(epsilon: Fraction, threshold: int, noisy_count: int) -> float:
    """The chance per update that fewer than `threshold` people give an answer this high: e^(-ε(z - T + 1)).

    For display (a binary float); `epsilon` is that of the answer, `noisy_count` at least `threshold`.
    """
    return math.exp(-float(epsilon * (noisy_count - threshold + 1)))


def _spent(marks: Iterable[Mark]) -> Fraction:
    equal = Counter(mark.epsilon for mark in marks)
    return sum((epsilon * times for epsilon, times in equal.items()), Fraction(0))
