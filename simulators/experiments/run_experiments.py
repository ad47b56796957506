"""`python -m simulators experiments`: compute the selected figures and write them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from monitor.errors import SelectionError, UsageError
from monitor.operate.replay.progress import show_progress
from simulators.experiments.data import CATALOGUES, HOW_TO_GET_DATA, PLACES, Catalogue, Place, find_missing, find_note
from simulators.experiments.location_figures import (
    compute_figure_1_points,
    compute_figure_4_points,
    compute_figure_5_points,
    compute_ratio_points,
    draw_figure_5_maps,
    make_histogram_populations,
    make_recorded_population,
)
from simulators.experiments.on_service import compute_service_points
from simulators.experiments.plots import draw, draw_maps, require_matplotlib, save
from simulators.experiments.points import NOISY_MAX_KS, Figure, Point, write_points
from simulators.experiments.report import RunInfo, render_summary, render_tables, summarize_service
from simulators.experiments.top_k import Job, make_jobs, run_all
from simulators.write_results import replace_part

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

FIGURES: Final[tuple[Figure, ...]] = ("figure1", "figure2", "figure3", "figure4", "figure5", "figure6", "figure7")
TOP_K_FIGURES: Final[tuple[Figure, ...]] = ("figure2", "figure3")
BY_SERVICE_FIGURES: Final = frozenset({"figure6", "figure7"})
COMMAND: Final = "python -m simulators experiments"
TABLES: Final = "experiments.md"
"""The file with all values, in the folder of the figures."""

PICTURED: Final = ("figure2", "figure6")
"""The figures with a plot in docs/experiments.md."""

_FEWEST_ITEMS: Final = max(NOISY_MAX_KS) + 2
"""The noisy max leaves out an id, and its baseline needs one item more than k."""

_SERVICE_RUNS: Final = 20
_DOCUMENT_DOTS_PER_INCH: Final = 70


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command."""

    figures: tuple[Figure, ...]
    out: Path
    data: Path
    iterations: int
    seed: int
    processes: int
    by_service: bool = False
    """Also run the service."""
    document: Path | None = None
    """A page for the summary."""


@dataclass(slots=True)
class Results:
    """The points and plots by figure, and notes on the data: a message per skipped dataset, or that it is synthetic."""

    points: dict[Figure, list[Point]] = field(default_factory=dict)
    plots: dict[Figure, Canvas] = field(default_factory=dict)
    items: dict[str, int] = field(default_factory=dict)
    """The number of items that occur, by the paper's name of the data set."""

    notes: list[str] = field(default_factory=list)

    def add(self, figure: Figure, points: Iterator[Point]) -> None:
        """Add points of a figure."""
        self.points.setdefault(figure, []).extend(points)


def run_experiments(options: Options, console: Console) -> Results:
    """Compute the figures and write them. Progress goes to the console.

    Raises:
        UsageError: data is invalid, no selected figure has data, `by_service` does not apply, or plots cannot be drawn.
        SelectionError: a file has fewer items than a figure needs.
        EmbeddedError, FailedError: the service could not be run.
    """
    began = time.monotonic()
    require_matplotlib()
    if options.by_service and not BY_SERVICE_FIGURES.intersection(options.figures):
        raise UsageError("--service applies to figure6 and figure7: add one of them, or all")
    options.out.mkdir(parents=True, exist_ok=True)
    results = Results(notes=[note] if (note := find_note(options.data)) else [])
    _run_top_k(options, results, console)
    _run_locations(options, results, console)
    for line in results.notes:
        console.print(line, highlight=False, soft_wrap=True)
    if not results.points:
        raise UsageError(
            f"no data for {', '.join(options.figures)}: --data is {options.data}, which lacks the files named above; "
            f"{HOW_TO_GET_DATA}"
        )
    _write(options, results, time.monotonic() - began, console)
    return results


def _skip_if_missing(what: str, files: tuple[str, ...], options: Options, results: Results) -> bool:
    """Return whether files are missing, and if so add a message to the results."""
    lacking = find_missing(options.data, files)
    if lacking:
        results.notes.append(f"{what} is skipped: {' and '.join(lacking)} not in {options.data.name}")
    return bool(lacking)


def _run_top_k(options: Options, results: Results, console: Console) -> None:
    wanted = [figure for figure in options.figures if figure in TOP_K_FIGURES]
    if not wanted:
        return
    todo: list[Job] = []
    for catalogue in CATALOGUES:
        if not _skip_if_missing(catalogue.title, (catalogue.file,), options, results):
            todo += _make_jobs(catalogue, wanted, options, results)
    found: dict[int, tuple[Point, Point]] = {}
    with show_progress("Top-k", len(todo), "points", console) as steps:
        for place, points in run_all(todo, options.processes):
            found[place] = points
            steps.advance()
    for place in sorted(found):
        results.add(todo[place].setting.figure, iter(found[place]))


