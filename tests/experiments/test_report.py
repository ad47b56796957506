"""The report of the experiments: deviations from the values of the paper, and their reasons."""

from __future__ import annotations

import csv
import hashlib
import math
from importlib.resources import files

import numpy as np
import pytest

from simulators.experiments.data import GOWALLA, HISTOGRAM, KOSARAK_ESTIMATED, T40_COUNTED, T40_SLIP
from simulators.experiments.location_figures import BY_ALGORITHM_3, EXPECTED, TAIL_LONG, TAIL_SHORT
from simulators.experiments.points import (
    ACCURACY,
    FALSE_NEGATIVES,
    LOCATIONS,
    SQUARED_ERROR,
    Paper,
    Point,
    Setting,
    compute_mean_and_error,
    find_paper_value,
)
from simulators.experiments.report import (
    RunInfo,
    find_outside,
    find_reason,
    render_gains,
    render_statements,
    render_summary,
    render_tables,
)
from simulators.experiments.top_k import AS_CODED, AS_PRINTED, ASYMMETRIC, FREE_GAP, MONOTONE_SCALE

pytestmark = pytest.mark.long


def test_deviation_is_in_errors() -> None:
    """A deviation is in units of both errors, and None without a value of the paper that is above its error."""
    setting = Setting("figure6", HISTOGRAM, "false-negative ratio")
    assert Point(setting, "", Paper(1.0, 0.3), 2.0, 0.4).deviation == pytest.approx(2.0)
    assert Point(setting, "", Paper(1.0, 0.5), 2.0).deviation == pytest.approx(2.0)
    assert Point(setting, "", None, 2.0).deviation is None
    assert Point(setting, "", Paper(0.002, 0.003), 2.0).deviation is None


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
        (KOSARAK_ESTIMATED, "k", AS_CODED, "the counts are estimated"),
        (T40_SLIP, "k", AS_CODED, "not explained"),
    ],
)
def test_large_deviation_has_a_reason(dataset: str, panel: str, variant: str, expected: str) -> None:
    """A large deviation has its known reason."""
    setting = Setting("figure2", dataset, SQUARED_ERROR, ASYMMETRIC, 0.5, 10, panel=panel)
    assert find_reason(Point(setting, variant, Paper(1.0, 0.1), 9.0)).startswith(expected)


def test_tables_list_large_deviations() -> None:
    """The tables list only large deviations, with reasons; the summary counts them."""
    near = Point(Setting("figure6", HISTOGRAM, "ratio", update=1), "near", Paper(1.0, 0.1), 1.1)
    far = Point(Setting("figure6", HISTOGRAM, "ratio", update=2), "far", Paper(1.0, 0.1), 2.0)
    tiny = Point(Setting("figure6", HISTOGRAM, "ratio", update=3), "tiny", Paper(0.0, 0.1), 2.0)
    other = Point(Setting("figure6", GOWALLA, "ratio", update=2), "other", None, 2.0)
    points, made = [near, far, tiny, other], RunInfo("run it", 1.0, 2.0, ("BMS-POS is skipped",), {})
    run, listed = render_tables(points, made).split("## Deviations beyond 3 errors")
    assert all(name in run for name in ("run it", "BMS-POS is skipped"))
    summary = render_summary(points, made)
    assert "in the model from the paper's Figure 1 | 2 | 1 |" in summary
    assert "| all | 2 | 1 |" in summary
    assert "At 1 other points the paper's value is not above its error." in summary
    assert "| far |" in listed
    assert "| near |" not in listed


def make_top_k(measure: str, algorithm: str, variant: str, paper: float | None, ours: float) -> list[Point]:
    """Return the points of Figure 2 at every ε of T40I10D100K."""
    value = None if paper is None else Paper(paper, 0.0)
    return [
        Point(Setting("figure2", T40_SLIP, measure, algorithm, epsilon, 100, panel="epsilon"), variant, value, ours)
        for epsilon in (0.1, 0.3, 0.5, 0.7, 1.0)
    ]


def test_gains_by_scale_and_variant() -> None:
    """The gain is the baseline's error over ours: the paper's, and four of ours by variant and scale."""
    points = [
        *make_top_k(SQUARED_ERROR, ASYMMETRIC, AS_PRINTED, 2.0, 2.0),
        *make_top_k(SQUARED_ERROR, ASYMMETRIC, AS_CODED, 2.0, 1.0),
        *make_top_k(SQUARED_ERROR, FREE_GAP, AS_CODED, 20.0, 16.0),
        *make_top_k(SQUARED_ERROR, FREE_GAP, MONOTONE_SCALE, None, 4.0),
    ]
    cells = list(render_gains(points))[2].split(" | ")[2:]
    assert [cell.partition(" ")[0] for cell in cells] == ["10.0", "8.0", "16.0", "2.0", "4.0"]


