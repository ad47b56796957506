"""A run compared with the paper: a summary for docs/experiments.md, and each large deviation with its reason."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
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
from simulators.experiments.points import SQUARED_ERROR, Point, distinct_values
from simulators.experiments.statements import find_outside, render_gains, render_statements, render_table_3
from simulators.experiments.top_k import AS_CODED, AS_PRINTED, ASYMMETRIC

LARGE: Final = 3.0
"""Deviations of more than this number of errors are listed with a reason."""

_BEYOND: Final = 500
"""The k for which 2k exceeds the number of items of T40I10D100K."""

_ALIKE: Final = "top-k, on the closest data, in the variant that the paper shows"
_VARIANT: Final = "top-k, in another variant, or with plain counts of T40I10D100K"
_MODEL: Final = "Figures 6 and 7, in the model from the paper's Figure 1"
_OTHER_DATA: Final = "Figures 6 and 7, on other data than the paper's"
_KINDS: Final = (_ALIKE, _VARIANT, _MODEL, _OTHER_DATA)


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run: command, elapsed and processor time, and notes on the data."""

    command: str
    seconds: float
    processor_seconds: float
    notes: tuple[str, ...]
    items: Mapping[str, int]
    """The number of items that occur, by the paper's name of the data set."""


def render_summary(points: Sequence[Point], made: RunInfo) -> str:
    """Return what docs/experiments.md shows: the statements, the gains, and how many points deviate."""
    lines = [*_render_run(made), "### The paper's statements", "", *render_statements(points)]
    if any(point.setting.measure == SQUARED_ERROR for point in points):
        lines += ['### "About ten times more accurate"', "", *render_gains(points)]
    lines += [f"### Deviations beyond {LARGE:g} errors", "", *_render_numbers(points)]
    return "\n".join(lines)


def render_tables(points: Sequence[Point], made: RunInfo) -> str:
    """Return a document that compares a run with the paper. docs/experiments.md explains it."""
    lines = [
        "# A run and the paper",
        "",
        *_render_run(made),
        "## Table 3: the data sets",
        "",
        *render_table_3(made.items),
    ]
    if outside := find_outside(points):
        lines += ["## Points of Figures 6 and 7 outside both tails", "", *(f"* {line}" for line in outside), ""]
    lines += [f"## Deviations beyond {LARGE:g} errors, with reasons", "", *_render_reasons(points)]
    return "\n".join(lines)


def _render_run(made: RunInfo) -> Iterator[str]:
    yield "```sh"
    yield made.command
    yield "```"
    yield ""
    yield f"* {made.seconds:,.0f} s elapsed, {made.processor_seconds:,.0f} s of processor time."
    yield from (f"* {line}." for line in made.notes)
    yield ""


def _render_numbers(points: Sequence[Point]) -> Iterator[str]:
    """Yield a table of the numbers of points that are compared, and that deviate, by kind of comparison."""
    compared = [point for point in points if point.deviation is not None]
    yield "| compared with the paper's values | points | that deviate by more |"
    yield "|---|--:|--:|"
    for kind in _KINDS:
        chosen = [point for point in compared if _find_kind(point) == kind]
        yield f"| {kind} | {len(chosen)} | {sum(map(_is_large, chosen))} |"
    yield f"| all | {len(compared)} | {sum(map(_is_large, compared))} |"
    yield ""
    unreadable = sum(point.paper is not None and not point.paper.is_readable for point in points)
    yield f"At {unreadable} other points the paper's value is not above its error."


def _render_reasons(points: Sequence[Point]) -> Iterator[str]:
    """Yield a table of large deviations, grouped by reason: the number of points, and the largest deviation."""
    large = [point for point in points if _is_large(point)]
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


def _find_kind(point: Point) -> str:
    setting = point.setting
    if setting.figure not in {"figure2", "figure3"}:
        return _MODEL if setting.dataset == HISTOGRAM else _OTHER_DATA
    printed = (setting.figure, setting.algorithm, setting.measure) == ("figure2", ASYMMETRIC, SQUARED_ERROR)
    variant = AS_PRINTED if printed and setting.panel == "epsilon" else AS_CODED
    alike = setting.dataset in {T40_SLIP, KOSARAK_ESTIMATED, BMS_POS} and point.variant == variant
    return _ALIKE if alike else _VARIANT


def _group_key(point: Point) -> tuple[str, ...]:
    setting = point.setting
    return setting.figure, setting.dataset, setting.algorithm, point.variant, setting.measure, find_reason(point)


def find_reason(point: Point) -> str:
    """Return the known reason why a point may deviate from the paper, or "not explained"."""
    return next((why for holds, why in _known_reasons(point) if holds), "not explained")


def _known_reasons(point: Point) -> Iterator[tuple[bool, str]]:
    """Yield whether each possible reason applies to the point, and the reason. The first that applies counts."""
    setting, variant, dataset = point.setting, point.variant, point.setting.dataset
    of_figure_3 = setting.figure == "figure3"
    is_t40 = dataset in {T40_COUNTED, T40_SLIP}
    debiasing = (setting.figure, setting.algorithm, setting.measure) == ("figure2", ASYMMETRIC, SQUARED_ERROR)
    varied, other = ("ε", AS_CODED) if setting.panel == "epsilon" else ("k", AS_PRINTED)
    yield debiasing and variant == other, f"caveat 1: the paper's panel of varying {varied} shows the other variant"
    yield of_figure_3 and variant == AS_PRINTED, "caveat 1: the paper ran the adaptive program"
    beyond = (
        "thresholds are at ranks up to 1,000 of 942 items: the values that the program read beyond the last are unknown"
    )
    yield of_figure_3 and is_t40 and setting.k == _BEYOND, beyond
    yield dataset == T40_COUNTED, "caveat 2: plain counts, without the last items twice"
    yield dataset == KOSARAK_ESTIMATED, "the counts are estimated"
    yield dataset == PEOPLE_FLOW_CELLS, "other data: 400 cells, 1,000 people"
    yield dataset == HISTOGRAM and variant == AS_READ, "all places of each person instead of one"
    yield dataset == HISTOGRAM, "the tail of Figure 1 is unknown"


def summarize_service(points: Sequence[Point]) -> Iterator[str]:
    """Yield a sentence per dataset with the service's largest deviation from the expected ratios."""
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
