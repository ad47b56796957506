"""What the answers of a monitor count, if visits are reported as late as a file says (`--delays`)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from monitor.kinds.base.words import Words
from monitor.kinds.report_delays import ReportDelays
from monitor.time.instants import format_duration
from monitor.values.wording import format_share

MOST: Final = Fraction(1, 2)
"""Below this share, most visits are reported too late, and there is a warning."""

ENOUGH: Final = Fraction(95, 100)
"""The share for which a warning proposes a window or a horizon."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Shares of all visits that are ever reported, of which `text` says what answers count."""

    monitor: str
    limit: str
    """The key of the window or the horizon."""
    text: str
    in_time: Fraction
    """Those that are reported within the window or the horizon."""
    other_key: str
    """The key of `other` in JSON."""
    other: Fraction | None
    """Those that the first answer about a designated time counts, or of the visits in a window those that one answer
    counts; None for a monitor with one answer for each designated time.
    """
    enough: int | None
    """The shortest known delay within which `ENOUGH` is reported; None if there is none."""

    def make_warning(self) -> str | None:
        """Return a warning with advice if most visits are reported too late; None otherwise."""
        if self.in_time >= MOST:
            return None
        text = f"with these report delays, {self.text} Most visits are reported too late."
        if self.enough is not None:
            text += f" Set {self.limit} to {format_duration(self.enough)} to count at least {100 * ENOUGH} %."
        return text

    def to_tree(self) -> dict[str, object]:
        """Return the JSON form."""
        return {
            "name": self.monitor,
            "in_time": float(self.in_time),
            self.other_key: None if self.other is None else float(self.other),
        }


def compute_counted(words: Words[Any], delays: ReportDelays) -> Counted:
    """Return what the answers of a monitor count."""
    in_time, other = delays.find_share(words.longest_delay), words.find_other_share(delays)
    reported = f"about {format_share(in_time)} of the visits that will ever be reported"
    text = words.describe_counted(reported, "" if other is None else format_share(other))
    name = words.monitor.name
    return Counted(name, words.limit, text, in_time, words.other_share_key, other, delays.find_delay(ENOUGH))