def make_ratios(variant: str, *, paper: float, ours: float) -> Point:
    setting = Setting("figure7", HISTOGRAM, FALSE_NEGATIVES, "Algorithm 4", 1.0, None, 2, 5, "threshold")
    return Point(setting, variant, Paper(paper, 0.001), ours)


def test_values_outside_both_tails() -> None:
    """A value of the paper that is not between both tails is listed, with all three values."""
    inside = [make_ratios(TAIL_SHORT, paper=0.15, ours=0.16), make_ratios(TAIL_LONG, paper=0.15, ours=0.14)]
    assert find_outside(inside) == []
    outside = [make_ratios(TAIL_SHORT, paper=0.158, ours=0.153), make_ratios(TAIL_LONG, paper=0.158, ours=0.15)]
    assert find_outside(outside) == [
        "Figure 7, ε = 1, T = 2: paper 0.158, ours 0.15 to 0.153, at least 5.0 errors apart"
    ]


def test_statements_say_whether_they_agree() -> None:
    """A statement agrees or not by our values, and is left out without them."""
    good = make_top_k(ACCURACY, ASYMMETRIC, AS_CODED, None, 0.98)
    bad = make_top_k(ACCURACY, ASYMMETRIC, AS_CODED, None, 0.9)
    for points, verdict in ((good, "yes"), (bad, "no")):
        (line,) = list(render_statements(points))[2:-1]
        assert "nearly 1 for every dataset" in line
        assert line.endswith(f"| {verdict} |")


def test_values_of_the_paper_are_unchanged() -> None:
    """The values were read off the figures once. If one is read again, change this sum too."""
    text = files("simulators.experiments").joinpath("paper.csv").read_bytes()
    assert hashlib.sha256(text).hexdigest() == "f5b80ee557ec8ba65f1ae60c5ab858cc9c46d0551d39e3841c276667ee6a0795"


def test_errors_of_the_paper_follow_the_rule() -> None:
    """Each error of a value of the paper is the one that `points.py` describes, to three digits."""
    text = files("simulators.experiments").joinpath("paper.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    assert len(rows) == 266
    for row in rows:
        value, error = float(row["paper"]), float(row["error"])
        if row["measure"] == ACCURACY:
            assert error in {0.003, 0.01}
        elif row["measure"] == SQUARED_ERROR:
            share = 0.2 if row["panel"] == "k" and row["k"] in {"10", "50"} else 0.04
            assert error == pytest.approx(share * value, rel=0.005) or error > share * value
        elif row["figure"] == "figure1":
            assert error == 10
        else:
            reading, runs = (0.0001, 20) if row["figure"] == "figure6" else (0.003, 1)
            assert error == pytest.approx(
                math.hypot(reading, math.sqrt(value * (1 - value) / LOCATIONS / runs)), rel=0.01
            )


def find_row(points: list[Point], place: str) -> list[str]:
    """Return the last two cells of a statement: our values, and whether they agree."""
    (row,) = [row for row in render_statements(points) if row.startswith(f"| {place} |")]
    return row.removesuffix(" |").split(" | ")[-2:]


@pytest.mark.parametrize(("ours", "agrees"), [(0.0104, "yes"), (0.0106, "no"), (0.0132, "no")])
def test_figure_6_agrees_to_three_decimals(ours: float, agrees: str) -> None:
    """A ratio of Figure 6 is "at most 0.01" if it is so when it is rounded to three decimals."""
    setting = Setting("figure6", HISTOGRAM, FALSE_NEGATIVES, "Algorithm 4", 0.5, update=5)
    points = [Point(setting, TAIL_SHORT, None, ours), Point(setting, TAIL_LONG, None, 0.0093)]
    assert find_row(points, "6.3.2") == [f"short tail {ours}, long tail 0.0093", agrees]


@pytest.mark.parametrize(("drawn", "agrees"), [(0.0045, "yes"), (0.012, "no")])
def test_figure_4_shows_the_exact_value(drawn: float, agrees: str) -> None:
    """The row of Figure 4 has the share of the draws, and the exact probability."""
    setting = Setting("figure4", "", f"{FALSE_NEGATIVES} at count 0", "Algorithm 3", 1.0, threshold=5)
    points = [
        Point(setting, BY_ALGORITHM_3, None, drawn),
        Point(setting, BY_ALGORITHM_3 + EXPECTED, None, math.exp(-5)),
    ]
    assert find_row(points, "6.3.1") == [f"drawn {drawn}, exact (e^-5) 0.0067", agrees]
