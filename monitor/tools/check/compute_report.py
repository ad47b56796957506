"""The consequences of a configuration in numbers: payments, pauses, and chances of false alarms.

They are computed from the configuration and the registry only (docs/rules.md, sections 3, 6 and 7; docs/interface.md,
section 2).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Final

from monitor.config.charges import compute_max_lead, count_most_designated_times, count_period_slots, count_slots
from monitor.config.large_registry import find_padded
from monitor.config.location import Location
from monitor.config.model import Config
from monitor.config.monitors import (
    AnyMonitor,
    AtTimesMonitor,
    DwellMonitor,
    HotSpotsMonitor,
    OverTimeMonitor,
    TimedMonitor,
)
from monitor.config.servers import find_url_password
from monitor.config.validate import ValidConfig, validate_config
from monitor.privacy.epsilon import format_epsilon
from monitor.privacy.odds import compute_false_alarm, compute_mean_noise, compute_over_updates
from monitor.privacy.payments import Charge
from monitor.public.instants import DAY, HOUR, MINUTE, SECOND, format_duration
from monitor.tools.check.default_stay import Overlap

OFTEN: Final = 0.5
"""Above this chance of a false alarm at an empty location, `check` warns."""

SELDOM: Final = 0.05
"""A proposed threshold keeps the chance of a false alarm below this."""

ASSUMPTION: Final = (
    "A person is assumed to be reported at one place at a time; a person reported at two places pays at both."
)


@dataclass(frozen=True, slots=True)
class Odds:
    """The chances of a false alarm with `people` people at a location; `locations` locations have this `epsilon`.

    `epsilon` is the ε of an answer. The chances are those of one update and of all `MonitorReport.updates` together.
    """

    epsilon: Fraction
    locations: int
    people: int
    per_update: float
    over_updates: float


@dataclass(frozen=True, slots=True)
class Pause:
    """The pause after k = `answers` noisy answers. A mark runs for `ticks` = W + F ticks, which last for `duration`."""

    ticks: int
    duration: int
    answers: int


@dataclass(frozen=True, slots=True)
class Ranking:
    """The noise of the counts of hot spots, of which the `top` highest are published.

    It is `mean_noise` people on average. With a chance above 1 - `SELDOM`, it is less than `below` at all locations.
    """

    top: int
    mean_noise: float
    below: int


@dataclass(frozen=True, slots=True)
class LowerBounds:
    """The noise of lower bounds: a bound is `mean_noise` people below the number who consented, on average.

    At one location, the gap is less than `below` people with a chance above 1 - `SELDOM`.
    """

    epsilon: Fraction
    mean_noise: float
    below: int


@dataclass(frozen=True, slots=True)
class DwellNoise:
    """The two-sided noise of dwell times: `deviation` is the standard deviation of the number of visits."""

    longest_visit: int
    visits_per_person: int
    deviation: float


@dataclass(frozen=True, slots=True)
class MonitorReport:
    """The cost of one monitor, and the chances of its false alarms.

    `updates`: W for `over_time`, the most ticks within a horizon for `at_times`, or 1 for `hot_spots` and `dwell`.
    """

    name: str
    kind: str
    threshold: int | None
    epsilon: Fraction
    charge: Charge
    explanation: str
    updates: int
    pause: Pause | None
    odds: tuple[Odds, ...]
    ranking: Ranking | None
    lower_bounds: LowerBounds | None
    dwell: DwellNoise | None


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of `check`. Durations are in microseconds; chances are floats, for display; ε is exact.

    `overlap` is None without monitors of designated times.
    """

    service: str
    locations: int
    period: int
    stated: Fraction
    total: Fraction
    monitors: tuple[MonitorReport, ...]
    overlap: Overlap | None
    warnings: tuple[str, ...]

    def to_json(self) -> str:
        """Return the report as a JSON object: ε as exact strings ("1/2"), durations as in the configuration."""
        tree = asdict(self) | {"period": format_duration(self.period), "assumption": ASSUMPTION}
        tree["overlap"] = None if self.overlap is None else self.overlap.to_tree()
        for monitor, entry in zip(self.monitors, tree["monitors"], strict=True):
            if monitor.pause is not None:
                entry["pause"]["duration"] = format_duration(monitor.pause.duration)
            if monitor.dwell is not None:
                entry["dwell"]["longest_visit"] = format_duration(monitor.dwell.longest_visit)
        return json.dumps(tree, ensure_ascii=False, indent=2, default=_format_exact)


def check(config: Config, registry: Sequence[Location]) -> CheckReport:
    """Validate a configuration and compute its report. Raise the errors of `validate_config`."""
    return compute_report(validate_config(config, registry))


