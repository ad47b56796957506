"""The figures as tables: a summary for docs/experiments.md, and all of them for the folder of the figures."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.onesided.add_remove.variances import least_epsilon
from simulators.experiments.points import LibraryPoint, distinct_values
from simulators.onesided_figures.histograms import NAMES, TABLE_2
from simulators.onesided_figures.osdp_figures import (
    AT_EPSILON,
    DAWA,
    EPSILONS,
    EXACT,
    EXTRA,
    EXTRA_PENALTY,
    LAPLACE,
    PUBLISHED,
    Outcome,
    select,
)
from simulators.onesided_figures.osdp_statements import (
    OSDP_ALGORITHMS,
    SHOWN_VARIANTS,
    Finding,
    Statement,
    compare_statements,
)
from simulators.onesided_figures.plots import SAMPLED

TITLES: Final = {
    "osdp-figure6": "Figure 6: regret for MRE by ratio of non-sensitive records, both policies",
    "osdp-figure7": "Figure 7: regret for MRE by ratio, each policy",
    "osdp-figure8": "Figure 8: regret for Rel95 by ratio, each policy",
    "osdp-figure9": "Figure 9: regret for MRE by dataset, Close, ε = 1",
    "osdp-figure10": "Figure 10: regret for MRE of OsdpLaplaceL1 and Suppress",
    "subsampling-regime": "Below how many records the subsampled count is better",
    "subsampling-variance": "Variance of the subsampled count relative to two-sided noise",
    "sums": "Root mean squared error of sums and counts",
    "means": "Root mean squared error of means",
    "gaussian": "Root mean squared error of several sums with Gaussian noise",
}
LABELS: Final = {
    **dict.fromkeys(["osdp-figure6", "osdp-figure7", "osdp-figure8", "osdp-figure10"], ("ratio", "regret")),
    "osdp-figure9": ("", "regret"),
    "subsampling-regime": ("ε", "records n"),
    "subsampling-variance": ("ε", "ratio of variances"),
    **dict.fromkeys(["sums", "means", "gaussian"], ("", "error")),
}
"""The labels of the horizontal and the vertical axis. Panels of sums have theirs in the title."""
_BASELINE_RATIOS: Final = (0.99, 0.25)
PICTURED: Final = ("osdp-figure7", "subsampling-regime")
"""The figures with a plot in docs/experiments.md."""


@dataclass(frozen=True, slots=True)
class Content:
    """All values of a run. Outcomes and histograms are empty if the figures of OSDP are not computed."""

    command: str
    points: Mapping[str, Sequence[LibraryPoint]]
    outcomes: Sequence[Outcome]
    histograms: Mapping[str, NDArray[np.int64]]
    note: str


def render_summary(content: Content) -> str:
    """Return what docs/experiments.md shows of a run: the statements of the OSDP paper, and when sampling is better."""
    lines = [*_render_run(content)]
    if content.outcomes:
        lines += [*_render_statements(compare_statements(content.outcomes))]
    if "subsampling-regime" in content.points:
        found = ", ".join(f"n = {n} from ε = {least_epsilon(n):.3g}" for n in (0, 1, 2, 10, 100))
        lines += textwrap.wrap(f"With real-valued noise, the subsampled count is better for {found}.", 120)
    return "\n".join(lines)


def render_tables(content: Content) -> str:
    """Return a document with all values of a run. docs/experiments.md explains them."""
    lines = ["# The values of a run", "", *_render_run(content)]
    if content.outcomes:
        lines += [*_render_shapes(content.histograms), "## The paper's statements", ""]
        lines += [*_render_statements(compare_statements(content.outcomes))]
        lines += [*_render_baselines(content.outcomes)]
    for figure, points in content.points.items():
        if figure in TITLES:
            lines += [f"## {TITLES[figure]}", ""]
            for panel in distinct_values([point.panel for point in points]):
                lines += _render_panel(panel, [point for point in points if point.panel == panel])
    return "\n".join(lines).rstrip() + "\n"


def _render_run(content: Content) -> Iterator[str]:
    yield from ("```sh", content.command, "```", "")
    if content.note:
        yield from (f"{content.note}.", "")


def _render_shapes(histograms: Mapping[str, NDArray[np.int64]]) -> Iterator[str]:
    yield "## Table 2: the histograms"
    yield ""
    yield "| dataset | empty bins, paper | ours | records, paper | ours |"
    yield "|---|--:|--:|--:|--:|"
    for name, counts in histograms.items():
        printed, empty = TABLE_2[name], float((counts == 0).mean())
        yield f"| {name} | {printed.sparsity:.2f} | {empty:.3f} | {printed.scale:,} | {int(counts.sum()):,} |"
    yield ""


def _render_statements(statements: Sequence[Statement]) -> Iterator[str]:
    """Yield the statements of the OSDP paper, and for each variant our values, and whether they agree."""
    heads = [head for variant in SHOWN_VARIANTS for head in (variant, "agrees")]
    yield f"| place | the paper states | {' | '.join(heads)} |"
    yield "|---|---|" + "---|" * len(heads)
    for each in statements:
        findings = [_render_finding(each.findings.get(variant)) for variant in SHOWN_VARIANTS]
        cells = [cell for finding in findings for cell in finding]
        yield f"| {each.place} | {each.text} | {' | '.join(cells)} |"
    yield ""


def _render_finding(finding: Finding | None) -> tuple[str, str]:
    return ("", "") if finding is None else (finding.values, finding.verdict)


def _render_baselines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield "## DAWA by dataset"
    yield ""
    yield f"The error MRE. *Extra* adds {EXTRA_PENALTY} scales of the noise of a cost to the penalty of a bucket."
    yield ""
    columns = ["published, ε/2", "published, ε", "exact", "exact, extra", "Laplace"]
    columns += [f"OSDP, ratio {ratio:g}" for ratio in _BASELINE_RATIOS]
    yield f"| ε | dataset | {' | '.join(columns)} |"
    yield "|--:|---|" + "--:|" * len(columns)
    for epsilon in EPSILONS:
        for name in NAMES:
            values = _list_baselines(select(outcomes, dataset=name, epsilon=epsilon, policy="Close"))
            yield f"| {float(epsilon):g} | {name} | {' | '.join(f'{value:.3g}' for value in values)} |"
    yield ""


def _list_baselines(outcomes: Sequence[Outcome]) -> Iterator[float]:
    """Yield the errors of one row. DAWA and the Laplace mechanism do not depend on the ratio."""
    published, exact = (
        {o.given.ratio: o.errors for o in select(outcomes, variant=variant)} for variant in (PUBLISHED, EXACT)
    )
    first = _BASELINE_RATIOS[0]
    for errors, name in (
        (published, DAWA),
        (published, AT_EPSILON),
        (exact, DAWA),
        (exact, EXTRA),
        (published, LAPLACE),
    ):
        yield errors[first][name]["MRE"]
    for ratio in _BASELINE_RATIOS:
        yield min(published[ratio][name]["MRE"] for name in OSDP_ALGORITHMS)


def _render_panel(panel: str, points: Sequence[LibraryPoint]) -> Iterator[str]:
    """Yield a table with one row for each x, and one column for each series. Sampled values follow their line's."""
    columns = sorted(distinct_values([point.series for point in points]), key=_order_series)
    cells = {(point.x, point.series): f"{point.value:.3g}" for point in points}
    # A Greek letter is a symbol, which a capital would change.
    yield f"{panel[0].upper() if panel[0].isascii() else panel[0]}{panel[1:]}:"
    yield ""
    yield f"| | {' | '.join(columns)} |"
    yield "|---|" + "--:|" * len(columns)
    for x in distinct_values([point.x for point in points]):
        shown = x if isinstance(x, str) else f"{x:.3g}"
        yield f"| {shown} | {' | '.join(cells.get((x, name), '') for name in columns)} |"
    yield ""


def _order_series(name: str) -> list[str | int]:
    """Return the key that orders series by name, and numbers in names by value: n = 2 is before n = 10."""
    parts = re.split(r"(\d+)", name.removesuffix(SAMPLED))
    return [int(part) if part.isdecimal() else part for part in parts]
