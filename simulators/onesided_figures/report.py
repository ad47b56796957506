"""The figures compared with the OSDP paper: for docs/experiments.md, and for the folder of the figures."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.onesided.add_remove.variances import least_epsilon
from simulators.experiments.points import LibraryPoint
from simulators.onesided_figures.histograms import TABLE_2
from simulators.onesided_figures.osdp_figures import (
    Outcome,
)
from simulators.onesided_figures.osdp_statements import (
    SHOWN_VARIANTS,
    Finding,
    Statement,
    compare_statements,
)

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
    """Return a document that compares a run with the OSDP paper. docs/experiments.md explains it."""
    lines = ["# A run and the paper", "", *_render_run(content)]
    if content.outcomes:
        lines += [*_render_shapes(content.histograms), "## The paper's statements", ""]
        lines += [*_render_statements(compare_statements(content.outcomes))]
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