def compute_report(valid: ValidConfig) -> CheckReport:
    """Compute the report of a valid configuration."""
    config, locations = valid.config, len(valid.locations)
    monitors = tuple(
        _report_monitor(config, monitor, charge, locations)
        for monitor, charge in zip(config.monitors, valid.charges, strict=True)
    )
    overlap = _compute_overlap(valid)
    warnings = (
        *_warn_of_overlap(overlap),
        *_warn_of_odds(monitors),
        *_warn_of_choices(config),
        *_warn_of_ids(valid.locations),
    )
    return CheckReport(
        service=config.service.name,
        locations=locations,
        period=config.privacy.period,
        stated=config.privacy.epsilon,
        total=valid.worst,
        monitors=monitors,
        overlap=overlap,
        warnings=warnings,
    )


def find_threshold(epsilon: Fraction, updates: int, chance: float = SELDOM) -> int:
    """Return the smallest threshold at which a false alarm of an empty location in all updates is rarer than `chance`.

    `epsilon` is the ε of an answer.
    """
    # 1 - (1 - e^(-εT))^n < c if and only if e^(-εT) < -expm1(log1p(-c)/n). The loop corrects rounding errors.
    per_update = -math.expm1(math.log1p(-chance) / updates)
    threshold = max(1, math.floor(-math.log(per_update) / float(epsilon)))
    while compute_over_updates(compute_false_alarm(epsilon, threshold, 0), updates) >= chance:
        threshold += 1
    return threshold


def _report_monitor(config: Config, monitor: AnyMonitor, charge: Charge, locations: int) -> MonitorReport:
    if isinstance(monitor, OverTimeMonitor):
        updates = monitor.window // config.clock.slot
        ticks = updates + compute_max_lead(config)
        pause = Pause(ticks, ticks * config.clock.slot, monitor.answers_per_window)
        shares = Counter(share / monitor.answers_per_window for share in monitor.compute_shares().values())
        explanation = _explain_over_time(config, monitor, charge)
    else:
        updates = (
            1 if isinstance(monitor, HotSpotsMonitor | DwellMonitor) else count_slots(config, monitor.reporting_horizon)
        )
        pause = None
        shares = Counter({monitor.epsilon: locations})
        explanation = _explain_times(config, monitor, charge)
    threshold = None if isinstance(monitor, HotSpotsMonitor | DwellMonitor) else monitor.threshold
    odds = () if threshold is None else tuple(_compute_odds(threshold, updates, shares))
    return MonitorReport(
        name=monitor.name,
        kind=monitor.kind,
        threshold=threshold,
        epsilon=monitor.epsilon,
        charge=charge,
        explanation=explanation,
        updates=updates,
        pause=pause,
        odds=odds,
        ranking=_compute_ranking(monitor, locations) if isinstance(monitor, HotSpotsMonitor) else None,
        lower_bounds=_compute_lower_bounds(monitor) if isinstance(monitor, AtTimesMonitor) else None,
        dwell=_compute_dwell_noise(monitor) if isinstance(monitor, DwellMonitor) else None,
    )


def _compute_dwell_noise(monitor: DwellMonitor) -> DwellNoise:
    """Return the noise of the number of visits (docs/rules.md, rule 14).

    The number is the sum of both totals, divided by R. The noise of a total has the variance 2q/(1 - q)² with
    q = e^(-ε/(2·m·R)).
    """
    longest = monitor.longest_visit // SECOND
    unit = float(monitor.epsilon / (2 * monitor.visits_per_person * longest))
    variance = 2 * math.exp(-unit) / math.expm1(-unit) ** 2
    return DwellNoise(monitor.longest_visit, monitor.visits_per_person, math.sqrt(2 * variance) / longest)


def _compute_lower_bounds(monitor: AtTimesMonitor) -> LowerBounds | None:
    if monitor.at_least is None:
        return None
    epsilon = monitor.at_least.epsilon
    return LowerBounds(epsilon, compute_mean_noise(epsilon), find_threshold(epsilon, 1))


def _compute_ranking(monitor: HotSpotsMonitor, locations: int) -> Ranking:
    below = find_threshold(monitor.epsilon, locations)
    return Ranking(monitor.top, compute_mean_noise(monitor.epsilon), below)


def _explain_over_time(config: Config, monitor: OverTimeMonitor, charge: Charge) -> str:
    window, max_lead, slots = monitor.window // config.clock.slot, compute_max_lead(config), count_period_slots(config)
    mark_lifetime, k = window + max_lead, monitor.answers_per_window
    ticks = slots + mark_lifetime - 1
    full, rest = divmod(ticks, mark_lifetime)
    count = len(monitor.location_ids)
    shared = (
        f"A person may visit all {count} locations within each slot, so the whole ε of the monitor counts."
        if count > 1
        else "Its one location has the whole ε of the monitor."
    )
    return (
        f"A period of {spell_duration(config.privacy.period)} that is not aligned with slots touches H = "
        f"{slots - 1} + 1 = {slots} slots. With W = {window}, F = {max_lead}, k = {k}, the visits in these slots are "
        f"in the counts of N = H + W + F - 1 = {ticks} ticks. These ticks have at most "
        f"k·⌊N/(W + F)⌋ + min(k, N mod (W + F)) = {k}·{full} + {min(k, rest)} noisy answers, "
        f"at ε/k = {monitor.epsilon / k} each: {charge.amount}. {shared}"
    )


