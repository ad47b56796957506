"""What is known about a place: an answer that becomes unknown by itself when it is no longer valid.

docs/subscribers.md has the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Literal

from monitor.time.instants import to_datetime

State = Literal["safe", "noisy_count", "below_since", "paused", "unknown", "bounded"]
Reason = Literal[
    "below_threshold",
    "noisy",
    "budget_spent",
    "no_threshold",
    "nothing_published",
    "too_old",
    "input_incomplete",
    "other_registry",
    "not_understood",
    "clock_behind",
    "not_verified",
]

Strength = Literal["far_above", "just_above"]
"""Whether noise alone could plausibly have raised an alarm."""

_STRENGTHS: Final[dict[Strength, str]] = {"far_above": "very likely", "just_above": "perhaps"}

_CAUTION: Final[dict[State, int]] = {
    "noisy_count": 0,
    "below_since": 1,
    "paused": 2,
    "unknown": 3,
    "safe": 4,
    "bounded": 5,
}


@dataclass(frozen=True, slots=True)
class About:
    """What an answer is about: the monitor, and the time of the visits that it counts."""

    monitor: str
    kind: str
    start: datetime | None
    """It equals `end` for a designated time. None if the record was not understood."""
    end: datetime
    threshold: int | None = None
    """None for hot spots and upper bounds, which are compared with no threshold."""
    resumes_at: datetime | None = None
    """Set while a place is paused."""
    counted_since: datetime | None = None
    """Set if only people reported since then, at a noisy count, were counted."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One monitor's answer about one place, as published or as read at an instant (`at`). Times are instants."""

    state: State
    reason: Reason
    as_of: int | None = None
    valid_until: int | None = None
    count_at_most: int | None = None
    """None without a certain upper bound. After a fresh start: the bound for the window, with the earlier counts."""
    count_at_least: int = 0
    """0 has no information."""
    about: About | None = None
    last_alarm: Answer | None = None
    """The monitor's last noisy count while it still counts, whatever the state is now; None if there is none."""
    p_value: float | None = field(default=None, compare=False)
    """The largest chance per update of a noisy count this high from fewer than `about.threshold` people.

    None without a noisy count that is compared with a known threshold; so is `strength`.
    """
    strength: Strength | None = field(default=None, compare=False)
    """"far_above" if noise alone does this less than once a year at all places together, else "just_above"."""
    since_at_most: int | None = None
    """For a count that started afresh: a certain upper bound of the people reported since `about.counted_since`."""

    def at(self, now: int, slot: int) -> Answer:
        """Return the answer as it has to be read at an instant: unknown if it is not valid then.

        A clock that is more than a slot behind the as_of is wrong, so it cannot judge the age of the answer. An alarm
        stays true when the answer expires, so it has its own `valid_until`.
        """
        if self.last_alarm is not None and now > (self.last_alarm.valid_until or 0):
            return replace(self, last_alarm=None).at(now, slot)
        if self.state == "unknown" or self.as_of is None or self.valid_until is None:
            return self
        if now > self.valid_until:
            return self._unknown("too_old")
        return self._unknown("clock_behind") if now + slot < self.as_of else self

    def find_end(self, slot: int) -> int | None:
        """Return the last instant at which an answer that `at` returned is read in this way; None if it stays so."""
        end = None if self.state == "unknown" else self.valid_until
        if self.reason == "clock_behind" and self.as_of is not None:
            end = self.as_of - slot - 1
        ends = (end, self.last_alarm.valid_until if self.last_alarm else None)
        return min((one for one in ends if one is not None), default=None)

    def _unknown(self, reason: Reason) -> Answer:
        unknown = replace(self, state="unknown", reason=reason, count_at_most=None, count_at_least=0)
        return replace(unknown, p_value=None, strength=None, since_at_most=None)

    @property
    def caution(self) -> tuple[int, int, str]:
        """The sort key: the most cautious answer first, then the one that expires first, then by monitor."""
        return _CAUTION[self.state], self.valid_until or 0, "" if self.about is None else self.about.monitor


