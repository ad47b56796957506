"""The most that one person may pay under the configuration alone (docs/privacy.md)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from monitor.config.whole_config import Config
from monitor.errors import Problem
from monitor.kinds.timing import Timing
from monitor.privacy.epsilon import format_epsilon
from monitor.privacy.payment_of_one_person import Charge


def find_overspending(config: Config, charges: Sequence[Charge]) -> Problem | None:
    """Return a problem, with the sum and every charge, if one person may pay more than privacy.epsilon, else None."""
    stated, total = config.privacy.epsilon, sum((charge.amount for charge in charges), Fraction(0))
    if total <= stated:
        return None
    terms = (f"{charge.source}: {format_epsilon(charge.amount)} = {charge.reason}" for charge in charges)
    amounts = " + ".join(format_epsilon(charge.amount) for charge in charges)
    listed = "\n      ".join((*terms, f"sum: {amounts} = {format_epsilon(total)}"))
    return Problem(
        "privacy.epsilon",
        format_epsilon(stated),
        f"at least what one person may pay in the period, {format_epsilon(total - stated)} more:\n      {listed}",
        f"Set it to {format_epsilon(total)} or more, or lower a monitor's epsilon or its designated times.",
    )


def compute_charges(config: Config) -> tuple[Charge, ...]:
    """Return the most that each monitor may charge one person within any period, in the order of the configuration."""
    timing = compute_timing(config)
    return tuple(monitor.charge(timing) for monitor in config.monitors)


def compute_timing(config: Config) -> Timing:
    """Return the slot, F and the period."""
    return Timing(config.clock.slot, compute_max_lead(config), config.privacy.period)


def compute_max_lead(config: Config) -> int:
    """Return F: how many slots after its record's timestamp a visit may end.

    A visit may begin `accept_ahead` after it, and lasts `default_stay` without `left_at` (docs/rules.md, rule 7).
    """
    slot = config.clock.slot
    return -(-config.visits.accept_ahead // slot) - (-config.visits.default_stay // slot)
