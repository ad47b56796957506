"""The report of the experiments: deviations from the values of the paper, and their reasons."""

from __future__ import annotations

import math

import numpy as np
import pytest

from simulators.experiments.datasets import GOWALLA, HISTOGRAM, KOSARAK_ESTIMATED, T40_COUNTED, T40_SLIP
from simulators.experiments.paper import find_paper_value
from simulators.experiments.points import SQUARED_ERROR, Paper, Point, Setting, compute_mean_and_error
from simulators.experiments.report import RunInfo, find_reason, render_document
from simulators.experiments.top_k import AS_CODED, AS_PRINTED, ASYMMETRIC, FREE_GAP, SEEN


def test_deviation_is_in_errors() -> None:
    """A deviation is in units of both errors, and None without a value of the paper."""
    setting = Setting("figure6", HISTOGRAM, "false-negative ratio")
    assert Point(setting, "", Paper(1.0, 0.3), 2.0, 0.4).deviation == pytest.approx(2.0)
    assert Point(setting, "", Paper(1.0, 0.5), 2.0).deviation == pytest.approx(2.0)
    assert Point(setting, "", None, 2.0).deviation is None


def test_mean_leaves_out_nan() -> None:
    """A mean leaves out runs without a value."""
    assert compute_mean_and_error(np.array([1.0, math.nan, 3.0])) == (2.0, 1.0)
    assert compute_mean_and_error(np.array([1.0])) == (1.0, None)
    assert math.isnan(compute_mean_and_error(np.array([math.nan]))[0])


def test_values_of_the_paper() -> None:
    """The paper's values have their errors, shown for one value at the top and one at the bottom of its tables."""
    asked = Setting("figure2", "any", "accuracy", FREE_GAP, 0.1, 100, panel="epsilon")
    assert find_paper_value(asked, "Kosarak") == Paper(0.249, 0.01)
    asked = Setting("figure3", "any", SQUARED_ERROR, ASYMMETRIC, 0.5, 10, panel="k")
    assert find_paper_value(asked, "T40I10D100K") == Paper(1700.0, 340.0)
    assert find_paper_value(asked, "another") is None


@pytest.mark.parametrize(
    ("dataset", "panel", "variant", "expected"),
    [
        (T40_SLIP, "epsilon", AS_CODED, "caveat 1"),
        (T40_SLIP, "k", AS_PRINTED, "caveat 1"),
        (T40_COUNTED, "k", AS_CODED, "caveat 2"),
        (T40_SLIP, "k", SEEN, "caveat 3"),
        (KOSARAK_ESTIMATED, "k", AS_CODED, "the counts are estimated"),
        (T40_SLIP, "k", AS_CODED, "not explained"),
    ],
)
def test_large_deviation_has_a_reason(dataset: str, panel: str, variant: str, expected: str) -> None:
    """A large deviation has its known reason."""
    setting = Setting("figure2", dataset, SQUARED_ERROR, ASYMMETRIC, 0.5, 10, panel=panel)
    assert find_reason(Point(setting, variant, Paper(1.0, 0.1), 9.0)).startswith(expected)


def test_document_lists_large_deviations() -> None:
    """The document lists all points, and only large deviations with reasons."""
    near = Point(Setting("figure6", HISTOGRAM, "ratio", update=1), "near", Paper(1.0, 0.1), 1.1)
    far = Point(Setting("figure6", HISTOGRAM, "ratio", update=2), "far", Paper(1.0, 0.1), 2.0)
    other = Point(Setting("figure6", GOWALLA, "ratio", update=2), "other", None, 2.0)
    text = render_document([near, far, other], RunInfo("run it", 5, 7, 1.0, 2.0, ("BMS-POS is skipped",)))
    table, listed = text.split("## Deviations beyond 3 errors")
    assert all(name in table for name in ("near", "far", "other", "run it", "BMS-POS is skipped"))
    assert "1 of 2 compared points deviate" in listed
    assert "These include 0 of the 0 top-k points" in listed
    assert "far" in listed
    assert "near" not in listed
