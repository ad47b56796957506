"""`location-monitor plan`: the plans that the options allow, and those of them that meet the targets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final

from pydantic import ValidationError

from monitor.config.describe_problems import list_problems
from monitor.errors import UsageError
from monitor.kinds.at_times.keys_and_parameters import AtTimesMonitor
from monitor.kinds.at_times.words import design_at_times
from monitor.kinds.designs import Design
from monitor.kinds.over_time.words import design_over_time
from monitor.operate.plan.conflict import explain_contradiction
from monitor.operate.plan.find_threshold_and_epsilon import find_plans, rank
from monitor.operate.plan.outcomes import PlanOutcome, evaluate
from monitor.operate.plan.targets import Targets
from monitor.time.instants import DAY, HOUR, MINUTE, SECOND, format_duration

SLOTS: Final = (15 * MINUTE, HOUR, 6 * HOUR, DAY)
WINDOWS: Final = (DAY, 7 * DAY, 14 * DAY, 28 * DAY)
ANSWERS: Final = (1, 2, 3)
BUSY_ANSWERS: Final = (*range(1, 9), 10, 12, 16)
"""The k that are tried if the number of people at a busy location is known."""


@dataclass(frozen=True, slots=True)
class OverTimeOptions:
    """The options of `over_time` designs: durations in microseconds. None: not fixed."""

    slot: int | None = None
    window: int | None = None
    answers: int | None = None
    accept_ahead: int = 0
    locations: int = 1
    people_a_day: int | None = None
    fits: ClassVar = "--window must be at least one slot, and --window and --accept-ahead a whole number of slots"

    def list_designs(self, span: int | None = None) -> Iterator[Design]:
        """Yield every design that the options allow. The windows do not depend on `span`."""
        del span
        share = Fraction(1, self.locations)
        for window in choose(self.window, WINDOWS):
            for slot in choose(self.slot, SLOTS):
                if window >= slot and window % slot == 0 and self.accept_ahead % slot == 0:
                    for answers in choose(self.answers, ANSWERS if self.people_a_day is None else BUSY_ANSWERS):
                        yield design_over_time(slot, window // slot, self.accept_ahead // slot, answers, (share, share))


@dataclass(frozen=True, slots=True)
class AtTimesOptions:
    """The options of `at_times` designs: durations in microseconds; None if not fixed."""

    slot: int | None = None
    at: tuple[str, ...] = ("18:00",)
    timezone: str = "UTC"
    horizon: int | None = None
    answers: int = 1
    fits: ClassVar = "--horizon must be at least one slot"

    def list_designs(self, span: int | None = None) -> Iterator[Design]:
        """Yield every design that the options allow. `span`: the horizon if no option states it.

        Raises:
            UsageError: a time or the time zone is invalid.
        """
        horizon = self.horizon or span or DAY
        monitor = {
            "name": "plan",
            "kind": "at_times",
            "at": self.at,
            "timezone": self.timezone,
            "reporting_horizon": format_duration(horizon),
            "epsilon": 1,
            "threshold": 1,
            "answers_per_time": self.answers,
        }
        try:
            times = AtTimesMonitor.model_validate(monitor)
        except ValidationError as error:
            raise UsageError("; ".join(str(problem) for problem in list_problems(error, "-", AtTimesMonitor))) from None
        for slot in choose(self.slot, SLOTS):
            if horizon >= slot:
                yield design_at_times(slot, times)


def choose(fixed: int | None, tried: tuple[int, ...]) -> tuple[int, ...]:
    """Return the value that the user fixes, or else all that are tried."""
    return tried if fixed is None else (fixed,)


def find(targets: Targets, options: OverTimeOptions | AtTimesOptions) -> tuple[PlanOutcome, ...]:
    """Return the outcomes of the plans that meet the targets, best first.

    Raises:
        UsageError: an option is invalid, or the targets leave T or ε unbounded.
        ContradictionError: the targets cannot be met together.
    """
    if not targets.decides_threshold:
        raise UsageError(
            "Nothing bounds T: add --noise-in-sight or --false-alarm-every (a lower bound), --alarm-at with --with "
            "(an upper bound), or --threshold."
        )
    if not targets.decides_epsilon:
        raise UsageError(
            "Nothing bounds ε: add --visit-belief, --person-belief, --pays-at-most or --epsilon, or both "
            "--false-alarm-every and one of --alarm-at and --threshold."
        )
    designs = tuple(options.list_designs(targets.find_shortest_span(SECOND)))
    if not designs:
        tried = ", ".join(format_duration(slot) for slot in choose(options.slot, SLOTS))
        raise UsageError(f"No slot fits: {options.fits}. Slots tried: {tried}; set --slot.")
    found = rank(find_plans(designs, targets), targets.period)
    if not found:
        raise explain_contradiction(designs, targets)
    return tuple(evaluate(plan, targets, plan.compute_payment(targets.period)) for plan in found)