def _explain_times(config: Config, monitor: TimedMonitor, charge: Charge) -> str:
    times = count_most_designated_times(monitor, config.privacy.period)
    bounds = monitor.at_least if isinstance(monitor, AtTimesMonitor) else None
    each = monitor.epsilon if bounds is None else f"{monitor.epsilon} + {bounds.epsilon} (lower bounds)"
    text = (
        f"Any {spell_duration(config.privacy.period)} contain at most {times} designated "
        f"times, even if clocks change, at {each} each: {charge.amount}."
    )
    if bounds is not None:
        text += (
            f" A person with one visit at a designated time pays {max(monitor.epsilon, bounds.epsilon)} for it. Lower "
            "bounds do not protect a visit with consent."
        )
    if isinstance(monitor, DwellMonitor):
        text += " This is ordinary differential privacy: it covers any change of a person's visits at these times."
    if isinstance(monitor, HotSpotsMonitor):
        text += " This covers the counts of all locations together, and everyone who was at any location pays it."
    return text


def _compute_odds(threshold: int, updates: int, shares: Counter[Fraction]) -> Iterator[Odds]:
    for epsilon, locations in sorted(shares.items(), reverse=True):
        for people in sorted({0, threshold - 1}):
            p = compute_false_alarm(epsilon, threshold, people)
            yield Odds(epsilon, locations, people, p, compute_over_updates(p, updates))


def _compute_overlap(valid: ValidConfig) -> Overlap | None:
    timed = {
        monitor.name: charge.amount
        for monitor, charge in zip(valid.config.monitors, valid.charges, strict=True)
        if not isinstance(monitor, OverTimeMonitor)
    }
    return Overlap(valid.config.visits.default_stay, valid.worst, timed) if timed else None


def _warn_of_overlap(overlap: Overlap | None) -> Iterator[str]:
    warning = None if overlap is None else overlap.make_warning()
    if warning is not None:
        yield warning


def _warn_of_odds(monitors: Sequence[MonitorReport]) -> Iterator[str]:
    for monitor in monitors:
        for odds in monitor.odds:
            if odds.people == 0 and odds.over_updates > OFTEN:
                better = find_threshold(odds.epsilon, monitor.updates)
                yield (
                    f"{monitor.name}: an empty location has a false alarm within {monitor.updates} updates with "
                    f"a chance of {format_percent(odds.over_updates)} (threshold {monitor.threshold}, ε of an answer "
                    f"{format_epsilon(odds.epsilon)}). Raise the threshold to {better} for a chance below "
                    f"{format_percent(SELDOM)}, or raise epsilon."
                )


def _warn_of_choices(config: Config) -> Iterator[str]:
    for monitor in config.monitors:
        if isinstance(monitor, OverTimeMonitor):
            ticks = monitor.window // config.clock.slot + compute_max_lead(config)
            if monitor.answers_per_window > ticks:
                yield (
                    f"{monitor.name}: answers_per_window is {monitor.answers_per_window}, but a mark runs for only "
                    f"{ticks} ticks, so more than {ticks} answers are never published, and only make each answer "
                    f"noisier. Set it to {ticks} or less."
                )
    if config.kafka.security_protocol == "SASL_PLAINTEXT" and config.kafka.sasl_mechanism == "PLAIN":
        yield "kafka: the password is sent over the network unencrypted. Use SASL_SSL, or SCRAM-SHA-512."
    redis = config.redis
    has_password = redis.password or redis.password_file or find_url_password(redis.url.get_secret_value())
    if has_password and redis.parts.scheme == "redis":
        yield "redis: the password is sent over the network unencrypted. Use rediss://."


def _warn_of_ids(registry: Sequence[Location]) -> Iterator[str]:
    padded = find_padded(registry)
    if padded:
        yield (
            f"locations: {len(padded)} ids begin or end with a space, such as {padded[0]!r}: a visit with the id "
            "without the space is a dead letter."
        )


def spell_duration(duration: int) -> str:
    """Format a duration in words: `14 days 1 hour`."""
    parts = []
    for unit, name in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (SECOND, "second")):
        amount, duration = divmod(duration, unit)
        if amount:
            parts.append(f"{amount} {name}" if amount == 1 else f"{amount} {name}s")
    if duration or not parts:
        parts.append(format_duration(duration))
    return " ".join(parts)


def format_percent(chance: float) -> str:
    """Format a chance as a percentage: `30.1 %`, `0.0045 %`, `> 99.9 %`."""
    percent = 100 * chance
    if percent > 99.9:  # noqa: PLR2004  # such a chance would be rounded to 100 %
        return "> 99.9 %"
    if percent >= 10:  # noqa: PLR2004  # from here on, one decimal is enough
        return f"{percent:.1f} %"
    if percent < 1e-4:  # noqa: PLR2004  # one in a million
        return "< 0.0001 %"
    return f"{percent:.{1 - math.floor(math.log10(percent))}f}".rstrip("0").rstrip(".") + " %"


def _format_exact(value: object) -> Any:
    if isinstance(value, Fraction):
        return format_epsilon(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
