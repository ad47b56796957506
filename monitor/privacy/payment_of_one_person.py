"""The maximum payment of one person: the charges and their sum (docs/rules.md, section 6 and rule 12)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from monitor.errors import PrivacyError
from monitor.privacy.epsilon import format_epsilon


@dataclass(frozen=True, slots=True)
class Charge:
    """The maximum payment of one person to one source (a monitor, running marks) in the period, with its reason."""

    source: str
    amount: Fraction
    reason: str


def compute_most_answers(answers: int, window: int, max_lead: int, slots: int) -> int:
    """Return the maximum number of noisy answers that charge visits to one location in H = `slots` consecutive slots.

    The visits are in the counts of N = H + W + F - 1 consecutive ticks (docs/proof/OverTimeLoss.v).

    Raises:
        PrivacyError: a number is too small.
    """
    if min(answers, window, slots) < 1 or max_lead < 0:
        raise PrivacyError(
            f"answers is {answers}, window {window}, max_lead {max_lead}, slots {slots}: expected at least 1, 1, 0 and "
            "1; raise each number below its minimum."
        )
    mark_lifetime = window + max_lead
    ticks = slots + mark_lifetime - 1
    return answers * (ticks // mark_lifetime) + min(answers, ticks % mark_lifetime)


def compute_over_time_payment(epsilon: Fraction, answers: int, window: int, max_lead: int, slots: int) -> Fraction:
    """Return the maximum payment for visits in `slots` consecutive slots: ε/k for each of `compute_most_answers`.

    With ε_l this is the payment to one location. With the monitor's ε, of which the ε_l are shares, it is the payment
    to all its locations. `window`, `max_lead` and `slots` are in slots. A period of n slot lengths that begins within a
    slot overlaps n + 1 slots.
    """
    return epsilon / answers * compute_most_answers(answers, window, max_lead, slots)


def compute_at_times_payment(epsilon: Fraction, times: int) -> Fraction:
    """Return the maximum payment for visits at `times` designated times: ε per time."""
    return epsilon * times


def charge_over_time(source: str, epsilon: Fraction, answers: int, window: int, max_lead: int, slots: int) -> Charge:
    """Return the charge of an `over_time` monitor, or of one of its locations."""
    most = compute_most_answers(answers, window, max_lead, slots)
    reason = f"{most} noisy answers × {format_epsilon(epsilon / answers)}, by visits in {slots} slots"
    return Charge(source, compute_over_time_payment(epsilon, answers, window, max_lead, slots), reason)


def charge_at_times(source: str, epsilon: Fraction, times: int, at_least: Fraction | None = None) -> Charge:
    """Return the charge of an `at_times` or `hot_spots` monitor. `at_least` is the ε of its lower bounds, if any.

    The two ε are added (docs/rules.md, rule 13): a person with two visits at one time and place can pay the sum.
    """
    if at_least is None:
        return Charge(
            source, compute_at_times_payment(epsilon, times), f"{times} designated times × {format_epsilon(epsilon)}"
        )
    reason = f"{times} designated times × ({format_epsilon(epsilon)} + {format_epsilon(at_least)} for lower bounds)"
    return Charge(source, compute_at_times_payment(epsilon + at_least, times), reason)
