"""What the answers of a monitor count, if visits are reported as late as a file says (`--delays`)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from monitor.config.whole_config import Config
from monitor.kinds.all_kinds import AnyMonitor
from monitor.kinds.at_times.keys import AtTimesMonitor
from monitor.kinds.over_time.keys import OverTimeMonitor
from monitor.operate.check.wording import format_share
from monitor.operate.report_delays import ReportDelays
from monitor.time.instants import format_duration

MOST: Final = Fraction(1, 2)
"""Below this share, most visits are reported too late, and there is a warning."""

ENOUGH: Final = Fraction(95, 100)
"""The share for which a warning proposes a window or a horizon."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Shares of all visits that are ever reported.

    `in_time`: those that are reported within the `limit`, the key of the window or the horizon, which is `longest`.
    `other`: those that the first answer about a designated time counts, or of the visits in a window those that one
    answer counts; None for a monitor with one answer for each designated time. `enough`: the shortest known delay
    within which `ENOUGH` is reported; None if there is none.
    """

    monitor: str
    kind: str
    limit: str
    longest: int
    in_time: Fraction
    other: Fraction | None
    enough: int | None

    def describe(self) -> str:
        """Describe the shares in a sentence."""
        reported = f"about {format_share(self.in_time)} of the visits that will ever be reported"
        if self.kind == "over_time":
            return (
                f"{reported} are reported while they are in the window. One answer counts "
                f"about {format_share(self.other or Fraction(0))} of the visits in its window."
            )
        if self.other is None:
            return f"the answer about a designated time counts {reported}."
        return f"the last answer about a designated time counts {reported}; the first, {format_share(self.other)}."

    def make_warning(self) -> str | None:
        """Return a warning with advice if most visits are reported too late; None otherwise."""
        if self.in_time >= MOST:
            return None
        text = f"with these report delays, {self.describe()} Most visits are reported too late."
        if self.enough is not None:
            text += f" Set {self.limit} to {format_duration(self.enough)} to count at least {100 * ENOUGH} %."
        return text

    def to_tree(self) -> dict[str, object]:
        """Return the JSON form."""
        name = "of_a_window" if self.kind == "over_time" else "first_answer"
        return {
            "name": self.monitor,
            "in_time": float(self.in_time),
            name: None if self.other is None else float(self.other),
        }


def compute_counted(config: Config, delays: ReportDelays) -> tuple[Counted, ...]:
    """Return what the answers of each monitor count."""
    return tuple(_compute_counted(monitor, config.clock.slot, delays) for monitor in config.monitors)


def _compute_counted(monitor: AnyMonitor, slot: int, delays: ReportDelays) -> Counted:
    if isinstance(monitor, OverTimeMonitor):
        limit, longest = "window", monitor.window
        other: Fraction | None = delays.average_share(longest)
    else:
        limit, longest = "reporting_horizon", monitor.reporting_horizon
        other = delays.find_share(slot) if isinstance(monitor, AtTimesMonitor) else None
    share, enough = delays.find_share(longest), delays.find_delay(ENOUGH)
    return Counted(monitor.name, monitor.kind, limit, longest, share, other, enough)