NOTHING: Final = Answer("unknown", "nothing_published")


@dataclass(frozen=True, repr=False)
class Known:
    """What is known about a place. Frozen; each field is computed from the clock when it is read. Reading never raises.

    After `valid_until` the state is "unknown", although no record says so. While the state is "unknown" there are no
    bounds. If several monitors answer about the place, this is the most cautious of their answers: a noisy count, else
    below the threshold since a noisy count, else a pause, else unknown, else safe. "bounded" is a place of which only
    `count_at_most` is known. To read several fields of one moment, use `current`.
    """

    answers: tuple[Answer, ...]
    """Those of the monitors."""
    now: Callable[[], int] = field(compare=False)
    """Returns the present as an instant."""
    slot: int
    """Its length in microseconds."""

    @property
    def current(self) -> Answer:
        """The answer at this moment, with all of its fields."""
        return self.at(self.now())

    def at(self, instant: int) -> Answer:
        """Return the answer as it has to be read at an instant, with the last alarm of any monitor."""
        answers = [answer.at(instant, self.slot) for answer in self.answers]
        leading = min(answers, key=lambda answer: answer.caution, default=NOTHING)
        alarms = [answer.last_alarm for answer in answers if answer.last_alarm is not None]
        return replace(leading, last_alarm=find_latest_alarm(alarms)) if alarms else leading

    def find_end(self, instant: int) -> int | None:
        """Return the last instant until which each answer is read as at `instant`; None if all of them stay so."""
        ends = (answer.at(instant, self.slot).find_end(self.slot) for answer in self.answers)
        return min((end for end in ends if end is not None), default=None)

    @property
    def state(self) -> State:
        """What the place is at this moment. Only "safe" is safe."""
        return self.current.state

    @property
    def as_of(self) -> datetime | None:
        """Visits that were reported before this time are counted; None if nothing was published."""
        return _datetime(self.current.as_of)

    @property
    def valid_until(self) -> datetime | None:
        """When the state becomes "unknown" without a newer answer; None if nothing was published."""
        return _datetime(self.current.valid_until)

    @property
    def count_at_most(self) -> int | None:
        """A certain upper bound of the number of people; None if there is no such bound."""
        return self.current.count_at_most

    @property
    def since_at_most(self) -> int | None:
        """A certain upper bound of the people reported since `about.counted_since`; None if all people were counted."""
        return self.current.since_at_most

    @property
    def count_at_least(self) -> int:
        """A certain lower bound of the number of people, from those who consented. 0 has no information."""
        return self.current.count_at_least

    @property
    def reason(self) -> Reason:
        """Why the state is what it is; docs/subscribers.md lists the reasons."""
        return self.current.reason

    @property
    def last_alarm(self) -> Answer | None:
        """The last noisy count about the place that still counts, also while the place is paused, safe or unknown.

        A place that is paused because of an alarm has one until it can answer again (docs/subscribers.md).
        """
        return self.current.last_alarm

    @property
    def about(self) -> About | None:
        """The monitor whose answer this is, and the time of the visits that it counts."""
        return self.current.about

    def __repr__(self) -> str:
        """Return the fields at this moment."""
        now = self.current
        return (
            f"Known(state={now.state!r}, as_of={_datetime(now.as_of)!s}, valid_until={_datetime(now.valid_until)!s}, "
            f"count_at_most={now.count_at_most}, count_at_least={now.count_at_least}, reason={now.reason!r})"
        )


def find_latest_alarm(alarms: Iterable[Answer]) -> Answer | None:
    """Return the alarm with the latest designated time or end of its window."""
    ends = ((alarm.about.end, alarm) for alarm in alarms if alarm.about is not None)
    return max(ends, key=lambda one: one[0], default=(None, None))[1]


def _datetime(instant: int | None) -> datetime | None:
    return None if instant is None else to_datetime(instant)


def describe_strength(strength: Strength, threshold: int) -> str:
    """Return in words whether the threshold was reached, such as "very likely 60 or more"."""
    return f"{_STRENGTHS[strength]} {threshold} or more"
