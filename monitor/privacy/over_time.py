"""Algorithm 3: decide one location over time, with marks for spent ε (docs/rules.md, section 3 and rules 1-3).

The functions are pure. The state of a location is its marks, which are in the ledger. A tick turns (marks, count,
noise) into an answer and the running marks. Whether a location is paused, and where its count begins, depends only on
published answers and the public clock.

While a mark runs, a tick counts only what was reported after the tick of the latest noisy answer. So a record is in at
most one noisy answer, and pays for it once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal, NamedTuple

from monitor.errors import PrivacyError
from monitor.privacy.epsilon import require_drawable

Status = Literal["safe", "noisy_count", "paused", "unknown"]


@dataclass(frozen=True, slots=True)
class Mark:
    """A noisy answer that spends budget."""

    tick: int
    noisy_count: int
    """The published number; later decisions do not depend on it."""
    epsilon: Fraction
    until: int
    """The last tick that may count the same visits."""


@dataclass(frozen=True)
class OverTimeRule:
    """The rule of one location. It is public. W and F are in slots."""

    epsilon: Fraction
    """The location's ε_l."""
    answers: int
    """k, the noisy answers per window."""
    threshold: int
    """T, a number of people."""
    window: int
    """W."""
    max_lead: int
    """F: how far after its stamp a visit may end."""

    def __post_init__(self) -> None:
        """Raise PrivacyError if a number is too small, EpsilonError if noise cannot be drawn at the ε of one answer."""
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

    @cached_property
    def answer_epsilon(self) -> Fraction:
        """The ε of one noisy answer: its noise is drawn at ε_l/k, and it costs ε_l/k."""
        return self.epsilon / self.answers

    @property
    def mark_lifetime(self) -> int:
        """W + F, the number of ticks for which a mark runs (docs/rules.md, rule 2).

        A visit stamped in slot c can be in the counts of the W + F ticks c … c + F + W - 1.
        """
        return self.window + self.max_lead


class OverTimeAnswer(NamedTuple):
    """The answer of one tick about one location."""

    status: Status
    noisy_count: int | None
    """Set only for a noisy count."""
    marks: tuple[Mark, ...]
    """The running marks, including that of this answer."""
    resumes_at: int | None
    """The next tick that may answer; set only while paused."""
    counted_since: int | None = None
    """The tick after whose slot the counted people were reported, if a mark was running (`find_count_start`).

    It is set only for "safe" and a noisy count.
    """


def select_running_marks(marks: tuple[Mark, ...], tick: int) -> tuple[Mark, ...]:
    """Return the marks that run at a tick: until ≥ tick.

    If the clock was set back, these include marks of later ticks (docs/rules.md, rule 5).
    """
    return tuple(mark for mark in marks if mark.until >= tick)


def extend_marks(rule: OverTimeRule, marks: tuple[Mark, ...]) -> tuple[Mark, ...]:
    """Return the marks under the present rule: a larger W or F lengthens them, a smaller one changes nothing.

    After a change of the rule, pass every mark of the last W + F ticks, including those that ended under the old
    window.
    """
    return tuple(_lengthen(mark, mark.tick + rule.mark_lifetime - 1) for mark in marks)


def _lengthen(mark: Mark, until: int) -> Mark:
    return mark if mark.until >= until else replace(mark, until=until)


def find_count_start(rule: OverTimeRule, marks: tuple[Mark, ...], tick: int) -> int | None:
    """Return the tick of the latest noisy answer if its mark runs, else None.

    The tick that is decided then counts, of the people in its window, those who were reported after that tick's slot.
    Without a running mark it counts all people in its window.
    """
    run = select_running_marks(extend_marks(rule, marks), tick) if marks else ()
    return _find_latest(run)


def may_answer(rule: OverTimeRule, marks: tuple[Mark, ...], tick: int, lost_tick: int | None = None) -> bool:
    """Return whether the ε of the running marks plus that of the next answer is at most ε_l (docs/rules.md, section 3).

    The result is False at the tick of a mark and before it, because nothing was reported since.
    `lost_tick` is the tick at which the ledger was lost, if any. All budget then counts as spent for W + F ticks.
    """
    if lost_tick is not None and tick < lost_tick + rule.mark_lifetime:
        return False
    if not all(mark.tick < tick for mark in marks):
        return False
    run = select_running_marks(extend_marks(rule, marks), tick)
    return _sum_epsilon(run) + rule.answer_epsilon <= rule.epsilon


def find_next_answer_tick(rule: OverTimeRule, marks: tuple[Mark, ...], tick: int, lost_tick: int | None = None) -> int:
    """Return the first tick after `tick` at which the location may answer, if nothing is published until then."""
    last_tick = max([tick, *(mark.tick for mark in marks)])
    first = last_tick + 1 if lost_tick is None else max(last_tick + 1, lost_tick + rule.mark_lifetime)
    run = select_running_marks(extend_marks(rule, marks), first)
    spent, allowed = _sum_epsilon(run), rule.epsilon - rule.answer_epsilon
    for mark in sorted(run, key=lambda mark: mark.until):
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
    """Decide one tick of one location: "safe" if count + noise is below the threshold, else the noisy count and a mark.

    The answer of a paused location is "paused" even if the input is incomplete.

    Args:
        rule: the location's rule.
        marks: the marks of earlier answers.
        tick: the tick to decide.
        count: the number of distinct people in the window, or of those who were reported since `find_count_start`;
            None if the input is incomplete (docs/rules.md, rule 9).
        noise: a draw of one-sided geometric noise at `rule.answer_epsilon`, fresh for every location and tick
            (docs/rules.md, rule 3).
        lost_tick: as for `may_answer`.

    Raises:
        PrivacyError: the count or the noise is negative. The message does not contain the count.
    """
    if noise < 0 or (count is not None and count < 0):
        raise PrivacyError(
            "A count or its noise is negative: expected 0 or more; pass distinct people and one-sided noise."
        )
    run = select_running_marks(extend_marks(rule, marks), tick) if marks else ()
    # A place without marks may answer, unless the ledger was lost. Most places have no marks, so this saves time.
    if (run or lost_tick is not None) and not may_answer(rule, marks, tick, lost_tick):
        return OverTimeAnswer("paused", None, run, find_next_answer_tick(rule, marks, tick, lost_tick))
    if count is None:
        return OverTimeAnswer("unknown", None, run, None)
    noisy_count = count + noise
    since = _find_latest(run) if run else None
    if noisy_count < rule.threshold:
        return OverTimeAnswer("safe", None, run, None, since)
    mark = Mark(tick, noisy_count, rule.answer_epsilon, until=tick + rule.mark_lifetime - 1)
    return OverTimeAnswer("noisy_count", noisy_count, (*run, mark), None, since)


def compute_p_value(epsilon: Fraction, threshold: int, noisy_count: int) -> float:
    """Return the largest chance per update with which fewer than T people give a noisy count z or more: e^(-ε(z-T+1)).

    The result is a binary float, for display only (docs/rules.md, section 2). `epsilon` is the ε of the answer,
    `noisy_count` is z, and `threshold` is T ≤ z.
    """
    return math.exp(-float(epsilon * (noisy_count - threshold + 1)))


def _find_latest(marks: Iterable[Mark]) -> int | None:
    return max((mark.tick for mark in marks), default=None)


def _sum_epsilon(marks: Iterable[Mark]) -> Fraction:
    times_by_epsilon = Counter(mark.epsilon for mark in marks)
    return sum((epsilon * times for epsilon, times in times_by_epsilon.items()), Fraction(0))
