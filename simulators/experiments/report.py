"""All points as a Markdown document: tables, what must be known to read them, and every large deviation explained."""

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
from simulators.experiments.points import ACCURACY, SQUARED_ERROR, Point, ordered
from simulators.experiments.top_k import AS_CODED, AS_PRINTED, ASYMMETRIC, SEEN

LARGE: Final = 3.0
"""Deviations beyond this many errors are listed with a reason."""

_BEYOND: Final = 500
"""The k of which 2k is more than T40I10D100K has items."""

_INTRODUCTION: Final = """# The paper's figures, made anew

Made by `python -m simulators experiments` (a checkout with `pip install -e '.[experiments]'`); don't edit it.
"""

_CAVEATS: Final = """## How to read the tables

Deviation = (ours − paper) / √(paper's error² + our standard error²). The paper's values were read off its figures:
accuracy ±0.003, ±0.01 where the line is steep (a neighbour is more than 0.1 away); mean squared error ±4 %, ±20 % at
k = 10 and 50, half of the last digit where that is more; false-negative ratios ±0.0001 (Figure 6) and ±0.003
(Figure 7), together with the chance error of the paper's own runs (20 and 1, over 5,835 locations).

1. **Debiased or not.** *As printed*, Algorithm 1 publishes the noisy count; *as coded*, the authors' program subtracts
   the mean noise k/ε. Accuracy is the same, the mean squared error is not: 2(k/ε)² and (k/ε)² without the bias of
   selection. The paper's panels of Figure 2 where ε varies show the first, those where k varies the second. Figure 3
   as coded is the authors' adaptive program; as printed, Algorithm 2 has one draw for each item.
2. **Last items twice.** The authors' reader takes the last item of each record of T40I10D100K twice, as its lines end
   in a blank. Records are needed to do the same, and there are counts only. So which items were last is *estimated*,
   as if items were independent; the plain counts stand beside. Kosarak and BMS-POS are not affected.
3. **Item ids.** Noisy max asks ids 0 to the largest − 1, sparse vector 1 to the largest; ids never seen are items with
   count 0. *Seen items only* leaves those out.

**Data.** T40I10D100K: counts. Kosarak: 156 counts are exact, the others ESTIMATED from the first 3.7 % of its records;
items not among those are 0. BMS-POS: not to be had, left out. The People Flow data of the paper (5,835 cells, 2,500
people) is not to be had either. Its Figure 1 is; and so is People Flow on 400 cells with 1,000 people, and Gowalla.

Figures 4 and 5 have no printed numbers: Figure 4 is the curve e^(−ε(T − f)), Figure 5 a map, drawn from one run.

* *Figure 1 as read*: the bars as they are. They count all places of each person, of 500 people.
* *Short tail, long tail*: a model of one place for each person, as in the paper's program: 500 people an update, each
  at a place drawn in proportion to Figure 1. 85 places have more than the 10 visitors up to which it can be read: 11
  each, or numbers that fall as 1/c. The truth lies between.
* People Flow and Gowalla: batches of 200, so five updates are 1,000 people. Other data than the paper's, so other
  values; *expected* is the mean of e^(−ε(T − f)) over their counts f.
* *By the running service*: reported to the service and read from its output topic, with the noise that it publishes
  with. A place that was answered with a noisy count is not asked again, as in Algorithm 4.
* *Scale for monotone counts*: the baseline with half of its noise, which counts allow. The paper did not run it.
"""


@dataclass(frozen=True, slots=True)
class Made:
    """How the points were made: iterations, seed, time on the clock and of all processors, what was skipped and why."""

    command: str
    iterations: int
    seed: int
    seconds: float
    processor_seconds: float
    skipped: tuple[str, ...]
    pictures: tuple[tuple[str, str], ...] = ()
    """(figure, path relative to the document)."""


def document(points: Sequence[Point], made: Made) -> str:
    """The whole document."""
    return "\n".join([_INTRODUCTION, *_how(made), _CAVEATS, *_pictures(made), *_tables(points), *_reasons(points)])


def _how(made: Made) -> Iterator[str]:
    yield "```sh"
    yield made.command
    yield "```"
    yield ""
    yield f"Each top-k point has {made.iterations:,} iterations, a tenth of that where the paper has none; seed"
    yield f"{made.seed}, {made.seconds:,.0f} s on the clock, {made.processor_seconds:,.0f} s of processor time."
    yield from (f"{line}." for line in made.skipped)
    yield ""


def _pictures(made: Made) -> Iterator[str]:
    for figure, path in made.pictures:
        yield (
            f"![{TITLES[figure]}: our values as lines, the paper's as hollow circles, one row of panels for each "
            f"dataset, and below each panel the deviations in units of both errors.]({path})"
        )
        yield ""


def _tables(points: Sequence[Point]) -> Iterator[str]:
    for figure, members in groupby(sorted(points, key=lambda point: point.setting.figure), _figure):
        shown = list(members)
        yield f"## {TITLES[figure]}"
        yield ""
        for dataset in ordered([point.setting.dataset for point in shown]):
            chosen = [point for point in shown if point.setting.dataset == dataset]
            if dataset:
                yield f"### {dataset}"
                yield ""
            yield from _top_k_table(chosen) if figure in {"figure2", "figure3"} else _plain_table(chosen)
            yield ""


def _figure(point: Point) -> str:
    return point.setting.figure