def _make_jobs(catalogue: Catalogue, wanted: Sequence[Figure], options: Options, results: Results) -> Iterator[Job]:
    items = catalogue.read(options.data)
    if items.seen.size < _FEWEST_ITEMS:
        raise SelectionError(
            f"{options.data / catalogue.file} has {items.seen.size} items with a count above 0: expected at least "
            f"{_FEWEST_ITEMS}, for k up to {max(NOISY_MAX_KS)}."
        )
    results.items[catalogue.paper_dataset] = int(items.seen.size)
    for figure in wanted:
        yield from make_jobs(figure, catalogue, items, options.iterations, options.seed)


def _run_locations(options: Options, results: Results, console: Console) -> None:
    wanted = [figure for figure in options.figures if figure not in TOP_K_FIGURES]
    if not wanted:
        return
    there = [
        place
        for place in PLACES
        if not _skip_if_missing(place.title, (place.visits, place.locations), options, results)
    ]
    with show_progress("Locations", 1 + len(there), "datasets", console) as steps:
        _add_without_data(wanted, options, results)
        steps.advance()
        for place in there:
            _add_place(place, wanted, options, results)
            steps.advance()
    if options.by_service:
        for place in there:
            _add_service(place, options, results, console)


def _add_without_data(wanted: Sequence[Figure], options: Options, results: Results) -> None:
    if "figure4" in wanted:
        results.add("figure4", compute_figure_4_points(options.iterations, options.seed))
    for figure in wanted:
        for shown in make_histogram_populations() if figure in BY_SERVICE_FIGURES else ():
            results.add(figure, compute_ratio_points(figure, shown, options.iterations, options.seed))


def _add_place(place: Place, wanted: Sequence[Figure], options: Options, results: Results) -> None:
    movements = place.read(options.data)
    if "figure1" in wanted:
        results.add("figure1", compute_figure_1_points(place, movements, options.iterations, options.seed))
    if "figure5" in wanted and place.compared:
        maps = draw_figure_5_maps(movements, options.seed)
        results.add("figure5", compute_figure_5_points(place, maps))
        results.plots["figure5"] = draw_maps(place, movements, maps)
    for figure in wanted:
        if figure in BY_SERVICE_FIGURES:
            shown = make_recorded_population(place, movements)
            results.add(figure, compute_ratio_points(figure, shown, options.iterations, options.seed))


def _add_service(place: Place, options: Options, results: Results, console: Console) -> None:
    for point in compute_service_points(place, place.read(options.data), _SERVICE_RUNS, options.seed, console):
        if point.setting.figure in options.figures:
            results.add(point.setting.figure, iter((point,)))


def _write(options: Options, results: Results, seconds: float, console: Console) -> None:
    for figure, points in results.points.items():
        write_points(options.out / f"{figure}.csv", points)
        canvas = (
            results.plots.setdefault(figure, draw(figure, points)) if figure != "figure5" else results.plots[figure]
        )
        save(canvas, options.out / f"{figure}.png")
        console.print(f"{figure}: {len(points):,} points in {options.out / figure}.csv and .png", highlight=False)
    points = [point for figure in FIGURES for point in results.points.get(figure, ())]
    for line in summarize_service(points):
        console.print(line, highlight=False, soft_wrap=True)
    made = RunInfo(_format_command(options), seconds, measure_processor_seconds(), tuple(results.notes), results.items)
    tables = options.out / TABLES
    tables.write_text(render_tables(points, made), encoding="utf-8")
    if options.document is not None:
        replace_part(options.document, COMMAND, render_summary(points, made))
        _save_pictures(options.document.parent / "pictures", results)
    console.print(f"{len(points):,} points in {seconds:,.0f} s, all in {tables}", highlight=False)


def _save_pictures(folder: Path, results: Results) -> None:
    """Write small plots for the page."""
    folder.mkdir(parents=True, exist_ok=True)
    for figure, canvas in results.plots.items():
        if figure in PICTURED:
            save(canvas, folder / f"experiments-{figure}.png", _DOCUMENT_DOTS_PER_INCH)


def _format_command(options: Options) -> str:
    named = "all" if options.figures == FIGURES else " ".join(options.figures)
    service = " --service" if options.by_service else ""
    return f"{COMMAND} {named}{service} --iterations {options.iterations} --seed {options.seed}"


def measure_processor_seconds() -> float:
    """Return the processor time of this process and of its finished children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
