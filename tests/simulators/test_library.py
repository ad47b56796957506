"""`python -m simulators library` on made-up histograms, and the figures of the OSDP paper."""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from monitor.errors import EXIT_USAGE
from simulators.cli import cli
from simulators.onesided_figures.histograms import FILE, NAMES
from simulators.onesided_figures.osdp_figures import (
    ALGORITHMS,
    AT_EPSILON,
    DAWA,
    DAWAZ,
    EPSILONS,
    EXACT,
    EXTRA,
    L1,
    LAPLACE,
    ONE_SIDED,
    POLICIES,
    PUBLISHED,
    QUARTER,
    RATIOS,
    RR,
    RUNS,
    SUPPRESS,
    VARIANTS,
    Input,
    Outcome,
    choose_non_sensitive,
    compute_average_regret,
    compute_osdp_points,
    run_dataset,
)
from simulators.onesided_figures.osdp_statements import compare_statements
from simulators.onesided_figures.report import TITLES
from simulators.onesided_figures.run_library import COMMAND, TABLES
from simulators.synthetic import write_synthetic
from tests.builders import make_page

pytestmark = pytest.mark.long

Library = Callable[..., Result]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The synthetic files."""
    write_synthetic(tmp_path / "data", 7)
    return tmp_path / "data"


@pytest.fixture
def library(data: Path, tmp_path: Path) -> Library:
    """Run the command on the made-up data with few runs."""

    def run(*arguments: object) -> Result:
        fixed = ["--data", data, "--out", tmp_path / "figures", "--runs", "2"]
        return CliRunner().invoke(cli, ["library", *(str(each) for each in [*arguments, *fixed])])

    return run


@pytest.fixture
def without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out drawing plots, which takes longer than the points."""
    monkeypatch.setattr("simulators.onesided_figures.run_library.draw", lambda *_: None)
    monkeypatch.setattr("simulators.onesided_figures.run_library.save", lambda *_: None)


@pytest.mark.usefixtures("without_plots")
def test_all_writes_every_figure(library: Library, tmp_path: Path) -> None:
    """`all` writes each figure as CSV, and the paper's statements and the exercise to the page.

    It skips no data.
    """
    page = make_page(tmp_path / "docs.md", COMMAND)
    result = library("all", "--document", page)
    assert result.exit_code == 0, result.output
    assert "skipped" not in result.output
    for figure in TITLES:
        with (tmp_path / f"figures/{figure}.csv").open(encoding="utf-8", newline="") as file:
            assert {row["figure"] for row in csv.DictReader(file)} == {figure}
    with (tmp_path / "figures/osdp-errors.csv").open(encoding="utf-8") as file:
        lines = len(file.readlines()) - 1
    published, exact = len(ALGORITHMS) + 3, len(ALGORITHMS) + 1  # with both Suppress and the other forms of DAWA
    assert lines == len(NAMES) * 2 * len(RATIOS) * len(EPSILONS) * (2 * published + exact) * 2
    text = page.read_text(encoding="utf-8")
    for named in (result.output, (tmp_path / "figures" / TABLES).read_text(encoding="utf-8"), text):
        assert "The data is synthetic" in named
    assert "| Figure 9a |" in text
    assert "n = 1 from ε = 1.19" in text


def test_plots_are_written(library: Library, tmp_path: Path) -> None:
    """A figure has a plot in the folder, and a small one next to the page."""
    assert library("subsampling", "--document", make_page(tmp_path / "docs.md", COMMAND)).exit_code == 0
    for path in ("figures/subsampling-regime.png", "pictures/library-subsampling-regime.png"):
        assert (tmp_path / path).read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("without_plots")
def test_same_seed_gives_same_bytes(library: Library, tmp_path: Path) -> None:
    """A seed determines the values."""
    written = []
    for _ in range(2):
        assert library("subsampling").exit_code == 0
        written.append((tmp_path / "figures/subsampling-variance.csv").read_bytes())
    assert written[0] == written[1]


