"""The commands of `python -m simulators`."""

from __future__ import annotations

import os
import time
import zlib
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, Final, NoReturn

import click
from rich.console import Console
from rich.progress import Progress

from monitor.command_options import EXISTING, NEW
from monitor.errors import EXIT_FAILED, MonitorError, TimeError, UsageError
from monitor.operate.convert.command import add_consent_option
from monitor.operate.simulated_town import Town
from monitor.time.instants import DAY, parse_instant, to_datetime
from simulators.bench.run_bench import list_lines, run_bench
from simulators.city import write_city, write_registry
from simulators.experiments.data import DEFAULT_FOLDER, HOW_TO_GET_DATA, PLACES, find_missing, find_note
from simulators.experiments.intervals import Widths, measure_intervals
from simulators.experiments.run_experiments import FIGURES, Options, run_experiments
from simulators.onesided_figures.run_library import SUBJECTS, LibraryOptions, run_library
from simulators.outbreak.run_outbreak import Options as OutbreakOptions
from simulators.outbreak.run_outbreak import run_outbreak
from simulators.synthetic import write_synthetic
from simulators.write_results import write_csv

FOLDER: Final = click.Path(file_okay=False, path_type=Path)
_DATA: Final = click.option(
    "--data",
    type=FOLDER,
    default=DEFAULT_FOLDER,
    show_default=True,
    help="Folder of the data (docs/experiments.md).",
)
_SEED: Final = click.option(
    "--seed", type=click.IntRange(min=0), default=7, show_default=True, help="Same seed, same results."
)


_HELP: Final = """Make files of visits for `location-monitor replay`, run benchmarks, and compute the papers' figures.

A file of visits is CSV (gzipped if its name ends in .gz) with the header
person_id,location_id,arrived_at,left_at,reported_at[,consent] and RFC 3339 times. A registry is CSV with the header
location_id,name,latitude,longitude. A file appears under its name only when it is complete.

\b
A town of 10,000 people, four weeks of reports:
  python -m simulators city --out visits.csv.gz --registry locations.csv
A load, with the visits of all people:
  python -m simulators city --people 200000 --all-visits --out load.csv.gz --registry locations.csv
The figures of the papers, from the data of docs/experiments.md or from synthetic data:
  python -m simulators synthetic --out data
  python -m simulators experiments all --data data --out figures
  python -m simulators library all --data data --out figures
"""


def _instant(_: click.Context, __: click.Parameter, value: str) -> int:
    try:
        return parse_instant(value)
    except TimeError as error:
        raise click.BadParameter(f"{value!r}: {error}") from error


class _Group(click.Group):
    """A group that reports errors as one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except MonitorError as error:
            _fail(ctx, str(error), error.exit_code)
        except (OSError, EOFError, zlib.error) as error:
            _fail(ctx, str(error), EXIT_FAILED)


def _fail(ctx: click.Context, message: str, exit_code: int) -> NoReturn:
    click.echo(f"Error: {message}", err=True)
    ctx.exit(exit_code)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120}, help=_HELP)
def cli() -> None:
    """Make files of visits, run benchmarks, and compute the papers' figures."""


