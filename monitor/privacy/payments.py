"""What one person pays (privacy model, section 6): charges are facts, what is done with them is addition (rule 12)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from monitor.errors import OverspentError, PrivacyError
from monitor.privacy.epsilon import format_epsilon
from monitor.privacy.over_time import Mark, running


@dataclass(frozen=True, slots=True)
class Charge:
    """What one person may pay to one source (a monitor, running marks) in the period, and the arithmetic in words."""

    source: str
    amount: Fraction
    reason: str


@dataclass(frozen=True, slots=True)
class Holding:
    """One location's present ε_l (0 where it or its monitor is gone) and its marks, extended by the present rule."""

    epsilon: Fraction
    marks: tuple[Mark, ...]


def most_answers(answers: int, window: int, ahead: int, slots: int) -> int:
    """How many noisy answers can charge a person who keeps coming to one location during `slots` consecutive slots.

    Their visits are in the counts of N = H + W + F - 1 consecutive ticks; any W + F consecutive ticks hold at most k
    answers, so N hold at most k·floor(N/(W + F)) + min(k, N mod (W + F)). Raises PrivacyError for a value that the
    algorithm is not defined for.
    """
    if min(answers, window, slots) < 1 or ahead < 0:
        raise PrivacyError(
            f"answers is {answers}, window {window}, ahead {ahead}, slots {slots}: expected at least 1, 1, 0 and 1; "
            "raise what is below."
        )
    reach = window + ahead
    ticks = slots + reach - 1
    return answers * (ticks // reach) + min(answers, ticks % reach)


def over_time_payment(epsilon: Fraction, answers: int, window: int, ahead: int, slots: int) -> Fraction:
    """The most that a person pays who keeps coming during `slots` slots: ε/k for each of `most_answers`.

    With ε_l it is one location's; with the monitor's ε, of which the ε_l are shares, that of all its locations.
    `window`, `ahead` and `slots` are in slots; a period of n slots that is not aligned touches n + 1.
    """
    return epsilon / answers * most_answers(answers, window, ahead, slots)


def at_times_payment(epsilon: Fraction, times: int) -> Fraction:
    """The most that a person pays who is somewhere at each of `times` designated times: ε each."""
    return epsilon * times


def over_time_charge(source: str, epsilon: Fraction, answers: int, window: int, ahead: int, slots: int) -> Charge:
    """The charge of an `over_time` monitor, or of one location of it."""
    most = most_answers(answers, window, ahead, slots)
    reason = f"{most} noisy answers × {format_epsilon(epsilon / answers)}, by visits in {slots} slots"
    return Charge(source, over_time_payment(epsilon, answers, window, ahead, slots), reason)


def at_times_charge(source: str, epsilon: Fraction, times: int) -> Charge:
    """The charge of an `at_times` monitor."""
    reason = f"{times} designated times × {format_epsilon(epsilon)}"
    return Charge(source, at_times_payment(epsilon, times), reason)


def check_period(stated: Fraction, charges: Sequence[Charge]) -> Fraction:
    """The sum of all charges if it is at most what the configuration states; OverspentError writes it out if not."""
    total = sum((charge.amount for charge in charges), Fraction(0))
    if total <= stated:
        return total
    terms = "\n".join(f"  {charge.source}: {format_epsilon(charge.amount)} = {charge.reason}" for charge in charges)
    raise OverspentError(
        f"privacy.epsilon is {format_epsilon(stated)}, but one person may pay {format_epsilon(total)} in the period, "
        f"{format_epsilon(total - stated)} more:\n{terms}\n"
        f"  sum: {' + '.join(format_epsilon(charge.amount) for charge in charges)} = {format_epsilon(total)}\n"
        f"Set privacy.epsilon to {format_epsilon(total)} or more, or lower a monitor's epsilon or its designated "
        "times."
    )


def excess_of_running_marks(epsilon: Fraction, marks: tuple[Mark, ...], tick: int) -> Fraction:
    """By how much the marks that run at a tick exceed the location's present ε_l (0 where it is gone); never negative.

    The marks are those under the present rule (`monitor.privacy.over_time.extended`).
    """
    spent = sum((mark.epsilon for mark in running(marks, tick)), Fraction(0))
    return max(spent - epsilon, Fraction(0))


def total_excess(holdings: Sequence[Holding], tick: int) -> Fraction:
    """What one person may have paid at all locations beyond their present shares, by marks that run at a tick."""
    return sum((excess_of_running_marks(held.epsilon, held.marks, tick) for held in holdings), Fraction(0))


def ends(holdings: Sequence[Holding]) -> set[int]:
    """The ticks at which the excess of holdings falls: each one after a mark's last."""
    return {mark.until + 1 for held in holdings for mark in held.marks}


def fits_at(allowance: Fraction, excess: Callable[[int], Fraction], changes: Iterable[int], tick: int) -> int | None:
    """The first tick from `tick` on at which the excess is at most the allowance; None if it never is.

    `changes`: the ticks at which the excess may fall, and it falls nowhere else.
    """
    moments = sorted({tick} | {moment for moment in changes if moment > tick})
    return next((moment for moment in moments if excess(moment) <= allowance), None)
