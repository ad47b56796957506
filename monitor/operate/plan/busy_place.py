"""The share of time in which a busy location answers, if a known number of people a day are reported there.

A location with k answers per window counts who was reported since its latest number (docs/rules.md, section 3). If its
people raise k alarms faster than the marks end, it is silent most of the time: while it is paused, reports gather, and
each pause ends with an alarm. There is no simple formula, because the pauses depend on the times of the last k alarms.
So many locations are simulated, with fixed seeds: the same question has the same answer.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Final

import numpy as np

LOCATIONS: Final = 100
"""Simulated locations. A share near 1/2 has an error of about one in a hundred."""

_LIFETIMES: Final = 2
"""How many lifetimes of a mark are simulated before the measurement, and at least for it."""

_LEAST_TICKS: Final = 500


@cache
def simulate_answered_share(
    epsilon: Fraction, threshold: int, answers: int, window: int, max_lead: int, people: float
) -> float:
    """Return the share of ticks at which a location answers, if on average `people` new people are reported in a slot.

    `epsilon` is that of an answer, `answers` is k, `window` is W and `max_lead` is F. Each person is reported once, and
    the numbers of people per slot are Poisson.
    """
    lifetime, random = window + max_lead, np.random.default_rng(7)
    before, measured = _LIFETIMES * lifetime, max(_LIFETIMES * lifetime, _LEAST_TICKS)
    ticks = before + measured
    reported = np.zeros((ticks + 1, LOCATIONS), np.int64)  # before each tick
    np.cumsum(random.poisson(people, (ticks, LOCATIONS)), axis=0, out=reported[1:])
    alarms = np.full((answers, LOCATIONS), -lifetime)  # the ticks of the last k alarms, in turns
    oldest, latest, all_locations = np.zeros(LOCATIONS, np.int64), np.full(LOCATIONS, -lifetime), np.arange(LOCATIONS)
    answered = 0
    for tick in range(ticks):
        running = latest > tick - lifetime
        first = np.where(running, np.maximum(latest, tick - window), tick - window) + 1
        counts = reported[tick + 1] - reported[np.maximum(first, 0), all_locations]
        answering = alarms[oldest, all_locations] <= tick - lifetime
        raised = np.flatnonzero(answering & (counts + _draw_noise(random, epsilon) >= threshold))
        alarms[oldest[raised], raised] = latest[raised] = tick
        oldest[raised] = (oldest[raised] + 1) % answers
        if tick >= before:
            answered += int(np.count_nonzero(answering))
    return answered / (measured * LOCATIONS)


def _draw_noise(random: np.random.Generator, epsilon: Fraction) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Draw one-sided geometric noise: at least n with the chance e^(-εn)."""
    return random.geometric(-math.expm1(-float(epsilon)), LOCATIONS) - 1
