"""Six private ways to answer at each tick and place whether fewer than T people were there, at the same ε.

ε is what one visit of a person costs at most, over all ticks: a visit stamped in slot c is in the counts of at most
L = W + F ticks. Each way says when it warns (an alarm) and when it is silent (paused).

* *one-sided*: `monitor.privacy.over_time`, the service's own function. It hides that a person was there, not that a
  person was absent.
* *upper bound*: an `upper_bound` monitor with buckets of one slot: a one-sided geometric number for the people who are
  reported in each slot, at ε, summed over the last L slots. A sum is never below the count, and no place is paused. It
  hides what *one-sided* hides. Proof: a record is in one slot (docs/rules.md, rule 15).
* *slot sums*: a two-sided geometric number for each slot's new reports, at ε, summed over the last L slots. Proof: a
  report is new in one slot, so the L1 sensitivity of all numbers is 1, and a sum is post-processing. It counts the
  visits *reported* in these slots.
* *each tick*: a two-sided geometric number per tick, at ε/L. Proof: the visit changes at most L counts by 1, so the L1
  sensitivity of all numbers is L (`monitor.privacy.two_sided_noise`).
* *tree*: reports per slot, summed over the dyadic intervals of 1, 2, 4 … slots up to W, each sum with two-sided noise
  at ε/levels. Proof: a report is in exactly one interval of each of the `levels` lengths, so the L1 sensitivity of all
  sums is `levels`. A window of W slots is a union of disjoint intervals, so its number is post-processing (the binary
  mechanism of [CSS], docs/literature.md, for a sliding window). It counts the visits *reported* in the window.
* *sparse vector*: AboveThreshold with two-sided geometric noise: at ε/2 on the threshold and at ε/2 on each count,
  until the first alarm, then silence for L ticks and a fresh threshold. Proof: a visit changes all counts in the same
  direction, by at most 1. If it raises them, shift the threshold's noise by 1, which keeps every earlier answer, and
  the noise of the alarm's count by 1; if it lowers them, the second shift suffices. So a run costs at most ε/2 + ε/2.
  After L silent ticks no count has a visit of an earlier run, so each visit pays once.

All but the first two are ordinary differential privacy: they also hide that a person was absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from monitor.privacy import over_time
from monitor.privacy.one_sided_noise import Noise
from monitor.privacy.over_time import Mark, OverTimeRule
from monitor.privacy.two_sided_noise import draw_two_sided
from simulators.outbreak.reports import Counts, Timeline

Flags = NDArray[np.bool_]

MAX_LEAD: Final = 1
"""F: `visits.default_stay` rounded up to a slot."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Where a way warns, where it is paused, and where it is below T only by what was reported since a number.

    Arrays of (ticks, places). Everything else is "safe". A visit pays `epsilon` if an alarm counts it (each alarm
    counts other reports), for each tick that counts it, or in any case, as `pays` says.
    """

    alarms: Flags
    paused: Flags
    since: Flags
    epsilon: float
    pays: Literal["alarm", "tick", "once"] = "alarm"


def make_empty(line: Timeline, epsilon: float) -> Answers:
    """Return answers without an alarm or a pause, whose alarms cost ε."""
    shape = (line.ticks, line.places)
    alarms, paused, since = (np.zeros(shape, np.bool_) for _ in range(3))
    return Answers(alarms, paused, since, epsilon)


def answer_one_sided(line: Timeline, epsilon: Fraction, threshold: int, noise: Noise, answers: int = 1) -> Answers:
    """Decide every tick and place with the service's own function, as an `over_time` monitor with ε per place."""
    rule = OverTimeRule(epsilon, answers, threshold, line.window, MAX_LEAD)
    marks: list[tuple[Mark, ...]] = [()] * line.places
    found = make_empty(line, float(rule.answer_epsilon))
    marked, resumes_at = np.zeros(line.places, np.bool_), np.zeros(line.places, np.int64)
    for tick, counts in enumerate(line.counts):
        drawn = noise.geometric(rule.answer_epsilon, line.places)
        # Asking about a pause once, and not about places without marks whose sum is below T, saves most of the time.
        found.paused[tick] = resumes_at > tick
        asked = ~found.paused[tick] & (marked | (counts + drawn >= threshold))
        for place in np.flatnonzero(asked).tolist():
            since = over_time.find_count_start(rule, marks[place], tick)
            count = int(counts[place]) if since is None else line.count_since(tick, since, place)
            answer = over_time.step(rule, marks[place], tick, count, int(drawn[place]))
            marks[place], marked[place] = answer.marks, bool(answer.marks)
            found.alarms[tick, place] = answer.status == "noisy_count"
            found.paused[tick, place] = answer.status == "paused"
            found.since[tick, place] = answer.status == "safe" and since is not None
            resumes_at[place] = answer.resumes_at or 0
    return found


