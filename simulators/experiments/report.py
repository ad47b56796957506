"""All points as a Markdown document: tables, how to read them, and the reason of every large deviation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

from simulators.experiments.datasets import (
    BMS_POS,
    HISTOGRAM,
    KOSARAK_ESTIMATED,
    PEOPLE_FLOW_CELLS,
    T40_COUNTED,
    T40_SLIP,
)
from simulators.experiments.location_figures import AS_READ, EXPECTED
from simulators.experiments.on_service import BY_SERVICE
from simulators.experiments.plots import TITLES
from simulators.experiments.points import ACCURACY, SQUARED_ERROR, Point, distinct_values
from simulators.experiments.top_k import AS_CODED, AS_PRINTED, ASYMMETRIC, SEEN

LARGE: Final = 3.0
"""Deviations beyond this many errors are listed with a reason."""

_BEYOND: Final = 500
"""The k with 2k above the number of items of T40I10D100K."""

_INTRODUCTION: Final = """# The paper's figures, reproduced

RunInfo by `python -m simulators experiments` (a checkout with `pip install -e '.[experiments]'`); don't edit it.
"""

_CAVEATS: Final = """## How to read the tables

Deviation = (ours − paper) / √(paper's error² + our standard error²). The paper's values were read off its figures:
accuracy ±0.003, ±0.01 where the line is steep (a neighbour is more than 0.1 away); mean squared error ±4 %, ±20 % at
k = 10 and 50, or half of the last digit if that is more; false-negative ratios ±0.0001 (Figure 6) and ±0.003
(Figure 7), plus the sampling error of the paper's runs (20 and 1, over 5,835 locations).

1. **Debiased or not.** *As printed*, Algorithm 1 publishes the noisy count; *as coded*, the authors' program subtracts
   the mean noise k/ε. Accuracy is the same in both. The mean squared error differs: 2(k/ε)² and (k/ε)², without the
   bias of selection. The paper's panels of Figure 2 where ε varies show the first, those where k varies the second.
   Figure 3 as coded is the authors' adaptive program; as printed, Algorithm 2 has one draw per item.
2. **Last items twice.** The authors' reader counts the last item of each record of T40I10D100K twice, because its lines
   end in a blank. We have counts only, not records. So the last items are *estimated* as if items were independent;
   the plain counts are shown too. Kosarak and BMS-POS are not affected.
3. **Item ids.** Noisy max uses ids 0 to the largest − 1, sparse vector 1 to the largest. Ids never seen are items with
   count 0. *Seen items only* leaves them out.

**Data.** T40I10D100K: counts. Kosarak: 156 counts are exact, the others ESTIMATED from the first 3.7 % of its records;
items not among these are 0. BMS-POS is not available and left out. The People Flow data of the paper (5,835 cells,
2,500 people) is not available either. Available are its Figure 1, People Flow on 400 cells with 1,000 people, and
Gowalla.

Figures 4 and 5 have no printed numbers: Figure 4 is the curve e^(−ε(T − f)), Figure 5 a map, drawn from one run.

* *Figure 1 as read*: the bars of the figure. They count all places of each of 500 people.
* *Short tail, long tail*: a model with one place per person, as in the paper's program: 500 people per update, each at
  a place drawn in proportion to Figure 1. The figure is readable up to 10 visitors; 85 places have more: 11 each, or
  numbers that fall as 1/c. The true numbers are between the two.
* People Flow and Gowalla: batches of 200, so five updates are 1,000 people. The data differs from the paper's, and so
  do the values; *expected* is the mean of e^(−ε(T − f)) over their counts f.
* *By the running service*: reported to the service and read from its output topic, with the noise that it publishes. A
  place with a noisy count is not evaluated again, as in Algorithm 4.
* *Scale for monotone counts*: the baseline with half of its noise, which suffices for counts. The paper did not run it.
"""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run: command, iterations, seed, elapsed and processor time, and messages about skipped data."""

    command: str
    iterations: int
    seed: int
    seconds: float
    processor_seconds: float
    skipped: tuple[str, ...]
    pictures: tuple[tuple[str, str], ...] = ()
    """(figure, path relative to the document)."""


def render_document(points: Sequence[Point], made: RunInfo) -> str:
    """Return the document."""
    return "\n".join(
        [
            _INTRODUCTION,
            *_render_run(made),
            _CAVEATS,
            *_render_pictures(made),
            *_render_tables(points),
            *_render_reasons(points),
        ]
    )


def _render_run(made: RunInfo) -> Iterator[str]:
    yield "```sh"
    yield made.command
    yield "```"
    yield ""
    yield f"Each top-k point has {made.iterations:,} iterations, a tenth of that if the paper has no such point. Seed"
    yield f"{made.seed}, {made.seconds:,.0f} s elapsed, {made.processor_seconds:,.0f} s of processor time."
    yield from (f"{line}." for line in made.skipped)
    yield ""


def _render_pictures(made: RunInfo) -> Iterator[str]:
    for figure, path in made.pictures:
        yield (
            f"![{TITLES[figure]}: our values as lines, the paper's as hollow circles, one row of panels for each "
            f"dataset, and below each panel the deviations in units of both errors.]({path})"
        )
        yield ""


def _render_tables(points: Sequence[Point]) -> Iterator[str]:
    for figure, members in groupby(sorted(points, key=lambda point: point.setting.figure), _figure_of):
        shown = list(members)
        yield f"## {TITLES[figure]}"
        yield ""
        for dataset in distinct_values([point.setting.dataset for point in shown]):
            chosen = [point for point in shown if point.setting.dataset == dataset]
            if dataset:
                yield f"### {dataset}"
                yield ""
            yield from _render_top_k(chosen) if figure in {"figure2", "figure3"} else _render_plain(chosen)
            yield ""


def _figure_of(point: Point) -> str:
    return point.setting.figure


def _render_top_k(points: Sequence[Point]) -> Iterator[str]:
    yield (
        "| varied | ε | k | algorithm | variant | accuracy, paper | ours | deviation | MSE, paper | ours | deviation |"
    )
    yield "|---|--:|--:|---|---|--:|--:|--:|--:|--:|--:|"
    accuracy = [point for point in points if point.setting.measure == ACCURACY]
    error = [point for point in points if point.setting.measure == SQUARED_ERROR]
    for accurate, squared in zip(accuracy, error, strict=True):
        setting = accurate.setting
        varied = "ε" if setting.panel == "epsilon" else "k"
        cells = [varied, f"{setting.epsilon:g}", f"{setting.k}", setting.algorithm, accurate.variant]
        cells += [*_compare(accurate, _format_share), *_compare(squared, _format_square)]
        yield f"| {' | '.join(cells)} |"


def _render_plain(points: Sequence[Point]) -> Iterator[str]:
    expected = {(point.setting, point.variant): point.ours for point in points if point.variant.endswith(EXPECTED)}
    yield "| measure | ε | T | update | variant | paper | ours | standard error | expected | deviation |"
    yield "|---|--:|--:|--:|---|--:|--:|--:|--:|--:|"
    for point in points:
        if point.variant.endswith(EXPECTED):
            continue
        setting = point.setting
        paper, ours, deviation = _compare(point, _format_ratio)
        cells = [
            setting.measure,
            _format_ratio(setting.epsilon),
            _format_ratio(setting.threshold),
            _format_ratio(setting.update),
        ]
        cells += [point.variant, paper, ours, "" if not point.standard_error else f"{point.standard_error:.1g}"]
        cells += [_format_ratio(expected.get((setting, point.variant + EXPECTED))), deviation]
        yield f"| {' | '.join(cells)} |"


def _compare(point: Point, shown: Callable[[float | None], str]) -> tuple[str, str, str]:
    deviation = "" if point.deviation is None else f"{point.deviation:+.1f}"
    return shown(None if point.paper is None else point.paper.value), shown(point.ours), deviation


def _format_share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _format_square(value: float | None) -> str:
    return "" if value is None else f"{value:.2e}"


def _format_ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _render_reasons(points: Sequence[Point]) -> Iterator[str]:
    """Yield the large deviations by reason, with their number and the largest."""
    large = [point for point in points if _is_large(point)]
    compared = sum(point.deviation is not None for point in points)
    yield f"## Deviations beyond {LARGE:g} errors"
    yield ""
    alike = [point for point in points if _is_as_the_paper_ran_it(point)]
    yield f"{len(large)} of {compared} compared points, most of them other variants or other data. Of the top-k points"
    yield "on the closest data and in the variant that the paper shows:"
    yield f"{sum(map(_is_large, alike))} of {len(alike)}."
    yield ""
    yield "| figure | dataset | algorithm | variant | measure | points | largest | ours − paper there | reason |"
    yield "|---|---|---|---|---|--:|--:|--:|---|"
    for names, members in groupby(sorted(large, key=_group_key), _group_key):
        shown = list(members)
        largest = max(shown, key=lambda point: abs(point.deviation or 0.0))
        away = largest.ours - (largest.paper.value if largest.paper else 0.0)
        figure, dataset, algorithm, variant, measure, why = names
        cells = [figure, dataset, algorithm, variant, measure, str(len(shown))]
        cells += [f"{largest.deviation:+.1f}", f"{away:+.2g}", why]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _is_large(point: Point) -> bool:
    return point.deviation is not None and (math.isnan(point.deviation) or abs(point.deviation) > LARGE)


def _is_as_the_paper_ran_it(point: Point) -> bool:
    setting = point.setting
    printed = (setting.figure, setting.algorithm, setting.measure) == ("figure2", ASYMMETRIC, SQUARED_ERROR)
    variant = AS_PRINTED if printed and setting.panel == "epsilon" else AS_CODED
    return setting.dataset in {T40_SLIP, KOSARAK_ESTIMATED, BMS_POS} and point.variant == variant


def _group_key(point: Point) -> tuple[str, ...]:
    setting = point.setting
    return setting.figure, setting.dataset, setting.algorithm, point.variant, setting.measure, reason(point)


def reason(point: Point) -> str:
    """Return the known reason why a point may deviate from the paper's."""
    return next((why for holds, why in _known_reasons(point) if holds), "not explained")


def _known_reasons(point: Point) -> Iterator[tuple[bool, str]]:
    """Yield whether a reason applies to a point, and the reason. The first that applies counts."""
    setting, variant, dataset = point.setting, point.variant, point.setting.dataset
    of_figure_3 = setting.figure == "figure3"
    is_t40 = dataset in {T40_COUNTED, T40_SLIP}
    debiasing = (setting.figure, setting.algorithm, setting.measure) == ("figure2", ASYMMETRIC, SQUARED_ERROR)
    varied, other = ("ε", AS_CODED) if setting.panel == "epsilon" else ("k", AS_PRINTED)
    yield variant == SEEN, "caveat 3: ids never seen are left out"
    yield debiasing and variant == other, f"caveat 1: the paper's panel of varying {varied} shows the other variant"
    yield of_figure_3 and variant == AS_PRINTED, "caveat 1: the paper ran the adaptive program"
    beyond = (
        "thresholds are at ranks up to 1,000 of 942 items: the values that the program read beyond the last are unknown"
    )
    yield of_figure_3 and is_t40 and setting.k == _BEYOND, beyond
    yield dataset == T40_COUNTED, "caveat 2: counted without the reader's slip"
    yield setting.figure == "figure4", "chance: few alarms among the draws"
    yield dataset == KOSARAK_ESTIMATED, "the counts are estimated"
    yield dataset == PEOPLE_FLOW_CELLS, "other data: 400 cells, 1,000 people"
    yield dataset == HISTOGRAM and variant == AS_READ, "all places of each person instead of one"
    yield dataset == HISTOGRAM, "the tail of Figure 1 is unknown"


def summarize_service(points: Sequence[Point]) -> Iterator[str]:
    """Yield the largest deviation of the service from the expected ratios, per dataset."""
    asked = [point for point in points if point.variant == BY_SERVICE and point.standard_error]
    expected = {point.setting: point.ours for point in points if point.variant == BY_SERVICE + EXPECTED}
    for dataset in distinct_values([point.setting.dataset for point in asked]):
        units = [
            (point.ours - expected[point.setting]) / (point.standard_error or 1)
            for point in asked
            if point.setting.dataset == dataset
        ]
        worst = max(units, key=abs)
        yield f"{dataset}: {len(units)} shares by the service, at most {abs(worst):.1f} standard errors off e^(-ε(T-f))"


def write_document(path: Path, points: Sequence[Point], made: RunInfo) -> None:
    """Write the document."""
    path.write_text(render_document(points, made), encoding="utf-8")
