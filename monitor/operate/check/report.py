"""The report of `check`: what a configuration costs, how its answers behave, and verdicts about it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Final

from monitor.kinds.all_kinds import KINDS
from monitor.kinds.base.words import Note, Words
from monitor.kinds.report_delays import ReportDelays
from monitor.privacy.epsilon import format_epsilon
from monitor.privacy.payment_of_one_person import Charge
from monitor.time.instants import MINUTE, format_duration
from monitor.values.levels import FINE, Level
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


APART: Final = 10 * MINUTE
"""The assumed time between check-ins, in microseconds. No configuration key states it."""

TOLERATED: Final = 2
"""The largest number of places at once without a warning: a person may be on the way from one to the next."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """The effect of a default stay (microseconds) on a person who checks in elsewhere every ten minutes.

    The person is counted at `places` places at once, and pays `places` times the `charges`: by monitor of designated
    times, the most that it charges per place. `total` is the most that a person at one place at a time pays.
    """

    stay: int
    total: Fraction
    charges: Mapping[str, Fraction]

    @property
    def places(self) -> int:
        """The number of places at which the person is counted at once."""
        return max(1, -(-self.stay // APART))

    @property
    def may_pay(self) -> Fraction:
        """The most that the person pays in the period, over all monitors."""
        return self.total + (self.places - 1) * sum(self.charges.values(), Fraction(0))

    def describe(self) -> str:
        """Describe the effect in a sentence."""
        stay = f"A visit without left_at lasts for visits.default_stay ({format_duration(self.stay)})"
        if self.places == 1:
            return f"{stay}: check-ins {format_duration(APART)} apart do not overlap."
        return (
            f"{stay}: a person who checks in elsewhere every {format_duration(APART)} and never reports a departure is "
            f"at {self.places} places at a designated time, and pays {self.places} times."
        )

    def make_warning(self) -> str | None:
        """Return a warning with advice, or None if the number of places is tolerated."""
        if self.places <= TOLERATED:
            return None
        return (
            f"{self.describe()} With {', '.join(self.charges)} this may cost {format_epsilon(self.may_pay)} "
            f"within the period, not {format_epsilon(self.total)}. Report left_at, or set default_stay to "
            f"{format_duration(TOLERATED * APART)} or less."
        )

    def to_tree(self) -> dict[str, object]:
        """Return the JSON form."""
        return {
            "default_stay": format_duration(self.stay),
            "check_ins_apart": format_duration(APART),
            "places_at_once": self.places,
            "may_pay": format_epsilon(self.may_pay),
        }


OFTEN: Final = 0.2
"""Above this chance, the monitor is useless: too many of its alarms are about empty locations."""

ASSUMPTION: Final = (
    "A person is assumed to be reported at one place at a time; a person reported at two places pays at both."
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judgement about a monitor or a section (`about`). The text of `useless` and `risky` says what to change."""

    level: Level
    about: str
    text: str

    def __str__(self) -> str:
        """Return the text with its subject."""
        return f"{self.about}: {self.text}"


@dataclass(frozen=True, slots=True)
class Odds:
    """The chances of a false alarm with a number of people at a location."""

    epsilon: Fraction
    """The ε of an answer."""
    locations: int
    """How many locations have this ε."""
    people: int
    per_update: float
    """In one update."""
    over_updates: float
    """In all `MonitorReport.updates` together."""


@dataclass(frozen=True, slots=True)
class NoiseInSight:
    """How many places are expected to show, at any time, an alarm about fewer people than half of the threshold."""

    people: int
    """Almost half of the threshold."""
    at_most: float
    """If every place has this number of people."""
    if_empty: float
    """If all places are empty."""


@dataclass(frozen=True, slots=True)
class MonitorReport:
    """The cost of one monitor, and the chances of its false alarms."""

    name: str
    kind: str
    threshold: int | None
    epsilon: Fraction
    charge: Charge
    explanation: str
    one_visit: Fraction
    """The most ε that one visit costs for each `per`."""
    per: str
    """A place or a designated time."""
    updates: int
    """The number of answers that together are one occasion for a false alarm."""
    odds: tuple[Odds, ...]
    note: Note | None
    """The figures that only its kind has."""
    noise: NoiseInSight | None
    """How many places show an alarm of noise; None without a threshold."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of `check`. Durations are in microseconds; chances are floats, for display; ε is exact."""

    service: str
    locations: int
    period: int
    stated: Fraction
    total: Fraction
    one_visit: Fraction
    """The most ε that one visit costs which covers one designated time of each monitor."""
    monitors: tuple[MonitorReport, ...]
    overlap: Overlap | None
    """None without monitors of designated times."""
    verdicts: tuple[Verdict, ...]
    """About privacy, then about alarms of noise, then one for each monitor."""
    counted: tuple[Counted, ...] = ()
    """Empty if the report delays are not known."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """The verdicts that ask for a change, as texts."""
        return tuple(str(verdict) for verdict in self.verdicts if verdict.level != FINE)

    def to_tree(self) -> dict[str, Any]:
        """Return the report as an object for JSON: ε as exact strings ("1/2"), durations as in the configuration.

        Each monitor has the keys of the notes of all kinds; those of other kinds are null.
        """
        tree = make_tree(self)
        notes = dict.fromkeys(kind.words.note_key for kind in KINDS.values())
        for entry in tree["monitors"]:
            note = entry.pop("note")
            entry.update(notes, **{KINDS[entry["kind"]].words.note_key: note and note["tree"]})
        return tree | {
            "period": format_duration(self.period),
            "assumption": ASSUMPTION,
            "warnings": list(self.warnings),
            "counted": [one.to_tree() for one in self.counted],
            "overlap": None if self.overlap is None else self.overlap.to_tree(),
        }


def make_tree(report: Any) -> dict[str, Any]:
    """Return a dataclass as an object for JSON, with ε as exact strings."""
    tree: dict[str, Any] = json.loads(json.dumps(asdict(report), default=_format_exact))
    return tree


def _format_exact(value: object) -> str:
    if isinstance(value, Fraction):
        return format_epsilon(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
