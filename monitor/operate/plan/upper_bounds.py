"""`location-monitor plan --kind upper_bound`: buckets and ε of upper bounds that meet given targets.

A bound adds up the numbers of all buckets of the window. Longer buckets are fewer numbers, so a bound is less too high
for the same payment, and comes less often.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

from rich import box
from rich.console import Console
from rich.table import Table

from monitor.errors import UsageError
from monitor.operate.check.report import ASSUMPTION
from monitor.operate.plan.find_plans import SLOTS, WINDOWS, choose
from monitor.operate.plan.find_threshold_and_epsilon import choose_grid_step
from monitor.operate.plan.render import MOST_SHOWN, say
from monitor.operate.plan.targets import Targets
from monitor.privacy.alarm_chances import compute_excess
from monitor.privacy.epsilon import SMALLEST, format_epsilon
from monitor.privacy.upper_bound import BucketRule, charge_upper_bound
from monitor.time.instants import DAY, HOUR, format_duration
from monitor.values.wording import format_amount

BUCKETS: Final = (HOUR, 6 * HOUR, DAY, 7 * DAY)


@dataclass(frozen=True, slots=True)
class UpperBoundOptions:
    """The options of upper bounds: durations in microseconds; None if not fixed. `too_high`: people on average."""

    slot: int | None = None
    window: int | None = None
    bucket: int | None = None
    accept_ahead: int = 0
    locations: int = 1
    too_high_at_most: int | None = None
    fits: ClassVar = (
        "--bucket must be a whole number of slots that divides --window, and --accept-ahead a whole number of slots"
    )

    def list_rules(self) -> Iterator[tuple[int, BucketRule]]:
        """Yield each slot with a rule that the options allow. ε of a location is 1."""
        for window in choose(self.window, WINDOWS):
            for bucket in choose(self.bucket, BUCKETS):
                # A slot that is shorter than the bucket changes no number.
                for slot in choose(self.slot, tuple(slot for slot in SLOTS if slot <= bucket)[-1:]):
                    whole = not (bucket % slot or window % bucket or self.accept_ahead % slot)
                    if whole and bucket <= window:
                        yield slot, BucketRule(Fraction(1), bucket // slot, window // slot, self.accept_ahead // slot)


@dataclass(frozen=True, slots=True)
class UpperBoundPlan:
    """A plan: the slot, the rule of a location, and the number of locations that share ε."""

    slot: int
    rule: BucketRule
    locations: int

    @property
    def epsilon(self) -> Fraction:
        """The monitor's ε."""
        return self.rule.epsilon * self.locations

    @property
    def window(self) -> int:
        """The window in microseconds."""
        return self.rule.window * self.slot

    @property
    def bucket(self) -> int:
        """The bucket in microseconds."""
        return self.rule.bucket * self.slot

    @property
    def excess(self) -> tuple[float, float]:
        """By how many people noise raises a bound: the mean and the standard deviation."""
        return compute_excess(self.rule.buckets, self.rule.answer_epsilon)

    def compute_payment(self, period: int) -> Fraction:
        """Return the most that one person pays within any period (microseconds)."""
        slots = -(-period // self.slot) + 1
        return charge_upper_bound("", self.epsilon, self.rule, slots).amount

    def rank(self, period: int, *, excess_first: bool) -> tuple[float, ...]:
        """Return the place in the order of plans: by payment and excess, or by excess and payment, then by lengths."""
        payment, excess = float(self.compute_payment(period)), self.excess[0]
        first = (excess, payment) if excess_first else (payment, excess)
        return *first, self.window, self.bucket


def find_upper_bounds(options: UpperBoundOptions, targets: Targets) -> tuple[UpperBoundPlan, ...]:
    """Return the plans that meet the targets, best first.

    With a target for how much too high a bound is, ε is the smallest that meets it, and the lowest payment is best.
    Else ε is the largest that is allowed, and the bound that is least too high is best.

    Raises:
        UsageError: an option is invalid, nothing bounds ε, or no plan meets the targets.
    """
    if foreign := set(targets.given) & {"false_alarms", "noise", "alarm", "threshold", "busy"}:
        named = ", ".join(sorted(targets.describe(name).split()[0] for name in foreign))
        raise UsageError(f"{named}: an upper bound is compared with no threshold; leave it out.")
    if options.too_high_at_most is None and not targets.decides_epsilon:
        raise UsageError(
            "Nothing bounds ε: add --too-high-at-most, --visit-belief, --person-belief, --pays-at-most or --epsilon."
        )
    rules = tuple(options.list_rules())
    if not rules:
        raise UsageError(f"No bucket fits: {options.fits}.")
    solved = (_solve(slot, rule, options, targets) for slot, rule in rules)
    plans = [plan for plan in solved if plan is not None and _counts_enough(plan, targets)]
    if not plans:
        raise UsageError(
            "No plan meets all targets: a bound that is less too high needs a larger ε. Raise --too-high-at-most or "
            "--bucket, allow a larger payment or belief, or leave out --counts-at-least."
        )
    excess_first = options.too_high_at_most is None
    return tuple(sorted(plans, key=lambda plan: plan.rank(targets.period, excess_first=excess_first)))


def _counts_enough(plan: UpperBoundPlan, targets: Targets) -> bool:
    return targets.counts is None or (targets.find_counted(plan.window) or 0) >= targets.counts


def _solve(slot: int, rule: BucketRule, options: UpperBoundOptions, targets: Targets) -> UpperBoundPlan | None:
    """Return the plan of a rule whose ε is 1; None if no ε meets the targets."""
    unit = UpperBoundPlan(slot, rule, 1)
    pays, visit = unit.compute_payment(targets.period), rule.answer_epsilon / options.locations
    limits = [limit / pays for limit in (targets.pays, targets.person_epsilon) if limit is not None]
    limits += [] if targets.visit_epsilon is None else [targets.visit_epsilon / visit]
    if targets.epsilon is not None:
        epsilon = targets.epsilon
    elif options.too_high_at_most is not None:
        # The numbers are too high by B/(e^ε - 1) together, where B are the numbers and ε is that of one of them.
        least = Fraction(math.log1p(rule.buckets / options.too_high_at_most)) / visit
        step = choose_grid_step(least)
        epsilon = (least // step + 1) * step
    else:
        step = choose_grid_step(min(limits))
        epsilon = min(limits) // step * step
    if any(epsilon > limit for limit in limits) or epsilon * visit < SMALLEST:
        return None
    plan = UpperBoundPlan(
        slot, BucketRule(epsilon / options.locations, rule.bucket, rule.window, rule.max_lead), options.locations
    )
    most = options.too_high_at_most
    return plan if most is None or plan.excess[0] <= most else None


def make_tree(plans: tuple[UpperBoundPlan, ...], options: UpperBoundOptions, targets: Targets) -> dict[str, Any]:
    """Return plans as JSON, ε as exact strings, durations as in the configuration."""
    most = options.too_high_at_most
    return {
        "targets": [*([] if most is None else [f"--too-high-at-most {most}"]), *map(targets.describe, targets.given)],
        "period": format_duration(targets.period),
        "assumption": ASSUMPTION,
        "plans": [_make_plan_tree(plan, targets) for plan in plans],
    }


def _make_plan_tree(plan: UpperBoundPlan, targets: Targets) -> dict[str, Any]:
    mean, deviation = plan.excess
    counts = targets.find_counted(plan.window)
    return {
        "kind": "upper_bound",
        "epsilon": format_epsilon(plan.epsilon),
        "epsilon_of_a_number": format_epsilon(plan.rule.answer_epsilon),
        "slot": format_duration(plan.slot),
        "window": format_duration(plan.window),
        "bucket": format_duration(plan.bucket),
        "accept_ahead": format_duration(plan.rule.max_lead * plan.slot),
        "pays": format_epsilon(plan.compute_payment(targets.period)),
        "excess": {"mean": mean, "deviation": deviation},
        "counts": None if counts is None else float(counts),
    }


def render(plans: tuple[UpperBoundPlan, ...], period: int, console: Console) -> None:
    """Print the plans that meet all targets."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for column in ("", "pays", "ε", "one visit", "window", "bucket", "too high"):
        table.add_column(column, no_wrap=True)
    for number, plan in enumerate(plans[:MOST_SHOWN]):
        mean, deviation = plan.excess
        table.add_row(
            ">" if number == 0 else "",
            *map(format_epsilon, (plan.compute_payment(period), plan.epsilon, plan.rule.answer_epsilon)),
            *map(format_duration, (plan.window, plan.bucket)),
            f"{format_amount(mean)} ± {format_amount(deviation)}",
        )
    say(console, f"These plans meet all targets; pays: the most that a person pays in {format_duration(period)}.")
    console.print(table)
    if len(plans) > MOST_SHOWN:
        say(console, f"{len(plans) - MOST_SHOWN} more with --json; fix --window or --bucket for fewer.")
    say(
        console,
        "one visit: what a visit pays that is reported once; too high: by how many people noise raises a bound, the "
        "mean and the standard deviation. A person who is reported in several buckets counts in each.",
    )
    say(console, ASSUMPTION)
