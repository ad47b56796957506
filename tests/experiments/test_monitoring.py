"""The figures about monitored places: people, expected and drawn ratios, and estimated histograms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from monitor.errors import UsageError
from simulators.experiments.data import Items, Movements
from simulators.experiments.location_figures import (
    EXPECTED,
    compute_ratio_points,
    draw_figure_5_maps,
    make_histogram_populations,
)
from simulators.experiments.monitoring import (
    AsRead,
    DrawnByWeight,
    OnePlaceEach,
    RatioQuery,
    add_unread_places,
    compute_expected_ratio,
    draw_bars,
    draw_ratios,
    list_histogram_counts,
)
from simulators.experiments.points import LOCATIONS

pytestmark = pytest.mark.long


@pytest.fixture
def movements() -> Movements:
    """Ten people: five who were at places 0 and 1, five at 2 alone; nobody was at 3."""
    starts = np.array([0, 2, 4, 6, 8, 10, 11, 12, 13, 14, 15])
    places = np.array([0, 1] * 5 + [2] * 5)
    return Movements(starts, places, 4, ("a", "b", "c", "d"), np.zeros((4, 2)))


def test_people_are_counted_once(movements: Movements) -> None:
    """Each person is counted once, at a place that they visited."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        counts = OnePlaceEach(movements).draw_counts(rng)
        assert counts.shape == (5, 4)
        assert counts.sum(axis=1).tolist() == [2, 4, 6, 8, 10]
        assert (np.diff(counts, axis=0) >= 0).all()
        assert counts[-1, 0] + counts[-1, 1] == 5
        assert counts[-1, 2:].tolist() == [5, 0]


def test_place_is_drawn_at_random(movements: Movements) -> None:
    """Of a person's places, each is drawn equally often: 1,000 draws of two, within 6 standard errors (seeded)."""
    rng = np.random.default_rng(2)
    counts = sum(OnePlaceEach(movements).draw_counts(rng)[-1] for _ in range(200))
    assert abs(int(counts[0]) - 500) < 6 * math.sqrt(1_000) / 2
    assert counts[0] + counts[1] == 1_000


def test_long_tail_falls_as_stated() -> None:
    """In the long tail, 11·n/c of the n unread places have c visitors or more, up to the most; the short one has 11."""
    bars = np.repeat(np.arange(11), [LOCATIONS - 95, *[1] * 10])
    short, long = (add_unread_places(bars, long_tail=tail, most=400)[bars.size :] for tail in (False, True))
    assert short.tolist() == [11] * 85
    assert [int((long >= c).sum()) for c in (11, 17, 55, 110, 187)] == [85, 55, 17, 9, 5]
    assert long.max() == 400
    assert int((long >= 400).sum()) == 2


def test_maps_of_figure_5_have_noise() -> None:
    """Figure 5 shows all places with 10 people as hot, and each empty one with chance e^(-10ε).

    30,000 empty places: within 6 standard errors, at most 10^-8 for each of three ε (seeded).
    """
    crowded = Movements(np.arange(51), np.repeat(np.arange(5), 10), 30_005, (), np.zeros((30_005, 2)))
    truth, *noisy = draw_figure_5_maps(crowded, 3)
    assert (truth.epsilon, truth.hot.tolist()) == (None, [0, 1, 2, 3, 4])
    for panel in noisy:
        assert panel.epsilon is not None
        assert panel.hot[:5].tolist() == [0, 1, 2, 3, 4]
        expected = 30_000 * math.exp(-10 * panel.epsilon)
        assert abs(panel.hot.size - 5 - expected) < 6 * math.sqrt(expected) + 3
    assert [panel.epsilon for panel in noisy] == [0.5, 1.0, 2.0]
    assert noisy[0].hot.size > 100


def test_too_few_people_are_refused(movements: Movements) -> None:
    """Fewer people than updates are refused."""
    with pytest.raises(UsageError, match="10 people: expected at least 11"):
        OnePlaceEach(movements, updates=11)


def test_expected_ratio() -> None:
    """The expected ratio is the mean over the counts below the threshold."""
    # count:     0  0  2  3  5        T = 3: of 0, 0 and 2
    counts = np.array([0, 0, 2, 3, 5])
    assert compute_expected_ratio(counts, 0.5, 3) == pytest.approx((2 * math.exp(-1.5) + math.exp(-0.5)) / 3)
    assert math.isnan(compute_expected_ratio(np.array([4, 5]), 0.5, 3))