@pytest.mark.usefixtures("without_plots")
def test_missing_data_is_reported(library: Library, data: Path, tmp_path: Path) -> None:
    """Without the file, `osdp` is left out, and the page says so."""
    (data / FILE).unlink()
    page = make_page(tmp_path / "docs.md", COMMAND)
    result = library("osdp", "subsampling", "--document", page)
    assert result.exit_code == 0
    assert "osdp is skipped" in result.output
    assert "osdp is skipped" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["", "bin,adult\n0,1\n", "bin," + ",".join(NAMES) + "\n0" + ",-1" * 7 + "\n"])
def test_bad_data_is_refused(library: Library, data: Path, text: str) -> None:
    """An empty file, missing columns and negative counts are usage errors that name the file."""
    (data / FILE).write_bytes(gzip.compress(text.encode()))
    result = library("osdp")
    assert result.exit_code == EXIT_USAGE
    assert FILE in result.output


BINS = 256
COUNTS = np.where(np.arange(BINS) % 2 == 0, 1_000_000, 2_000_000)
"""So different that every bin is a bucket."""

MEAN_INVERSE = float((1 / COUNTS).mean())
DRAWS = BINS * RUNS


def mean_size(epsilon: float) -> float:
    """Return the mean of |Z| for two-sided geometric noise: P[Z = z] is proportional to e^(-ε|z|)."""
    q = math.exp(-epsilon)
    return 2 * q / (1 - q * q)


SIZES = {
    PUBLISHED: {LAPLACE: 2.0, DAWA: 4.0, AT_EPSILON: 2.0, DAWAZ: 4 / 0.9, ONE_SIDED: 1.0, L1: math.log(2)},
    QUARTER: {LAPLACE: 2.0, DAWA: 8 / 3, AT_EPSILON: 4 / 3, DAWAZ: 8 / 3 / 0.9, ONE_SIDED: 1.0, L1: math.log(2)},
    EXACT: {
        LAPLACE: mean_size(1 / 2),
        DAWA: mean_size(3 / 8),
        EXTRA: mean_size(3 / 8),
        DAWAZ: mean_size(0.9 * 3 / 8),
        ONE_SIDED: 1 / (math.e - 1),
        L1: 1 / (math.e - 1),
    },
}
"""The mean size of each algorithm's noise at ε = 1, if a replaced record changes two counts and all records are open.

The published program runs at ε/2 and spends half, or three quarters, of that on totals. The exact one spends 3/4 on
totals, and has half of that for each of two counts.
"""


@pytest.fixture(scope="module")
def outcomes() -> dict[tuple[str, float], Outcome]:
    """The outcomes at ε = 1: at 0.99 all records are open, at 0.5 those of every other bin, at 0.25 ten of each bin."""
    by_ratio = dict.fromkeys(RATIOS, COUNTS) | {0.5: np.where(np.arange(BINS) % 2 == 0, COUNTS, 0)}
    by_ratio |= {0.25: np.full(BINS, 10)}
    chosen = {("made up", policy, ratio): [by_ratio[ratio]] * RUNS for policy, ratio in product(POLICIES, RATIOS)}
    found = run_dataset("made up", COUNTS, chosen, (Fraction(1),), 3)
    return {(each.given.variant, each.given.ratio): each for each in found if each.given.policy == "Close"}


@pytest.mark.parametrize("variant", [*VARIANTS, QUARTER])
def test_errors_follow_the_noise(outcomes: dict[tuple[str, float], Outcome], variant: str) -> None:
    """Each error is the mean size of the stated noise over 5,120 draws, within 6 standard errors (seeded)."""
    errors = outcomes[variant, 0.99].errors
    for name, size in SIZES[variant].items():
        assert errors[name]["MRE"] == pytest.approx(size * MEAN_INVERSE, rel=6 * 1.2 / math.sqrt(DRAWS)), name
    assert errors[RR]["MRE"] == pytest.approx(math.exp(-1), rel=1e-3)


def test_each_run_chooses_its_records() -> None:
    """The paper has one choice of the non-sensitive records; here each of at least 20 runs has its own."""
    chosen = choose_non_sensitive({"made up": np.arange(1, 65)}, 3)
    assert RUNS >= 20
    for policy in POLICIES:
        assert len({each.tobytes() for each in chosen["made up", policy, 0.5]}) == RUNS


