"""The first verdicts of `check`: how much the answers reveal about a person, and how many alarms are noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final

from monitor.config.sections import PrivacySettings
from monitor.operate.check.report import MonitorReport, Verdict
from monitor.privacy.epsilon import format_epsilon
from monitor.values.levels import FINE, NOISE_IN_SIGHT, ONE_PERSON, ONE_VISIT, USELESS, Level, Limits
from monitor.values.wording import BELIEVED, format_amount, format_belief, format_percent, spell_duration

_EARLIER: Final = f"a reader who gave it a chance of {format_percent(BELIEVED)} gives it"


def list_figures(
    privacy: PrivacySettings, one_visit: Fraction, locations: int, monitors: Sequence[MonitorReport]
) -> Iterator[Verdict]:
    """Yield the verdicts on one visit, on one person, and on the alarms of noise that the page shows."""
    yield _judge_belief("one visit", "", one_visit, ONE_VISIT, "Lower the ε of the monitors.")
    within = f"everything within any {spell_duration(privacy.period)}: "
    remedy = "Lower privacy.epsilon, with fewer designated times, fewer monitors or a lower ε."
    yield _judge_belief("one person", within, privacy.epsilon, ONE_PERSON, remedy)
    noisy = [monitor for monitor in monitors if monitor.noise is not None]
    if noisy:
        yield _judge_noise(locations, noisy)


def _judge_belief(about: str, what: str, epsilon: Fraction, limits: Limits, remedy: str) -> Verdict:
    """Judge the chance that answers of this ε can raise a chance of 1 % to."""
    level = limits.judge_belief(epsilon)
    text = f"{what}{_EARLIER} {format_belief(epsilon, BELIEVED)} at most (ε = {format_epsilon(epsilon)})."
    if level == FINE:
        return Verdict(level, about, text)
    if level == USELESS:
        text += " That hides next to nothing."
    return Verdict(level, about, f"{text} {remedy} {format_percent(limits.fine)} and less is fine.")


def _judge_noise(locations: int, monitors: Sequence[MonitorReport]) -> Verdict:
    """Judge the share of places that show an alarm of noise at any time, if each has almost half of its threshold."""
    noises = [monitor.noise for monitor in monitors if monitor.noise is not None]
    at_most, if_empty = (
        min(float(locations), sum(amounts))
        for amounts in zip(*((noise.at_most, noise.if_empty) for noise in noises), strict=True)
    )
    level: Level = NOISE_IN_SIGHT.judge(at_most / locations)
    text = (
        f"at any time, {format_amount(at_most)} of {locations} places on average show an alarm of noise, with fewer "
        f"people than half of the threshold, if all places have almost half of it; {format_amount(if_empty)} if all "
        "are empty."
    )
    if level == FINE:
        return Verdict(level, "the page", text)
    worst = max(monitors, key=lambda monitor: 0.0 if monitor.noise is None else monitor.noise.at_most)
    share = format_percent(NOISE_IN_SIGHT.fine)
    remedy = f"Raise the threshold or ε of {worst.name}, or have fewer designated times. {share} of the places is fine."
    return Verdict(level, "the page", f"{text} {remedy}")