@cli.command()
@click.option("--people", type=click.IntRange(min=1), default=10_000, show_default=True, help="Number of people.")
@click.option("--days", type=click.IntRange(1, 3650), default=28, show_default=True, help="Number of days.")
@_SEED
@click.option(
    "--start",
    callback=_instant,
    metavar="TIME",
    default="2026-01-05T00:00:00Z",
    show_default=True,
    help="Midnight of the first day, with an offset.",
)
@click.option("--locations", type=click.IntRange(min=1), help="Number of public places.  [default: one per 25 people]")
@click.option("--all-visits", is_flag=True, help="Write the visits of all people, reported in the following night.")
@click.option("--out", type=NEW, required=True, help="The file of visits to write.")
@click.option("--registry", type=NEW, required=True, help="The registry to write.")
@add_consent_option
def city(
    people: int,
    days: int,
    seed: int,
    start: int,
    locations: int | None,
    out: Path,
    *,
    all_visits: bool,
    **options: Any,
) -> None:
    """Simulate a town and the reports of its infected people.

    People work and go out. 2.5 % of them are infected and reported, most in the second half of the time, with all
    visits of the 14 days before.
    """
    console, began = Console(stderr=True), time.monotonic()
    places = locations or max(12, people // 25)
    town = Town(seed, people, places, start, days)
    write_registry(options["registry"], places, seed)
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("Simulating", total=days)
        visits, infected = write_city(
            out, town, all_visits=all_visits, on_day=lambda: bar.advance(task), consent=options["consent"]
        )
    console.print(
        f"{out}: {visits:,} visits of {infected:,} of {people:,} people to {places:,} places,"
        f" {to_datetime(start).date()} to {to_datetime(start + days * DAY).date()},"
        f" in {time.monotonic() - began:.1f} s",
        soft_wrap=True,
    )


@cli.command()
@click.option("--out", type=FOLDER, default=DEFAULT_FOLDER, show_default=True, help="Folder for the files.")
@_SEED
def synthetic(out: Path, seed: int) -> None:
    """Write small synthetic files of all data of the experiments, so that every experiment runs without downloads.

    They have the names of the real files, and SYNTHETIC.txt says what they are. The commands repeat it.
    """
    write_synthetic(out, seed)
    click.echo(f"{out}: synthetic files. Figures computed from them say nothing about the papers.", err=True)


@cli.command()
@click.argument("figures", nargs=-1, required=True, type=click.Choice([*FIGURES, "all"]), metavar="figure1…7|all")
@click.option("--out", type=FOLDER, default="figures", show_default=True, help="Folder for CSV files and plots.")
@_DATA
@click.option("--iterations", type=click.IntRange(1), default=10_000, show_default=True, help="Per top-k point.")
@_SEED
@click.option("--processes", type=click.IntRange(1), help="Number of processes.  [default: one per processor]")
@click.option("--service", is_flag=True, help="Run the service too (figure6, figure7), on a real Kafka and Valkey.")
@click.option("--document", type=NEW, help="Write the summary to this page (docs/experiments.md).")
def experiments(figures: tuple[str, ...], processes: int | None, document: Path | None, **options: Any) -> None:
    """Reproduce the figures of "Asymmetric Differential Privacy" as CSV and plots, next to the paper's values.

    If data is missing, its points are left out and a message says so. OUT/experiments.md has the reasons for
    large deviations.
    """
    wanted = tuple(figure for figure in FIGURES if figure in figures or "all" in figures)
    run_experiments(
        Options(
            wanted,
            options["out"],
            options["data"],
            options["iterations"],
            options["seed"],
            processes or os.cpu_count() or 1,
            options["service"],
            document,
        ),
        Console(stderr=True),
    )


@cli.command()
@click.argument("names", nargs=-1, metavar="[NAME…]")
@click.option("--list", "only_list", is_flag=True, help="List the lines with their goals, and exit.")
@click.option("--quick", is_flag=True, help="Measure at a small scale, to test the lines. The figures mean nothing.")
@click.option("--out", type=NEW, help="Write the figures to this file (JSON). It keeps those of lines that do not run.")
@click.option("--document", type=NEW, help="Write the table to this page (docs/scaling.md).")
def bench(names: tuple[str, ...], only_list: bool, quick: bool, out: Path | None, document: Path | None) -> None:  # noqa: FBT001  # click passes options by name
    """Measure the service against its goals on real servers, and next to Flink SQL if Java is installed.

    The exit code is 1 if a line misses its goal. Run it on a machine that does nothing else.
    """
    if only_list:
        list_lines(Console())
        return
    run_bench(names, out, document, Console(stderr=True), quick=quick)


@cli.command()
@click.option("--out", type=NEW, default="intervals.csv", show_default=True, help="The CSV file to write.")
@_DATA
@click.option("--iterations", type=click.IntRange(1), default=100, show_default=True, help="Designated times per row.")
@_SEED
def intervals(out: Path, data: Path, iterations: int, seed: int) -> None:
    """Measure the width of the intervals from lower to upper bounds, by ε and by the share of people who consent.

    If data is missing, its rows are left out and a message says so.
    """
    console = Console(stderr=True)
    if note := find_note(data):
        console.print(note, highlight=False, soft_wrap=True)
    widths: list[Widths] = []
    for place in PLACES:
        if missing := find_missing(data, (place.visits, place.locations)):
            console.print(f"{place.title} is skipped: {' and '.join(missing)} not in {data.name}", highlight=False)
            continue
        widths += measure_intervals(place, place.read(data), iterations, seed)
    if not widths:
        raise UsageError(f"no data: --data is {data}, which lacks the files named above; {HOW_TO_GET_DATA}")
    write_csv(out, [column.name for column in fields(Widths)], map(astuple, widths))
    false, bounds = sum(row.false for row in widths), sum(row.lower_bounds for row in widths)
    console.print(f"{out}: {len(widths)} rows; {bounds:,} lower bounds, {false} false bounds", highlight=False)


@cli.command()
@click.argument("subjects", nargs=-1, required=True, type=click.Choice([*SUBJECTS, "all"]))
@click.option("--out", type=FOLDER, default="figures", show_default=True, help="Folder for CSV files and plots.")
@_DATA
@click.option("--runs", type=click.IntRange(2), default=1_000, show_default=True, help="Per sampled point of sums.")
@_SEED
@click.option("--document", type=NEW, help="Write the summary to this page (docs/experiments.md).")
def library(subjects: tuple[str, ...], out: Path, data: Path, runs: int, seed: int, document: Path | None) -> None:
    """Compute the figures of the library's mechanisms: OSDP on DPBench-1D, subsampling, sums and means.

    If data is missing, its points are left out and a message says so. OUT/library.md has the OSDP paper's statements.
    """
    wanted = tuple(subject for subject in SUBJECTS if subject in subjects or "all" in subjects)
    run_library(LibraryOptions(wanted, out, data, runs, seed, document), Console(stderr=True))


@cli.command()
@click.argument("data", type=EXISTING)
@click.option("--out", type=FOLDER, default="figures", show_default=True, help="Folder for the results and plots.")
@_SEED
@click.option("--service", is_flag=True, help="Run the service too, on a real Kafka and Valkey, and audit it.")
@click.option("--document", type=NEW, help="Write the tables and plots to this page (docs/outbreak.md).")
def outbreak(data: Path, out: Path, seed: int, service: bool, document: Path | None) -> None:  # noqa: FBT001  # by name
    """Hold the service against the exposure events that an agency published, and against other private ways.

    DATA is the CSV file of all published versions of the events (docs/outbreak.md).
    """
    run_outbreak(OutbreakOptions(data, out, seed, service, document), Console(stderr=True))