def _top_k_table(points: Sequence[Point]) -> Iterator[str]:
    yield (
        "| varied | ε | k | algorithm | variant | accuracy, paper | ours | deviation | MSE, paper | ours | deviation |"
    )
    yield "|---|--:|--:|---|---|--:|--:|--:|--:|--:|--:|"
    accuracy = [point for point in points if point.setting.measure == ACCURACY]
    error = [point for point in points if point.setting.measure == SQUARED_ERROR]
    for one, other in zip(accuracy, error, strict=True):
        setting = one.setting
        varied = "ε" if setting.panel == "epsilon" else "k"
        cells = [varied, f"{setting.epsilon:g}", f"{setting.k}", setting.algorithm, one.variant]
        cells += [*_compared(one, _share), *_compared(other, _square)]
        yield f"| {' | '.join(cells)} |"


def _plain_table(points: Sequence[Point]) -> Iterator[str]:
    expected = {(point.setting, point.variant): point.ours for point in points if point.variant.endswith(EXPECTED)}
    yield "| measure | ε | T | update | variant | paper | ours | standard error | expected | deviation |"
    yield "|---|--:|--:|--:|---|--:|--:|--:|--:|--:|"
    for point in points:
        if point.variant.endswith(EXPECTED):
            continue
        setting = point.setting
        paper, ours, deviation = _compared(point, _ratio)
        cells = [setting.measure, _ratio(setting.epsilon), _ratio(setting.threshold), _ratio(setting.update)]
        cells += [point.variant, paper, ours, "" if not point.standard_error else f"{point.standard_error:.1g}"]
        cells += [_ratio(expected.get((setting, point.variant + EXPECTED))), deviation]
        yield f"| {' | '.join(cells)} |"


def _compared(point: Point, shown: Callable[[float | None], str]) -> tuple[str, str, str]:
    deviation = "" if point.deviation is None else f"{point.deviation:+.1f}"
    return shown(None if point.paper is None else point.paper.value), shown(point.ours), deviation


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _square(value: float | None) -> str:
    return "" if value is None else f"{value:.2e}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _reasons(points: Sequence[Point]) -> Iterator[str]:
    """Every large deviation by its reason, with how many there are and the largest."""
    large = [point for point in points if _is_large(point)]
    compared = sum(point.deviation is not None for point in points)
    yield f"## Deviations beyond {LARGE:g} errors"
    yield ""
    alike = [point for point in points if _is_as_the_paper_ran_it(point)]
    yield f"{len(large)} of {compared} compared points, most on purpose: other variants, other data. Of the top-k"
    yield "points on the data that comes closest, in the variant that the paper shows, it is"
    yield f"{sum(map(_is_large, alike))} of {len(alike)}."
    yield ""
    yield "| figure | dataset | algorithm | variant | measure | points | largest | ours − paper there | reason |"
    yield "|---|---|---|---|---|--:|--:|--:|---|"
    for names, members in groupby(sorted(large, key=_kind), _kind):
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


def _kind(point: Point) -> tuple[str, ...]:
    setting = point.setting
    return setting.figure, setting.dataset, setting.algorithm, point.variant, setting.measure, reason(point)


def reason(point: Point) -> str:
    """Why a point may lie far from the paper's, from what is known of the data and the programs."""
    return next((why for holds, why in _known_reasons(point) if holds), "not explained")


def _known_reasons(point: Point) -> Iterator[tuple[bool, str]]:
    """Whether a reason holds for a point, and the reason; the first that holds counts."""
    setting, variant, dataset = point.setting, point.variant, point.setting.dataset
    of_figure_3 = setting.figure == "figure3"
    is_t40 = dataset in {T40_COUNTED, T40_SLIP}
    debiasing = (setting.figure, setting.algorithm, setting.measure) == ("figure2", ASYMMETRIC, SQUARED_ERROR)
    varied, other = ("ε", AS_CODED) if setting.panel == "epsilon" else ("k", AS_PRINTED)
    yield variant == SEEN, "caveat 3: ids never seen are left out"
    yield debiasing and variant == other, f"caveat 1: the paper's panel of varying {varied} shows the other variant"
    yield of_figure_3 and variant == AS_PRINTED, "caveat 1: the paper ran the adaptive program"
    beyond = "thresholds are at ranks up to 1,000 of 942 items: what the program read beyond the last is not known"
    yield of_figure_3 and is_t40 and setting.k == _BEYOND, beyond
    yield dataset == T40_COUNTED, "caveat 2: counted without the reader's slip"
    yield setting.figure == "figure4", "chance: few alarms among the draws"
    yield dataset == KOSARAK_ESTIMATED, "the counts are estimated"
    yield dataset == PEOPLE_FLOW_CELLS, "other data: 400 cells, 1,000 people"
    yield dataset == HISTOGRAM and variant == AS_READ, "all places of each person, not one"
    yield dataset == HISTOGRAM, "the tail of Figure 1 is not known"


def service_lines(points: Sequence[Point]) -> Iterator[str]:
    """How far the service is from what is expected, over all points of each dataset that were asked of it."""
    asked = [point for point in points if point.variant == BY_SERVICE and point.standard_error]
    expected = {point.setting: point.ours for point in points if point.variant == BY_SERVICE + EXPECTED}
    for dataset in ordered([point.setting.dataset for point in asked]):
        units = [
            (point.ours - expected[point.setting]) / (point.standard_error or 1)
            for point in asked
            if point.setting.dataset == dataset
        ]
        worst = max(units, key=abs)
        yield f"{dataset}: {len(units)} shares by the service, at most {abs(worst):.1f} standard errors off e^(-ε(T-f))"


def write_document(path: Path, points: Sequence[Point], made: Made) -> None:
    """Write it."""
    path.write_text(document(points, made), encoding="utf-8")
