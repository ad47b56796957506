"""What the documents state: who publishes, the figures of `check`, and what each monitor asks, in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from importlib import resources
from typing import Any, Final

from monitor.config.charges_of_monitors import compute_timing
from monitor.config.valid_config import ValidConfig
from monitor.kafka.topics import TopicNeeds, list_topic_needs
from monitor.kinds.all_kinds import find_words
from monitor.kinds.base.words import Words
from monitor.operate.check.compute_report import compute_report
from monitor.operate.check.report import CheckReport, MonitorReport
from monitor.privacy.epsilon import format_epsilon
from monitor.time.instants import MILLISECOND
from monitor.values import wording
from monitor.values.wording import format_percent

TEMPLATES: Final = resources.files("monitor.operate.register") / "templates"

OPEN: Final = "TO BE FILLED IN"
"""The beginning of each text that the publisher has to write."""

CURATOR_TYPES: Final = ("Government", "Industry", "Nonprofit")
SECTORS: Final = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
"""The kinds of publishers and the sectors that the registry knows."""

_EXACT_FACTOR: Final = 12
"""Up to this ε, e^ε has at most six digits, and is written out."""


@dataclass(frozen=True, slots=True)
class Publisher:
    """The body that publishes the answers. What is not given is None."""

    published: date
    """The day of the first publication."""
    curator: str | None = None
    curator_type: str = CURATOR_TYPES[0]
    sector: str = SECTORS[1]
    region: str | None = None
    contact: str | None = None
    author: str | None = None
    """Who files the registry entry."""


def fill_in(value: str | None, what: str) -> str:
    """Return the value, or if it is None a text that says what has to be filled in."""
    return f"{OPEN}: {what}" if value is None else value


@dataclass(frozen=True, slots=True)
class MonitorFigures:
    """One monitor: its report from `check`, and what its kind says about it.

    `alarms`: how often a number appears where nobody was; "" if there is no threshold.
    """

    report: MonitorReport
    words: Words[Any]
    alarms: str


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything that the documents state about a configuration."""

    valid: ValidConfig
    report: CheckReport
    monitors: tuple[MonitorFigures, ...]
    input_kept: int
    """The retention that `topics --create` sets, in microseconds; so is `output_kept`."""
    output_kept: int

    @property
    def has_threshold(self) -> bool:
        """Whether some monitor calls places safe."""
        return any(monitor.report.threshold is not None for monitor in self.monitors)

    @property
    def has_lower_bounds(self) -> bool:
        """Whether some monitor publishes lower bounds, from visits with consent."""
        return any(monitor.words.counts_consent for monitor in self.monitors)

    @property
    def in_both_directions(self) -> tuple[tuple[str, str], ...]:
        """The texts about the kinds of monitor whose promise is ordinary differential privacy: relation, and noise."""
        texts = (monitor.words.in_both_directions for monitor in self.monitors)
        return tuple(dict.fromkeys(text for text in texts if text is not None))


def collect_figures(valid: ValidConfig) -> Figures:
    """Return the figures of a valid configuration: those of `check`, and the retention of the topics."""
    report = compute_report(valid)
    timing, locations = compute_timing(valid.config), len(valid.locations)
    words = (find_words(monitor, timing, locations) for monitor in valid.config.monitors)
    visits, alerts, _ = list_topic_needs(valid.parameters, valid.config.kafka)
    return Figures(
        valid=valid,
        report=report,
        monitors=tuple(
            MonitorFigures(each, one, _describe_alarms(each)) for each, one in zip(report.monitors, words, strict=True)
        ),
        input_kept=_read_retention(visits),
        output_kept=_read_retention(alerts),
    )


def format_factor(epsilon: Fraction) -> str:
    """Format e^ε: "2.72 times", "e^17 times" if the number would be too long, "1 time" for 0.

    The number is rounded up, because the documents state it as a limit.
    """
    if not epsilon:
        return "1 time"
    return f"{wording.format_power(epsilon) if epsilon > _EXACT_FACTOR else wording.format_factor(epsilon)} times"


def _read_retention(needs: TopicNeeds) -> int:
    (milliseconds,) = [setting.create for setting in needs.settings if setting.key == "retention.ms"]
    return int(milliseconds) * MILLISECOND


def _describe_alarms(report: MonitorReport) -> str:
    return "; ".join(
        f"{format_percent(odds.per_update)} in one update and {format_percent(odds.over_updates)} in {report.updates} "
        f"updates (ε of an answer {format_epsilon(odds.epsilon)})"
        for odds in report.odds
        if odds.people == 0
    )
