"""`python -m simulators library`: compute the figures of the library's mechanisms, draw and write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from monitor.errors import UsageError
from monitor.operate.replay.progress import show_progress
from simulators.experiments.data import HOW_TO_GET_DATA, find_note
from simulators.experiments.plots import make_canvas, require_matplotlib, save
from simulators.experiments.points import LibraryPoint, distinct_values
from simulators.onesided_figures.histograms import FILE, read_histograms
from simulators.onesided_figures.osdp_figures import (
    EPSILONS,
    EXACT,
    PUBLISHED,
    Outcome,
    choose_non_sensitive,
    compute_osdp_points,
    run_dataset,
)
from simulators.onesided_figures.report import LABELS, PICTURED, TITLES, Content, render_summary, render_tables
from simulators.onesided_figures.sum_figures import compute_subsampling_points, compute_sum_points
from simulators.write_results import replace_part, write_csv

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

SAMPLED: Final = ", sampled"
_COLUMNS: Final = 3
_COLOURS: Final = ("#0060a0", "#c04000", "#208040", "#8040a0", "#806000", "#404040", "#00a0a0", "#c060a0")
_LINEAR: Final = ("mean of the values", "Close", "Far", "both policies")
"""The first words of panels whose horizontal axis is linear: means and ratios."""


def draw(title: str, labels: tuple[str, str], points: Sequence[LibraryPoint]) -> Canvas:
    """Draw a figure with a logarithmic vertical axis. `labels`: of the horizontal and the vertical axis."""
    panels = distinct_values([point.panel for point in points])
    columns = min(len(panels), _COLUMNS)
    rows = -(-len(panels) // columns)
    canvas = make_canvas(title, 4.2 * columns, 3.6 * rows)
    series = distinct_values([_name_of(point.series) for point in points])
    colours = {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(series)}
    for place, panel in enumerate(panels, 1):
        axes = canvas.add_subplot(rows, columns, place)
        _draw_panel(axes, [point for point in points if point.panel == panel], colours)
        axes.set_title(panel, fontsize=8)
        if place == 1:
            axes.legend(fontsize=6)
        axes.set_xlabel(labels[0], fontsize=8)
        axes.set_ylabel(labels[1], fontsize=8)
    return canvas


def _draw_panel(axes: Axes, points: Sequence[LibraryPoint], colours: dict[str, str]) -> None:
    for name in distinct_values([point.series for point in points]):
        members = [point for point in points if point.series == name]
        across, values = [point.x for point in members], [point.value for point in members]
        if name.endswith(SAMPLED):
            errors = [point.standard_error or 0.0 for point in members]
            axes.errorbar(across, values, errors, fmt="o", mfc="none", ms=3, c=colours[_name_of(name)])
        else:
            marker, dashes = "." if isinstance(across[0], str) else "", "--" if name.endswith(EXACT) else "-"
            axes.plot(across, values, marker=marker, ls=dashes, c=colours[_name_of(name)], label=name)
    axes.set_yscale("log")
    if not isinstance(points[0].x, str) and not points[0].panel.startswith(_LINEAR):
        axes.set_xscale("log")
        axes.minorticks_off()
    axes.tick_params(labelsize=6)


def _name_of(series: str) -> str:
    """Return the name of a series without the variant, which selects its colour."""
    return series.removesuffix(SAMPLED).removesuffix(f", {EXACT}").removesuffix(f", {PUBLISHED}")


COMMAND: Final = "python -m simulators library"
TABLES: Final = "library.md"
"""The file with all values, in the folder of the figures."""

SUBJECTS: Final = ("osdp", "subsampling", "sums")
COLUMNS: Final = tuple(field.name for field in fields(LibraryPoint))
_DOCUMENT_DOTS_PER_INCH: Final = 75
_LEAST_DRAWS: Final = 20_000


@dataclass(frozen=True, slots=True)
class LibraryOptions:
    """The options of the command. `runs` is the number of sampled values per point; OSDP has its own number."""

    subjects: tuple[str, ...]
    out: Path
    data: Path
    runs: int
    seed: int
    document: Path | None = None


def run_library(options: LibraryOptions, console: Console) -> None:
    """Compute the figures, and write a CSV file and a plot of each, all tables, and the summary of the page.

    Raises:
        UsageError: the data is invalid, or the data of the only subject is missing, or plots cannot be drawn.
    """
    require_matplotlib()
    options.out.mkdir(parents=True, exist_ok=True)
    points: list[LibraryPoint] = []
    outcomes: list[Outcome] = []
    note = _find_note(options)
    histograms = {}
    if "osdp" in options.subjects and (options.data / FILE).is_file():
        histograms = read_histograms(options.data)
        open_counts = choose_non_sensitive(histograms, options.seed)
        with show_progress("OSDP", len(histograms), "datasets", console) as steps:
            for name, counts in histograms.items():
                outcomes += run_dataset(name, counts, open_counts, EPSILONS, options.seed)
                steps.advance()
        points += compute_osdp_points(outcomes)
    if "subsampling" in options.subjects:
        points += compute_subsampling_points(max(20 * options.runs, _LEAST_DRAWS), options.seed)
    if "sums" in options.subjects:
        points += compute_sum_points(options.runs, options.seed)
    by_figure: dict[str, list[LibraryPoint]] = {}
    for point in points:
        by_figure.setdefault(point.figure, []).append(point)
    _write(options, by_figure, console)
    content = Content(_format_command(options), by_figure, outcomes, histograms, note)
    tables = options.out / TABLES
    tables.write_text(render_tables(content), encoding="utf-8")
    if options.document is not None:
        replace_part(options.document, COMMAND, render_summary(content))
    console.print(f"all tables in {tables}", highlight=False)
    if note:
        console.print(note, highlight=False, soft_wrap=True)


def _find_note(options: LibraryOptions) -> str:
    """Return a note if the data of OSDP is missing or synthetic. Raise UsageError if nothing else is wanted."""
    if "osdp" not in options.subjects:
        return ""
    if (options.data / FILE).is_file():
        return find_note(options.data)
    if options.subjects == ("osdp",):
        raise UsageError(f"no data for osdp: --data is {options.data}, which lacks {FILE}; {HOW_TO_GET_DATA}")
    return f"osdp is skipped: {FILE} is not in {options.data.name}"


def _write(options: LibraryOptions, by_figure: dict[str, list[LibraryPoint]], console: Console) -> None:
    """Write a CSV file and a plot of each figure, and the small plots of the page."""
    for figure, points in by_figure.items():
        write_csv(options.out / f"{figure}.csv", COLUMNS, map(astuple, points))
        if figure in TITLES:
            canvas = draw(TITLES[figure], LABELS[figure], points)
            save(canvas, options.out / f"{figure}.png")
            if options.document is not None and figure in PICTURED:
                path = options.document.parent / f"pictures/library-{figure}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                save(canvas, path, _DOCUMENT_DOTS_PER_INCH)
        console.print(f"{figure}: {len(points):,} points in {options.out / figure}.csv", highlight=False)


def _format_command(options: LibraryOptions) -> str:
    named = "all" if options.subjects == SUBJECTS else " ".join(options.subjects)
    return f"{COMMAND} {named} --runs {options.runs} --seed {options.seed}"
