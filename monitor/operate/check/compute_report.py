"""The consequences of a configuration in numbers: payments, pauses, and chances of false alarms.

They are computed from the configuration and the registry only (docs/rules.md, sections 3, 6 and 7; docs/interface.md,
section 2).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from monitor.config.valid_config import ValidConfig
from monitor.config.worst_case import compute_timing
from monitor.kinds.all_kinds import AnyMonitor
from monitor.kinds.at_times.keys import AtTimesMonitor
from monitor.kinds.designated_times.keys import TimedMonitor
from monitor.kinds.dwell.keys import DwellMonitor
from monitor.kinds.hot_spots.keys import HotSpotsMonitor
from monitor.kinds.over_time.keys import OverTimeMonitor
from monitor.kinds.timing import Timing
from monitor.operate.check.default_stay import Overlap
from monitor.operate.check.late_reports import compute_counted
from monitor.operate.check.report import (
    SELDOM,
    CheckReport,
    DwellNoise,
    LowerBounds,
    MonitorReport,
    Odds,
    Pause,
    Ranking,
)
from monitor.operate.check.verdicts import list_verdicts
from monitor.operate.check.wording import spell_duration
from monitor.operate.report_delays import ReportDelays
from monitor.privacy.alarm_chances import compute_false_alarm, compute_mean_noise, compute_over_updates, find_threshold
from monitor.privacy.payments import Charge
from monitor.time.instants import SECOND


def compute_report(valid: ValidConfig, delays: ReportDelays | None = None) -> CheckReport:
    """Compute the report of a valid configuration. `delays`: how late visits are reported, if it is known."""
    config, locations, timing = valid.config, len(valid.locations), compute_timing(valid.config)
    monitors = tuple(
        _report_monitor(timing, monitor, charge, locations)
        for monitor, charge in zip(config.monitors, valid.charges, strict=True)
    )
    overlap = _compute_overlap(valid)
    counted = () if delays is None else compute_counted(config, delays)
    return CheckReport(
        service=config.service.name,
        locations=locations,
        period=config.privacy.period,
        stated=config.privacy.epsilon,
        total=valid.worst,
        monitors=monitors,
        overlap=overlap,
        verdicts=tuple(list_verdicts(config, monitors, overlap, counted, valid.locations)),
        counted=counted,
    )


def _report_monitor(timing: Timing, monitor: AnyMonitor, charge: Charge, locations: int) -> MonitorReport:
    if isinstance(monitor, OverTimeMonitor):
        updates = monitor.window // timing.slot
        ticks = updates + timing.max_lead
        pause = Pause(ticks, ticks * timing.slot, monitor.answers_per_window)
        shares = Counter(share / monitor.answers_per_window for share in monitor.compute_shares().values())
        explanation = _explain_over_time(timing, monitor, charge)
    else:
        updates = (
            1 if isinstance(monitor, HotSpotsMonitor | DwellMonitor) else timing.count_slots(monitor.reporting_horizon)
        )
        pause = None
        shares = Counter({monitor.epsilon: locations})
        explanation = _explain_times(timing, monitor, charge)
    threshold = None if isinstance(monitor, HotSpotsMonitor | DwellMonitor) else monitor.threshold
    odds = () if threshold is None else tuple(_compute_odds(threshold, updates, shares))
    return MonitorReport(
        name=monitor.name,
        kind=monitor.kind,
        threshold=threshold,
        epsilon=monitor.epsilon,
        charge=charge,
        explanation=explanation,
        one_visit=_charge_one_visit(monitor),
        per="place" if isinstance(monitor, OverTimeMonitor) else "designated time that it covers",
        updates=updates,
        pause=pause,
        odds=odds,
        ranking=_compute_ranking(monitor, locations) if isinstance(monitor, HotSpotsMonitor) else None,
        lower_bounds=_compute_lower_bounds(monitor) if isinstance(monitor, AtTimesMonitor) else None,
        dwell=_compute_dwell_noise(monitor) if isinstance(monitor, DwellMonitor) else None,
    )


def _charge_one_visit(monitor: AnyMonitor) -> Fraction:
    """Return the most ε that one visit costs at its place, or for each designated time that it covers."""
    if isinstance(monitor, OverTimeMonitor):
        return max(monitor.compute_shares().values())
    if isinstance(monitor, DwellMonitor):
        return monitor.epsilon / monitor.visits_per_person  # another visit may count instead (docs/rules.md, rule 14)
    bounds = monitor.at_least if isinstance(monitor, AtTimesMonitor) else None
    return monitor.epsilon if bounds is None else max(monitor.epsilon, bounds.epsilon)


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
    return LowerBounds(epsilon, compute_mean_noise(epsilon), find_threshold(epsilon, 1, SELDOM))


def _compute_ranking(monitor: HotSpotsMonitor, locations: int) -> Ranking:
    below = find_threshold(monitor.epsilon, locations, SELDOM)
    return Ranking(monitor.top, compute_mean_noise(monitor.epsilon), below)


def _explain_over_time(timing: Timing, monitor: OverTimeMonitor, charge: Charge) -> str:
    window, max_lead, slots = monitor.window // timing.slot, timing.max_lead, timing.period_slots
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
        f"A period of {spell_duration(timing.period)} that is not aligned with slots touches H = "
        f"{slots - 1} + 1 = {slots} slots. The window is W = {window} slots, a visit may end F = {max_lead} slots "
        f"after its report (accept_ahead and default_stay), and k = {k} noisy answers of a location may count at once "
        "(answers_per_window). So the visits in these slots are "
        f"in the counts of N = H + W + F - 1 = {ticks} ticks. These ticks have at most "
        f"k·⌊N/(W + F)⌋ + min(k, N mod (W + F)) = {k}·{full} + {min(k, rest)} noisy answers, "
        f"at ε/k = {monitor.epsilon / k} each: {charge.amount}. {shared}"
    )


def _explain_times(timing: Timing, monitor: TimedMonitor, charge: Charge) -> str:
    times = monitor.count_most_times(timing.period)
    bounds = monitor.at_least if isinstance(monitor, AtTimesMonitor) else None
    each = monitor.epsilon if bounds is None else f"{monitor.epsilon} + {bounds.epsilon} (lower bounds)"
    text = (
        f"Any {spell_duration(timing.period)} contain at most {times} designated "
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
