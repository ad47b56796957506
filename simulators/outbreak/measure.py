"""What the answers of a way did for the people who were there, against what was published exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from monitor.time.instants import DAY
from simulators.continuous_noise import Floats
from simulators.outbreak.reports import Counts, Timeline
from simulators.outbreak.ways import Answers, Flags

PER: Final = 1_000
"""False alarms are counted per this number of place-days."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The figures of one way. Delays are in days from the end of a visit to the `as_of` of the first alarm after it.

    An alarm warns about a visit if it comes at or after the visit's end and while the visit is in the window.
    """

    warned: float
    """The share of (place, day) with a visit for which some visit has an alarm."""
    visits_warned: float
    """The share of visits for which some visit has an alarm."""
    before: float
    """The share whose alarm came before the report."""
    hidden: float
    """The share without an alarm whose place was paused when the visit was first counted, because an alarm before the
    visit was still running.
    """
    delay_median: float
    delay_95: float
    true: int
    early: int
    noise: int
    """`true`, `early`, `noise`: the alarms with T people or more in the window, with at least half as many, and with
    fewer.
    """
    false_alarms: float
    """Per 1,000 place-days without a visit in the window, even in hindsight."""
    false_safe: int
    """Answers "safe" with T or more people in the count."""
    at_threshold: int
    """All answers then, other than pauses and answers about what was reported since a number."""
    overtaken: int
    """Answers "safe" with fewer than T people counted, but T or more in hindsight."""
    owed: int
    """All (tick, place) with T or more in hindsight."""
    overtaken_median: float
    overtaken_95: float
    """`overtaken_median`, `overtaken_95`: the days from the first such "safe" of a place in a row to the last."""
    paused: float
    since: float
    """`paused`, `since`: the shares of place-days that were paused, and below T only since a number."""
    worst: float
    median: float
    """`worst`, `median`: the ε that a person paid, from the numbers published."""


def measure(line: Timeline, answers: Answers, threshold: int) -> Outcome:
    """Compare the answers of a way with the visits."""
    found = find_first_alarms(line, answers.alarms)
    days = [(report.place, int(visit)) for report, visit in zip(line.reports, line.visit_ticks, strict=True)]
    reported = line.report_ticks.tolist()
    delays = [line.find_as_of(row) - line.reports[index].end for index, row in found.items()]
    safe = ~(answers.alarms | answers.paused | answers.since)
    alarming = line.counts[answers.alarms]
    reached = line.counts >= threshold
    late = safe & ~reached & (line.in_hindsight >= threshold)
    runs = find_runs(late) * line.grid.length / DAY
    paid = _compute_payments(line, answers)
    return Outcome(
        warned=len({days[index] for index in found}) / len(set(days)),
        visits_warned=len(found) / len(days),
        before=sum(row < reported[index] for index, row in found.items()) / len(days),
        hidden=_count_hidden(line, answers, found) / len(days),
        delay_median=_quantile(delays, 0.5) / DAY,
        delay_95=_quantile(delays, 0.95) / DAY,
        true=int((alarming >= threshold).sum()),
        early=int(((alarming < threshold) & (2 * alarming >= threshold)).sum()),
        noise=int((2 * alarming < threshold).sum()),
        false_alarms=count_false_alarms(line, answers.alarms),
        false_safe=int((safe & reached).sum()),
        at_threshold=int((reached & ~answers.paused & ~answers.since).sum()),
        overtaken=int(late.sum()),
        owed=int((line.in_hindsight >= threshold).sum()),
        overtaken_median=_quantile(runs, 0.5),
        overtaken_95=_quantile(runs, 0.95),
        paused=float(answers.paused.mean()),
        since=float(answers.since.mean()),
        worst=float(paid.max()),
        median=float(np.median(paid)),
    )


def count_false_alarms(line: Timeline, alarms: Flags) -> float:
    """Return the alarms per 1,000 place-days at places without a visit in the window, even in hindsight."""
    empty = line.in_hindsight == 0
    return float((alarms & empty).sum()) / (float(empty.sum()) * line.grid.length / DAY) * PER


def find_runs(flags: Flags) -> Counts:
    """Return the lengths of all runs of consecutive ticks at a place."""
    padded = np.pad(flags.astype(np.int8), ((1, 1), (0, 0))).T
    changes = np.diff(padded, axis=1)
    return np.nonzero(changes == -1)[1] - np.nonzero(changes == 1)[1]


def find_first_alarms(line: Timeline, alarms: Flags) -> dict[int, int]:
    """Return the row of the first alarm about each report that is warned about, by its index."""
    found = {}
    for index, (visit, place) in enumerate(zip(line.visit_ticks.tolist(), line.columns.tolist(), strict=True)):
        rows = np.flatnonzero(alarms[visit : visit + line.window, place])
        if rows.size:
            found[index] = visit + int(rows[0])
    return found


def _count_hidden(line: Timeline, answers: Answers, found: dict[int, int]) -> int:
    missed = np.array([index not in found for index in range(len(line.reports))])
    rows = np.minimum(line.report_ticks, line.ticks - 1)
    return int((missed & answers.paused[rows, line.columns]).sum())


def _compute_payments(line: Timeline, answers: Answers) -> Floats:
    """Return the ε that each report paid: that of each number computed from a count with it.

    An alarm is followed by a pause, or by counts without the reports that it counted. So at most one counts a report.
    """
    if answers.pays == "once":
        return np.full(len(line.reports), answers.epsilon)
    numbers = np.ones_like(answers.alarms) if answers.pays == "tick" else answers.alarms
    sums = np.pad(np.cumsum(numbers, axis=0, dtype=np.int64), ((1, 0), (0, 0)))
    ends = np.minimum(line.visit_ticks + line.window, line.ticks)
    begins = np.minimum(line.report_ticks, ends)
    counted = sums[ends, line.columns] - sums[begins, line.columns]
    return (counted if answers.pays == "tick" else np.minimum(counted, 1)) * np.float64(answers.epsilon)


def _quantile(values: object, share: float) -> float:
    numbers = np.asarray(values, np.float64)
    return float(np.quantile(numbers, share)) if numbers.size else float("nan")
