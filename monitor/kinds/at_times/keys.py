"""The keys of a monitor of kind `at_times` and of its lower bounds, and what they charge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from monitor.errors import Problem
from monitor.kinds.at_times.monitor import AtTimes
from monitor.kinds.base.designated_times.keys import TimedMonitor
from monitor.kinds.base.keys import ValidKeys
from monitor.kinds.locations import Registry
from monitor.kinds.timing import Timing
from monitor.privacy.epsilon import SMALLEST, format_epsilon
from monitor.privacy.payment_of_one_person import Charge, charge_at_times
from monitor.values.single_values import Epsilon, Section, WholeNumber


class AtLeastSettings(Section):
    """The lower bounds of a monitor of kind `at_times` (docs/rules.md, rule 13)."""

    epsilon: Epsilon = Field(
        description="the ε of the lower bounds of each designated time, in addition to that of the monitor"
    )


class AtTimesMonitor(TimedMonitor):
    """Algorithm 4: counts the people at each location of the registry, at each designated time."""

    kind: Literal["at_times"] = Field(description="the kind of the monitor")
    threshold: WholeNumber = Field(description="the number of people below which a location is called safe")
    answers_per_time: WholeNumber = Field(
        default=1, description="the maximum number of noisy answers of a location about each designated time"
    )
    at_least: AtLeastSettings | None = Field(
        default=None, description="a mapping with the epsilon of lower bounds, which count people who consented"
    )

    def find_problems(self, keys: ValidKeys) -> Iterator[Problem]:
        """Yield a problem for each broken condition of the times, and if noise cannot be drawn at ε/k."""
        yield from super().find_problems(keys)
        if keys.has("epsilon", "answers_per_time") and self.epsilon / self.answers_per_time < SMALLEST:
            most = int(self.epsilon / SMALLEST)
            yield Problem(
                f"{keys.key}.answers_per_time",
                str(self.answers_per_time),
                f"an ε of at least {format_epsilon(SMALLEST)} for each answer, so that noise can be drawn",
                f"Set it to {most} or less, or raise the monitor's epsilon.",
            )

    def derive(self, registry: Registry, timing: Timing) -> AtTimes:
        """Return the parameters."""
        del registry, timing
        bounds = None if self.at_least is None else self.at_least.epsilon
        answers = self.answers_per_time
        return AtTimes(self.name, self.schedule, self.epsilon, self.threshold, self.reporting_horizon, bounds, answers)

    def charge(self, timing: Timing) -> Charge:
        """Return the most that one person may be charged within any period: ε, and that of lower bounds, per time."""
        bounds = None if self.at_least is None else self.at_least.epsilon
        return charge_at_times(self.name, self.epsilon, self.count_most_times(timing.period), bounds)