@pytest.mark.parametrize("variant", VARIANTS)
def test_dawaz_empties_unseen_bins(outcomes: dict[tuple[str, float], Outcome], variant: str) -> None:
    """DAWAz sets a bin to 0 if no record of OsdpRR at ε/10 is in it. A bin that becomes 0 has the error 1.

    Without open records that is certain. With ten its chance is e^(-10/10) (6 standard errors, seeded).
    """
    assert outcomes[variant, 0.5].errors[DAWAZ]["MRE"] == pytest.approx(1 / 2, rel=1e-3)
    error = math.sqrt(math.exp(-1) * (1 - math.exp(-1)) / DRAWS)
    assert abs(outcomes[variant, 0.25].errors[DAWAZ]["MRE"] - math.exp(-1)) < 6 * error


def test_regret_is_averaged_over_inputs() -> None:
    """The regret of each input is relative to its best algorithm; Suppress does not take part."""
    errors = {name: {"MRE": 2.0} for name in ALGORITHMS} | {"Suppress10": {"MRE": 0.1}}
    best = errors | {"DAWA": {"MRE": 1.0}}
    given = Input("adult", "Close", 0.5, EPSILONS[0], "exact")
    regrets = compute_average_regret([Outcome(given, errors), Outcome(given, best)], "MRE")
    assert regrets == dict.fromkeys(ALGORITHMS, 1.5) | {"DAWA": 1.0}


GAPS = dict(zip(NAMES, (25.0, 6.0, 11.0, 9.0, 8.0, 7.0, 5.0), strict=True))
"""DAWA's error by dataset at ratio 0.99, by falling sparsity."""

Errors = dict[str, float]


def make_errors(given: Input) -> Errors:
    """Return errors that agree with every statement of the paper."""
    low, far = given.ratio <= 0.25, given.policy == "Far"
    errors = {LAPLACE: 20.0, DAWA: 6.0, RR: 3.0, ONE_SIDED: 10.0, L1: 30.0 if low else 1.0, DAWAZ: 1.5}
    if given.ratio == 0.99 and not far:
        errors[DAWA] = GAPS[given.dataset]
    if given.epsilon == EPSILONS[1]:
        errors[DAWAZ] = 1.0
    if given.dataset == "adult" and low:
        errors[RR] = 1.0
    return errors | {"Suppress10": 3 * errors[L1], "Suppress100": 1.1 * errors[L1], AT_EPSILON: 4.0, EXTRA: 5.0}


def make_outcomes(change: Callable[[Input, Errors], Errors]) -> Iterator[Outcome]:
    for dataset, policy, ratio, epsilon, variant in product(NAMES, POLICIES, RATIOS, EPSILONS, (*VARIANTS, QUARTER)):
        given = Input(dataset, policy, ratio, epsilon, variant)
        errors = change(given, make_errors(given))
        yield Outcome(given, {name: {"MRE": value, "Rel95": value} for name, value in errors.items()})


def test_statements_agree_with_the_paper() -> None:
    """With errors as the paper states them, each statement agrees."""
    statements = compare_statements(list(make_outcomes(lambda _, errors: errors)))
    assert [each.text for each in statements if not all(found.holds for found in each.findings.values())] == []
    by_text = {each.text: each.findings[PUBLISHED].values for each in statements}
    assert by_text["Far: DAWAz beats the best DP algorithm at every ratio"] == "5 of 5"
    assert "25 times, at ratio 0.99; 4 times if the program runs at ε" in by_text.values()


