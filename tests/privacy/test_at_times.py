"""What Algorithm 4 refuses, and that it is at home with the real noise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from monitor.errors import EpsilonError, PrivacyError
from monitor.privacy.at_times import AtTimesRule, step
from monitor.privacy.noise import OneSidedNoise, SeededEntropy

RULE = AtTimesRule(Fraction(1), threshold=3)


def test_answers_are_upper_bounds() -> None:
    """No noisy count is below its count or the threshold, and every location at the threshold is answered."""
    counts = np.arange(10_000, dtype=np.int64) % 7
    marked = np.arange(10_000) % 5 == 0
    rows, noisy = step(RULE, marked, counts, OneSidedNoise(SeededEntropy(1)))
    assert np.all(np.diff(rows) > 0)
    assert np.all(noisy >= np.maximum(counts[rows], RULE.threshold))
    assert not marked[rows].any()
    assert set(np.flatnonzero((counts >= RULE.threshold) & ~marked)) <= set(rows)


def test_no_locations_no_answers() -> None:
    """An empty shard, and one that is marked whole."""
    for marked in (np.zeros(0, dtype=np.bool_), np.ones(4, dtype=np.bool_)):
        rows, noisy = step(RULE, marked, np.full(marked.size, 9, dtype=np.int64), OneSidedNoise(SeededEntropy(1)))
        assert rows.size == noisy.size == 0


def test_different_shapes_are_refused() -> None:
    """Marks of another registry."""
    with pytest.raises(PrivacyError, match=r"shape \(3,\) and counts \(4,\)"):
        step(RULE, np.zeros(3, dtype=np.bool_), np.zeros(4, dtype=np.int64), OneSidedNoise(SeededEntropy(1)))


def test_negative_counts_are_refused() -> None:
    """It would be an undercount elsewhere."""
    with pytest.raises(PrivacyError, match="negative"):
        step(RULE, np.ones(1, dtype=np.bool_), np.array([-1]), OneSidedNoise(SeededEntropy(1)))


def test_invalid_rules_are_refused() -> None:
    """No threshold, no ε."""
    with pytest.raises(PrivacyError, match="threshold is 0"):
        AtTimesRule(Fraction(1), 0)
    with pytest.raises(EpsilonError):
        AtTimesRule(Fraction(0), 1)
