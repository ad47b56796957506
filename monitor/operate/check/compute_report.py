"""The consequences of a configuration in numbers: payments, pauses, and chances of false alarms.

They are computed from the configuration and the registry only (docs/rules.md, sections 3, 6 and 7; docs/interface.md,
section 2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from monitor.config.charges_of_monitors import compute_timing
from monitor.config.valid_config import ValidConfig
from monitor.kinds.all_kinds import find_words
from monitor.kinds.base.words import Words
from monitor.kinds.report_delays import ReportDelays
from monitor.operate.check.report import CheckReport, MonitorReport, NoiseInSight, Odds, Overlap, compute_counted
from monitor.operate.check.verdicts import list_figures, list_verdicts
from monitor.privacy.alarm_chances import compute_false_alarm, compute_over_updates, find_most_noise
from monitor.privacy.payment_of_one_person import Charge


def compute_report(valid: ValidConfig, delays: ReportDelays | None = None) -> CheckReport:
    """Compute the report of a valid configuration. `delays`: how late visits are reported, if it is known."""
    config, locations, timing = valid.config, len(valid.locations), compute_timing(valid.config)
    words = tuple(find_words(monitor, timing, locations) for monitor in config.monitors)
    monitors = tuple(_report_monitor(one, charge) for one, charge in zip(words, valid.charges, strict=True))
    overlap, one_visit = _compute_overlap(valid, words), compute_one_visit(words)
    counted = () if delays is None else tuple(compute_counted(one, delays) for one in words)
    return CheckReport(
        service=config.service.name,
        locations=locations,
        period=config.privacy.period,
        stated=config.privacy.epsilon,
        total=valid.worst,
        one_visit=one_visit,
        monitors=monitors,
        overlap=overlap,
        verdicts=(
            *list_figures(config.privacy, one_visit, locations, monitors),
            *list_verdicts(config, tuple(zip(words, monitors, strict=True)), overlap, counted),
        ),
        counted=counted,
    )


def _report_monitor(words: Words[Any], charge: Charge) -> MonitorReport:
    threshold, updates = words.threshold, words.updates
    return MonitorReport(
        name=words.monitor.name,
        kind=words.monitor.kind,
        threshold=threshold,
        epsilon=words.monitor.epsilon,
        charge=charge,
        explanation=words.explain(charge),
        one_visit=words.one_visit,
        per=words.per,
        updates=updates,
        odds=() if threshold is None else tuple(_compute_odds(threshold, updates, words.shares)),
        note=words.note(),
        noise=None if threshold is None else _count_noise(words, threshold),
    )


def compute_one_visit(words: Sequence[Words[Any]]) -> Fraction:
    """Return the most ε that one visit costs: all monitors of its place, and one designated time of each other one."""
    by_place: dict[str, Fraction] = {}
    for one in words:
        for place, epsilon in one.visit_shares.items():
            by_place[place] = by_place.get(place, Fraction(0)) + epsilon
    everywhere = sum((one.one_visit for one in words if not one.visit_shares), Fraction(0))
    return everywhere + max(by_place.values(), default=Fraction(0))


def _count_noise(words: Words[Any], threshold: int) -> NoiseInSight:
    people = find_most_noise(threshold)
    return NoiseInSight(people, words.count_in_sight(people), words.count_in_sight(0))


def _compute_odds(threshold: int, updates: int, shares: Counter[Fraction]) -> Iterator[Odds]:
    for epsilon, locations in sorted(shares.items(), reverse=True):
        for people in sorted({0, threshold - 1}):
            p = compute_false_alarm(epsilon, threshold, people)
            yield Odds(epsilon, locations, people, p, compute_over_updates(p, updates))


def _compute_overlap(valid: ValidConfig, words: tuple[Words[Any], ...]) -> Overlap | None:
    charged = zip(words, valid.charges, strict=True)
    timed = {one.monitor.name: charge.amount for one, charge in charged if one.charged_per_place}
    return Overlap(valid.config.visits.default_stay, valid.worst, timed) if timed else None