@pytest.mark.parametrize(
    ("text", "name", "factor", "applies"),
    [
        ("DAWA has about 6 times", DAWA, 3.0, lambda _: True),
        ("DAWAz has less than 2 times", DAWAZ, 3.0, lambda _: True),
        ("DAWA beats OsdpLaplaceL1", DAWA, 9.0, lambda given: given.ratio == 0.1),
        ("the best OSDP algorithm beats", DAWA, 0.1, lambda given: given.ratio == 0.25),
        ("Far: DAWAz beats", DAWAZ, 9.0, lambda given: given.ratio == 0.25),
        ("Far: DAWAz beats", DAWA, 0.1, lambda given: given.policy == "Far"),
        ("a smaller ε favours DAWAz", DAWAZ, 9.0, lambda given: given.epsilon == EPSILONS[1]),
        ("about 25 times less error", DAWA, 2.0, lambda given: given.dataset == "adult"),
        ("Nettrace is sorted", DAWA, 9.0, lambda given: given.dataset == "nettrace"),
        ("the gap between DAWA and OSDP", DAWA, 9.0, lambda given: given.dataset == "patent"),
        ("OsdpRR is sometimes the best", RR, 2.0, lambda _: True),
        ("Suppress is competitive", "Suppress100", 2.0, lambda _: True),
        ("Suppress is competitive", "Suppress10", 1 / 3, lambda _: True),
    ],
)
def test_contrary_errors_disagree(text: str, name: str, factor: float, applies: Callable[[Input], bool]) -> None:
    """With one algorithm's errors changed, the statement about it does not agree."""

    def change(given: Input, errors: Errors) -> Errors:
        return errors | {name: errors[name] * factor} if applies(given) else errors

    (statement,) = [each for each in compare_statements(list(make_outcomes(change))) if text in each.text]
    assert not statement.findings[PUBLISHED].holds


@pytest.mark.parametrize(
    ("text", "name", "factor", "verdict"),
    [
        ("Far: DAWAz beats", DAWAZ, 3.9, "open"),
        ("Far: DAWAz beats", DAWAZ, 4.1, "open"),
        ("Far: DAWAz beats", DAWAZ, 3.5, "yes"),
        ("Far: DAWAz beats", DAWAZ, 4.5, "no"),
        ("OsdpRR is sometimes the best", RR, 1.45, "open"),
        ("Suppress is competitive", "Suppress100", 1.2, "open"),
    ],
)
def test_close_values_leave_a_verdict_open(text: str, name: str, factor: float, verdict: str) -> None:
    """A verdict that values a twentieth larger or smaller would change is open. DAWA has 4 times the error of DAWAz."""

    def change(_: Input, errors: Errors) -> Errors:
        return errors | {name: errors[name] * factor}

    (statement,) = [each for each in compare_statements(list(make_outcomes(change))) if text in each.text]
    assert statement.findings[PUBLISHED].verdict == verdict


def test_exact_baseline_has_both_penalties() -> None:
    """In the exact variant, DAWA with the extra penalty may be the best DP algorithm."""

    def change(_: Input, errors: Errors) -> Errors:
        return errors | {EXTRA: 0.1}

    statements = {each.text: each for each in compare_statements(list(make_outcomes(change)))}
    for text in (
        "Close: the best OSDP algorithm beats the best DP algorithm",
        "Far: DAWAz beats the best DP algorithm",
    ):
        found = statements[f"{text} at every ratio"].findings
        assert [found[variant].holds for variant in (PUBLISHED, QUARTER, EXACT)] == [True, True, False]


def test_figures_7_8_10_are_limited() -> None:
    """Figures 7, 8 and 10 have the ratios from 0.25 at ε = 1, as in the paper. Figure 6 has all ratios and both ε."""
    points = list(compute_osdp_points(list(make_outcomes(lambda _, errors: errors))))
    shown = {
        f"osdp-figure{number}": {point.x for point in points if point.figure == f"osdp-figure{number}"}
        for number in (6, 7, 8, 10)
    }
    limited = {0.99, 0.9, 0.75, 0.5, 0.25}
    assert shown == {
        "osdp-figure6": {*RATIOS},
        **dict.fromkeys(["osdp-figure7", "osdp-figure8", "osdp-figure10"], limited),
    }
    panels = {point.panel for point in points if point.figure == "osdp-figure7"}
    assert panels == {"Close, ε = 1", "Far, ε = 1"}
    assert set(SUPPRESS) < {point.series for point in points if point.figure == "osdp-figure10"}
