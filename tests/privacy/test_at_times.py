"""Algorithm 4: its answers with real noise, and the arguments that it refuses."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from monitor.errors import EpsilonError, PrivacyError
from monitor.privacy.at_times import AtTimesRule, step
from monitor.privacy.one_sided_noise import OneSidedNoise, SeededEntropy

RULE = AtTimesRule(Fraction(1), threshold=3)


@pytest.mark.promise(2)
def test_answers_are_upper_bounds() -> None:
    """No noisy count is below its count or the threshold, and every location at the threshold has one."""
    counts = np.arange(10_000, dtype=np.int64) % 7
    marked = np.arange(10_000) % 5 == 0
    rows, noisy = step(RULE, marked, counts, OneSidedNoise(SeededEntropy(1)))
    assert np.all(np.diff(rows) > 0)
    assert np.all(noisy >= np.maximum(counts[rows], RULE.threshold))
    assert not marked[rows].any()
    assert set(np.flatnonzero((counts >= RULE.threshold) & ~marked)) <= set(rows)


def test_no_locations_no_answers() -> None:
    """A shard without locations, and a shard whose locations are all marked, have no answers."""
    for marked in (np.zeros(0, dtype=np.bool_), np.ones(4, dtype=np.bool_)):
        rows, noisy = step(RULE, marked, np.full(marked.size, 9, dtype=np.int64), OneSidedNoise(SeededEntropy(1)))
        assert rows.size == noisy.size == 0


def test_different_shapes_are_refused() -> None:
    """The marks of another registry are refused."""
    with pytest.raises(PrivacyError, match=r"shape \(3,\) and counts \(4,\)"):
        step(RULE, np.zeros(3, dtype=np.bool_), np.zeros(4, dtype=np.int64), OneSidedNoise(SeededEntropy(1)))


def test_negative_counts_are_refused() -> None:
    """A negative count is refused, also at a marked location."""
    with pytest.raises(PrivacyError, match="negative"):
        step(RULE, np.ones(1, dtype=np.bool_), np.array([-1]), OneSidedNoise(SeededEntropy(1)))


def test_invalid_rules_are_refused() -> None:
    """A threshold below 1 and an ε that noise cannot be drawn at are refused."""
    with pytest.raises(PrivacyError, match="threshold is 0"):
        AtTimesRule(Fraction(1), 0)
    with pytest.raises(EpsilonError):
        AtTimesRule(Fraction(0), 1)