def test_drawn_ratios_match_formula() -> None:
    """The mean of drawn ratios is that of the formula.

    For Figure 1 as read, with ε and T of Figure 7. A mean is off by 5 errors with a chance below 10^-5 (seeded).
    """
    counts = list_histogram_counts([4465, 837, 211, 81, 38, 38, 16, 16, 16, 16, 16])
    asked = [RatioQuery(epsilon, threshold, 1) for epsilon in (0.5, 1.0, 2.0) for threshold in (2, 5, 10, 20)]
    found = draw_ratios(AsRead(counts), asked, 400, np.random.default_rng(3))
    for one, drawn, expected in zip(asked, found.drawn, found.expected, strict=True):
        mean = compute_expected_ratio(counts, one.epsilon, one.threshold)
        assert expected == pytest.approx(mean)
        error = math.sqrt(mean * (1 - mean) / (400 * np.count_nonzero(counts < one.threshold)))
        assert abs(drawn.mean() - mean) < 5 * error + 1e-6


class _NoiseOfOne(np.random.Generator):
    """A generator whose noise is 1 at each place."""

    def exponential(self, _scale: Any = 1.0, size: Any = None) -> Any:
        """Return 1, as often as asked."""
        return np.ones(size)


def test_count_of_threshold_is_not_safe() -> None:
    """A noisy count of exactly T is not called safe: of the counts 0 and 2 below T = 3, the 2 is missed."""
    found = draw_ratios(AsRead(np.array([0, 2, 3])), [RatioQuery(1.0, 3, 1)], 1, _NoiseOfOne(np.random.PCG64(1)))
    assert found.drawn.tolist() == [[0.5]]


def test_figure_7_cross_check() -> None:
    """Figure 7 from the histogram has the values computed by hand from the paper's Figure 1."""
    as_read = make_histogram_populations()[0]
    points = [point for point in compute_ratio_points("figure7", as_read, 2, 1) if point.variant.endswith(EXPECTED)]
    found = {(point.setting.epsilon, point.setting.threshold): point.ours for point in points}
    known = {(0.5, 2): 0.406, (1.0, 2): 0.172, (2.0, 2): 0.037, (0.5, 5): 0.103, (1.0, 5): 0.014, (2.0, 5): 0.0014}
    for setting, value in known.items():
        assert found[setting] == pytest.approx(value, abs=0.0005)


@pytest.mark.parametrize("long_tail", [False, True])
def test_unread_places_are_busier(*, long_tail: bool) -> None:
    """The places that Figure 1 does not show are busier than the busiest one that it shows."""
    counts = list_histogram_counts([10, 5, 1])
    full = add_unread_places(counts, long_tail=long_tail, most=500)
    assert full.size == LOCATIONS
    assert full[: counts.size].tolist() == counts.tolist()
    assert full[counts.size :].min() >= 3
    assert full.max() <= 500


def test_model_places_whole_batches() -> None:
    """A model places all people of each batch, and none at a place of weight 0."""
    counts = DrawnByWeight(np.array([1, 0, 3]), 50).draw_counts(np.random.default_rng(1))
    assert counts.sum(axis=1).tolist() == [50, 100, 150, 200, 250]
    assert counts[:, 1].tolist() == [0] * 5


def test_bars_count_all_places(movements: Movements) -> None:
    """The bars count all places of the people of a batch.

    All ten people: places 0, 1 and 2 have five visitors each, place 3 none.
    """
    bars = draw_bars(movements, 10, 2, np.random.default_rng(1))
    assert bars.tolist() == [[1, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0]] * 2


def test_last_items_are_estimated() -> None:
    """Last items are estimated as if items were independent.

    Two items in half of 100 records each: 50 end in the higher one, 25 in the lower, and 25 are empty.
    """
    assert Items(np.array([0, 50, 50])).count_last_twice(100).counts.tolist() == [0, 75, 100]


def test_programs_leave_out_an_id() -> None:
    """Noisy max leaves out the largest id, sparse vector id 0."""
    # ids        0  1  2  3
    items = Items(np.array([7, 5, 0, 9]))
    assert items.noisy_max.tolist() == [7, 5, 0]
    assert items.sparse_vector.tolist() == [5, 0, 9]
    assert items.seen.tolist() == [7, 5, 9]
