"""The report of `check`: what a configuration costs, how its answers behave, and verdicts about it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Final

from monitor.kinds.all_kinds import KINDS
from monitor.kinds.base.words import Note
from monitor.operate.check.default_stay import Overlap
from monitor.operate.check.late_reports import Counted
from monitor.privacy.epsilon import format_epsilon
from monitor.privacy.payment_of_one_person import Charge
from monitor.time.instants import format_duration
from monitor.values.levels import FINE, Level

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
