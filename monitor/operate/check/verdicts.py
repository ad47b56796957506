"""The verdicts of `check`: on what answers reveal, alarms that are noise, each monitor, late reports, and passwords."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, Final

from monitor.config.kafka_and_redis import find_url_password
from monitor.config.sections import ClockSettings, PrivacySettings
from monitor.config.whole_config import Config
from monitor.kinds.base.words import SELDOM, Words
from monitor.operate.check.report import OFTEN, Counted, MonitorReport, Overlap, Verdict
from monitor.privacy.alarm_chances import find_threshold
from monitor.privacy.epsilon import format_epsilon
from monitor.time.instants import MILLISECOND, format_duration
from monitor.values.belief_about_one_person import BELIEVED, format_belief
from monitor.values.levels import FINE, NOISE_IN_SIGHT, ONE_PERSON, ONE_VISIT, RISKY, USELESS, Level, Limits
from monitor.values.wording import format_amount, format_percent, spell_duration

_EARLIER: Final = f"a reader who gave it a chance of {format_percent(BELIEVED)} gives it"

SHORTEST_READING: Final = 100 * MILLISECOND
"""The time for reading the visits of a tick, in microseconds. Reading took 11 to 73 ms on a machine with two cores."""


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


def list_verdicts(
    config: Config,
    monitors: Sequence[tuple[Words[Any], MonitorReport]],
    overlap: Overlap | None,
    counted: Sequence[Counted],
) -> Iterator[Verdict]:
    """Yield a verdict for each monitor, and one for each other choice that is useless or risky."""
    for words, monitor in monitors:
        yield _judge_monitor(words, monitor)
    for words, monitor in monitors:
        yield from (Verdict(USELESS, monitor.name, text) for text in words.list_useless_keys())
    if overlap is not None and (warning := overlap.make_warning()) is not None:
        yield Verdict(RISKY, "visits", warning)
    for one in counted:
        if (warning := one.make_warning()) is not None:
            yield Verdict(RISKY, one.monitor, warning)
    yield from judge_clock(config.clock)
    yield from _judge_passwords(config)


def _judge_monitor(words: Words[Any], monitor: MonitorReport) -> Verdict:
    """Judge the false alarms at an empty location; of several shares of ε, those of the smallest."""
    empty = [odds for odds in monitor.odds if odds.people == 0]
    if not empty:
        return Verdict(FINE, monitor.name, "it raises no alarms; below is how much noise its numbers have.")
    worst = max(empty, key=lambda odds: odds.over_updates)
    text = (
        f"an empty location has a false alarm within {monitor.updates} updates with a chance of "
        f"{format_percent(worst.over_updates)} (threshold {monitor.threshold}, ε of an answer "
        f"{format_epsilon(worst.epsilon)})."
    )
    text += words.describe_false_alarms(worst.over_updates)
    if worst.over_updates <= SELDOM:
        return Verdict(FINE, monitor.name, text)
    better = find_threshold(worst.epsilon, monitor.updates, SELDOM)
    text += f" Raise the threshold to {better} for a chance below {format_percent(SELDOM)}, or raise epsilon."
    level: Level = USELESS if worst.over_updates > OFTEN else RISKY
    return Verdict(level, monitor.name, text)


def judge_clock(clock: ClockSettings) -> Iterator[Verdict]:
    """Yield a verdict if visits may have no time to be read, although the clocks agree to within the tolerance.

    Reading ends (tolerance + release_delay)/2 after the tick, by the clocks of this machine and of Redis
    (`find_reading_end`). It begins when both have passed the tolerance. If they differ by the tolerance, one of them
    then shows two tolerances.
    """
    reading = max(0, (clock.release_delay - 3 * clock.tolerance) // 2)
    least = 3 * clock.tolerance + 2 * SHORTEST_READING
    if clock.release_delay >= least:
        return
    text = (
        f"if the clock of Redis differs by the tolerance ({format_duration(clock.tolerance)}), a release_delay of "
        f"{format_duration(clock.release_delay)} leaves {format_duration(reading)} for reading the visits of a tick. "
        f"With less than {format_duration(SHORTEST_READING)}, answers are often unknown. "
    )
    if least + 2 * clock.tolerance < clock.slot:
        text += f"Set release_delay to {format_duration(least)} or more."
    else:
        extra = format_duration(2 * SHORTEST_READING)
        text += f"Lower tolerance or lengthen slot, so that release_delay can be 3·tolerance + {extra}."
    yield Verdict(RISKY, "clock", text)


def _judge_passwords(config: Config) -> Iterator[Verdict]:
    sent = "the password is sent over the network unencrypted. Use"
    if config.kafka.security_protocol == "SASL_PLAINTEXT" and config.kafka.sasl_mechanism == "PLAIN":
        yield Verdict(RISKY, "kafka", f"{sent} SASL_SSL, or SCRAM-SHA-512.")
    redis = config.redis
    has_password = redis.password or redis.password_file or find_url_password(redis.url.get_secret_value())
    if has_password and redis.parts.scheme == "redis":
        yield Verdict(RISKY, "redis", f"{sent} rediss://.")
