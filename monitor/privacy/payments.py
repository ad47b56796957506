"""What one person pays (docs/rules.md, section 6): charges are facts, what is done with them is addition (docs/rules.md, rule 12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from monitor.errors import OverspentError, PrivacyError
from monitor.privacy.epsilon import format_epsilon


@dataclass(frozen=True, slots=True)
class Charge:
    """What one person may pay to one source (a monitor, running marks) in the period, and the arithmetic in words."""

    source: str
    amount: Fraction
    reason: str


def most_answers(answers: int, window: int, max_lead: int, slots: int) -> int:
    """How many noisy answers can charge a person who keeps coming to one location during `slots` consecutive slots.

    Their visits are in the counts of N = H + W + F - 1 consecutive ticks; any W + F consecutive ticks hold at most k
    answers, so N hold at most k·floor(N/(W + F)) + min(k, N mod (W + F)). Raises PrivacyError for a value that the
    algorithm is not defined for.
    """
    if min(answers, window, slots) < 1 or max_lead < 0:
        raise PrivacyError(
            f"answers is {answers}, window {window}, ahead {max_lead}, slots {slots}: expected at least 1, 1, 0 and 1; "
            "raise what is below."
        )
    mark_lifetime = window + max_lead
    ticks = slots + mark_lifetime - 1
    return answers * (ticks // mark_lifetime) + min(answers, ticks % mark_lifetime)


def over_time_payment(epsilon: Fraction, answers: int, window: int, max_lead: int, slots: int) -> Fraction:
    """The most that a person pays who keeps coming during `slots` slots: ε/k for each of `most_answers`.

    With ε_l it is one location's; with the monitor's ε, of which the ε_l are shares, that of all its locations.
    `window`, `ahead` and `slots` are in slots; a period of n slots that is not aligned touches n + 1.
    """
    return epsilon / answers * most_answers(answers, window, max_lead, slots)


def at_times_payment(epsilon: Fraction, times: int) -> Fraction:
    """The most that a person pays who is somewhere at each of `times` designated times: ε each."""
    return epsilon * times


def over_time_charge(source: str, epsilon: Fraction, answers: int, window: int, max_lead: int, slots: int) -> Charge:
    """The charge of an `over_time` monitor, or of one location of it."""
    most = most_answers(answers, window, max_lead, slots)
    reason = f"{most} noisy answers × {format_epsilon(epsilon / answers)}, by visits in {slots} slots"
    return Charge(source, over_time_payment(epsilon, answers, window, max_lead, slots), reason)


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
