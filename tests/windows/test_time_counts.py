"""Kept counts of designated times are used only for a set of the same size, at the same or a later tick."""

from __future__ import annotations

from random import Random

import numpy as np

from monitor.windows.time_counts import SparseCounts, TimeCounts, TimeCountsCache


def test_sparse_counts_are_the_counts() -> None:
    """The array of a time equals the array that its counts were made of."""
    rng = Random(1)
    for _ in range(50):
        size = rng.randrange(30)
        counts, consenting = (np.array([rng.choice((0, 0, 0, 1, 7)) for _ in range(size)], np.int64) for _ in range(2))
        sparse = SparseCounts.of(int(counts.sum()), counts, consenting)
        present = TimeCounts({5: sparse})
        assert present[5].tolist() == counts.tolist()
        assert TimeCounts({5: sparse}, consenting=True)[5].tolist() == consenting.tolist()
        assert present[5].dtype == np.int64
        assert (list(present), len(present)) == ([5], 1)


def test_earlier_tick_uses_nothing() -> None:
    """Counts kept at tick t serve tick t and later ones. A question without a tick neither uses nor keeps any."""
    cache, counts = TimeCountsCache(), SparseCounts.of(3, np.array([1, 2]), np.array([0, 1]))
    cache.keep(0, None, {5: counts})
    assert cache.find(0, 9, [5]) == {}
    cache.keep(0, 7, {5: counts})
    assert [set(cache.find(0, tick, [5, 6])) for tick in (6, 7, 8, None)] == [set(), {5}, {5}, set()]
    assert cache.find(1, 8, [5]) == {}


def test_other_times_are_forgotten() -> None:
    """Only the counts of the last reading are kept, so the memory does not grow."""
    cache, counts = TimeCountsCache(), SparseCounts.of(3, np.array([1, 2]), np.array([0, 1]))
    cache.keep(0, 7, {5: counts, 6: counts})
    cache.keep(0, 8, {6: counts})
    assert set(cache.find(0, 9, [5, 6])) == {6}
