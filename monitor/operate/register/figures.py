"""What the documents state: who publishes, the figures of `check`, and what each monitor asks, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from importlib import resources
from typing import Final

from monitor.config import ValidConfig
from monitor.kafka.topics import TopicNeeds, list_topic_needs
from monitor.kinds.all_kinds import AnyMonitor
from monitor.kinds.at_times.keys import AtTimesMonitor
from monitor.kinds.hot_spots.keys import HotSpotsMonitor
from monitor.kinds.over_time.keys import OverTimeMonitor
from monitor.operate.check import wording
from monitor.operate.check.compute_report import compute_report
from monitor.operate.check.report import SELDOM, CheckReport, MonitorReport
from monitor.operate.check.wording import format_percent, spell_duration
from monitor.privacy.alarm_chances import compute_mean_noise, find_threshold
from monitor.privacy.epsilon import format_epsilon
from monitor.time.instants import MILLISECOND

TEMPLATES: Final = resources.files("monitor.operate.register") / "templates"

OPEN: Final = "TO BE FILLED IN"
"""The beginning of each text that the publisher has to write."""

CURATOR_TYPES: Final = ("Government", "Industry", "Nonprofit")
SECTORS: Final = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
"""The kinds of publishers and the sectors that the registry knows."""

_NAMED: Final = 8
"""The largest number of places that a sentence names."""

_EXACT_FACTOR: Final = 12
"""Up to this ε, e^ε has at most six digits, and is written out."""


@dataclass(frozen=True, slots=True)
class Publisher:
    """The body that publishes the answers. `curator`, `region`, `contact` and `author` are None if they are not given.

    `published`: the day of the first publication. `author`: who files the registry entry.
    """

    published: date
    curator: str | None = None
    curator_type: str = CURATOR_TYPES[0]
    sector: str = SECTORS[1]
    region: str | None = None
    contact: str | None = None
    author: str | None = None


def fill_in(value: str | None, what: str) -> str:
    """Return the value, or if it is None a text that says what has to be filled in."""
    return f"{OPEN}: {what}" if value is None else value


@dataclass(frozen=True, slots=True)
class MonitorFigures:
    """One monitor: its report from `check`, and sentences about it.

    `asks`: the question that it answers. `width`: how far a published number may be from the truth. `alarms`: how often
    a number appears where nobody was; "" if there is no threshold.
    """

    report: MonitorReport
    asks: str
    width: str
    alarms: str


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything that the documents state about a configuration.

    `input_kept`, `output_kept`: the retention that `topics --create` sets, in microseconds.
    """

    valid: ValidConfig
    report: CheckReport
    monitors: tuple[MonitorFigures, ...]
    input_kept: int
    output_kept: int

    @property
    def has_threshold(self) -> bool:
        """Whether some monitor calls places safe."""
        return any(monitor.report.threshold is not None for monitor in self.monitors)

    @property
    def has_lower_bounds(self) -> bool:
        """Whether some monitor publishes lower bounds, from visits with consent."""
        return any(monitor.report.lower_bounds is not None for monitor in self.monitors)

    @property
    def has_dwell(self) -> bool:
        """Whether some monitor publishes two-sided estimates."""
        return any(monitor.report.dwell is not None for monitor in self.monitors)


def collect_figures(valid: ValidConfig) -> Figures:
    """Return the figures of a valid configuration: those of `check`, and the retention of the topics."""
    report = compute_report(valid)
    monitors = zip(valid.config.monitors, report.monitors, strict=True)
    visits, alerts, _ = list_topic_needs(valid.parameters, valid.config.kafka)
    return Figures(
        valid=valid,
        report=report,
        monitors=tuple(_describe(valid, monitor, each) for monitor, each in monitors),
        input_kept=_read_retention(visits),
        output_kept=_read_retention(alerts),
    )


def spell_rhythm(duration: int) -> str:
    """Format the time between two answers in words: `every hour`, `every 15 minutes`."""
    return f"every {spell_duration(duration).removeprefix('1 ')}"


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


def _describe(valid: ValidConfig, monitor: AnyMonitor, report: MonitorReport) -> MonitorFigures:
    return MonitorFigures(report, _ask(valid, monitor), _describe_width(report), _describe_alarms(report))


def _ask(valid: ValidConfig, monitor: AnyMonitor) -> str:
    """Return the monitor's question as a sentence."""
    if isinstance(monitor, OverTimeMonitor):
        rhythm, window = spell_rhythm(valid.config.clock.slot), spell_duration(monitor.window)
        return (
            f"At {_name_places(monitor.location_ids)}, {rhythm}: were fewer than {monitor.threshold} different "
            f"reported people there within the last {window}?"
        )
    times = ", ".join(monitor.at) + (f" ({monitor.timezone})" if monitor.has_daily else "")
    horizon = spell_duration(monitor.reporting_horizon)
    if isinstance(monitor, AtTimesMonitor):
        text = (
            f"At all {len(valid.locations)} places of the public list, at {times}: were fewer than "
            f"{monitor.threshold} reported people there at that moment? Reports within {horizon} count."
        )
        return text if monitor.at_least is None else f"{text} A lower bound counts the people who agreed."
    if isinstance(monitor, HotSpotsMonitor):
        return (
            f"Which {monitor.top} places had the most reported people at {times}? This is answered once, {horizon} "
            "later."
        )
    return (
        f"How many visits were there at {times}, in all places together, and how long did they last on average? This "
        f"is answered once, {horizon} later."
    )


def _name_places(ids: Sequence[str]) -> str:
    count = f"{len(ids)} places" if len(ids) > 1 else "1 place"
    return f"{count} ({', '.join(ids)})" if len(ids) <= _NAMED else count


def _describe_width(report: MonitorReport) -> str:
    if report.dwell is not None:
        return (
            f"The number of visits has a standard deviation of {report.dwell.deviation:,.3g}, in both directions. "
            "Nothing about it is certain."
        )
    if report.ranking is not None:
        mean, below = report.ranking.mean_noise, report.ranking.below
        return (
            f"Noise adds {mean:,.2g} people to a count on average, and fewer than {below} to every count with a chance "
            "of 95 %. Each number is a certain upper bound."
        )
    widths = (
        f"{compute_mean_noise(odds.epsilon):,.2g} people on average "
        f"and fewer than {find_threshold(odds.epsilon, 1, SELDOM)} with a chance of "
        f"95 % (ε of an answer {format_epsilon(odds.epsilon)})"
        for odds in report.odds
        if odds.people == 0
    )
    text = f"Noise adds to a count {'; '.join(widths)}. Each number is a certain upper bound."
    if report.lower_bounds is not None:
        mean, below = report.lower_bounds.mean_noise, report.lower_bounds.below
        text += (
            f" A lower bound is {mean:,.2g} people too low on average, and fewer than {below} with a chance of 95 %."
        )
    return text


def _describe_alarms(report: MonitorReport) -> str:
    return "; ".join(
        f"{format_percent(odds.per_update)} in one update and {format_percent(odds.over_updates)} in {report.updates} "
        f"updates (ε of an answer {format_epsilon(odds.epsilon)})"
        for odds in report.odds
        if odds.people == 0
    )
