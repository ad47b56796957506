"""`python -m simulators library`: compute the figures of the library's mechanisms and write them."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Final

from rich.console import Console

from monitor.errors import UsageError
from monitor.operate.replay.progress import show_progress
from simulators.experiments.data import HOW_TO_GET_DATA, find_note
from simulators.experiments.plots import require_matplotlib, save
from simulators.experiments.points import LibraryPoint
from simulators.onesided_figures.histograms import FILE, read_histograms
from simulators.onesided_figures.noise_figures import compute_subsampling_points
from simulators.onesided_figures.osdp_figures import (
    EPSILONS,
    Outcome,
    choose_non_sensitive,
    compute_osdp_points,
    run_dataset,
)
from simulators.onesided_figures.plots import draw
from simulators.onesided_figures.report import LABELS, PICTURED, TITLES, Content, render_summary, render_tables
from simulators.onesided_figures.sum_figures import compute_sum_points
from simulators.write_results import replace_part, write_csv

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