def draw_each_tick(line: Timeline, epsilon: Fraction, noise: Noise) -> Counts:
    """Draw the two-sided number of each tick and place."""
    share = epsilon / (line.window + MAX_LEAD)
    return line.counts + draw_two_sided(noise, share, line.counts.size).reshape(line.counts.shape)


def count_new(line: Timeline) -> Counts:
    """Return the reports that are new in the slot of each tick and place."""
    new = np.zeros((line.ticks, line.places), np.int64)
    np.add.at(new, (line.report_ticks, line.columns), 1)
    return new


def draw_upper_bounds(line: Timeline, epsilon: Fraction, noise: Noise) -> Counts:
    """Draw the number of each slot and place, as an `upper_bound` monitor does, and return the bound of each tick.

    Before the first L slots are over, a bound has fewer numbers.
    """
    people = np.array([report.person for report in line.reports], np.int64)
    counted = line.visit_ticks > line.report_ticks - line.window
    reported = np.unique(np.stack([line.report_ticks, line.columns, people])[:, counted], axis=1)
    exact = np.zeros((line.ticks, line.places), np.int64)
    np.add.at(exact, (reported[0], reported[1]), 1)
    return add_last(line, exact + noise.geometric(epsilon, exact.size).reshape(exact.shape))


def add_last(line: Timeline, numbers: Counts) -> Counts:
    """Return the sum of the numbers of the last L slots at each tick and place."""
    sums = np.cumsum(np.pad(numbers, ((1, 0), (0, 0))), axis=0)
    ends = np.arange(1, line.ticks + 1)
    windows: Counts = sums[ends] - sums[np.maximum(ends - line.window - MAX_LEAD, 0)]
    return windows


def draw_slot_sums(line: Timeline, epsilon: Fraction, noise: Noise) -> Counts:
    """Draw the two-sided number of each slot and place, and return the sum of the last L at each tick."""
    exact = count_new(line)
    return add_last(line, exact + draw_two_sided(noise, epsilon, exact.size).reshape(exact.shape))


def draw_tree(line: Timeline, epsilon: Fraction, noise: Noise) -> Counts:
    """Draw the noisy sums of all dyadic intervals, and return the number of each tick's window and place."""
    levels = line.window.bit_length()
    new = count_new(line)
    sums: list[Counts] = []
    for level in range(levels):
        length = 1 << level
        padded = np.pad(new, ((0, -line.ticks % length), (0, 0)))
        exact = padded.reshape(-1, length, line.places).sum(axis=1)
        sums.append(exact + draw_two_sided(noise, epsilon / levels, exact.size).reshape(exact.shape))
    numbers = np.zeros((line.ticks, line.places), np.int64)
    for tick in range(line.ticks):
        for level, interval in cover(max(0, tick - line.window + 1), tick + 1, levels):
            numbers[tick] += sums[level][interval]
    return numbers


def cover(begin: int, end: int, levels: int) -> Iterator[tuple[int, int]]:
    """Yield the fewest (level, number) of disjoint dyadic intervals whose union is the slots [begin, end)."""
    while begin < end:
        level = min(levels - 1, (begin & -begin).bit_length() - 1 if begin else levels - 1)
        while begin + (1 << level) > end:
            level -= 1
        yield level, begin >> level
        begin += 1 << level


def warn_from(numbers: Counts, level: int, epsilon: float, pays: Literal["tick", "once"]) -> Answers:
    """Warn at each tick whose published number is `level` or more. The choice of the level costs no ε."""
    never = np.zeros(numbers.shape, np.bool_)
    return Answers(numbers >= level, never, never, epsilon, pays)


def answer_sparse_vector(line: Timeline, epsilon: Fraction, level: int, noise: Noise) -> Answers:
    """Run AboveThreshold at each place, again and again."""
    found = make_empty(line, float(epsilon))
    half, silence = epsilon / 2, line.window + MAX_LEAD
    thresholds = level + draw_two_sided(noise, half, line.places)
    silent_until = np.full(line.places, -1)
    for tick, counts in enumerate(line.counts):
        silent = silent_until >= tick
        noisy = counts + draw_two_sided(noise, half, line.places)
        alarms = ~silent & (noisy >= thresholds)
        found.alarms[tick], found.paused[tick] = alarms, silent
        silent_until[alarms] = tick + silence - 1
        thresholds[alarms] = level + draw_two_sided(noise, half, int(alarms.sum()))
    return found


def find_level(rate: Callable[[int], float], most: float, least: int) -> int:
    """Return the smallest level of at least `least` whose rate of false alarms is at most `most`."""
    while rate(least) > most:
        least += 1
    return least
