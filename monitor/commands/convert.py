"""`location-monitor convert`: recorded movements as a file of visits."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.progress import Progress

from monitor.commands.options import EXISTING, NEW, read_duration, report_errors
from monitor.errors import FailedError, UsageError
from monitor.tools.convert.conversion import RFC3339, Columns, Conversion, Shape, read_locations, write_registry

_Command = TypeVar("_Command", bound=Callable[..., Any])


def add_consent_option(command: _Command) -> _Command:
    """Add the option --consent, which `python -m simulators city` also has."""
    help_text = "Share of people who consent to lower bounds (0 to 1): adds the column consent."
    return click.option("--consent", type=click.FloatRange(0, 1), metavar="SHARE", help=help_text)(command)


@click.command(short_help="Turn recorded points into a file of visits and a registry.")
@click.option("--visits", type=EXISTING, required=True, help="The recorded points: CSV or .csv.gz with a header.")
@click.option("--out", type=NEW, required=True, help="The file of visits to write.")
@click.option("--locations", type=EXISTING, help="The public places: CSV with location_id[,name][,lat,lon].")
@click.option("--registry", type=NEW, help="The registry to write.")
@click.option("--person-column", default=Columns().person, show_default=True, help="The column of the person's id.")
@click.option("--location-column", default=Columns().location, show_default=True, help="The column of the place's id.")
@click.option("--time-column", default=Columns().time, show_default=True, help="The column of the time.")
@click.option(
    "--time-format", default=RFC3339, show_default=True, help="rfc3339, epoch (seconds), or a strptime pattern with %z."
)
@click.option("--delimiter", default=",", show_default=True, help="Column separator.")
@click.option(
    "--stay",
    callback=read_duration,
    metavar="DURATION",
    help="How long a check-in lasts; without it, the end is left open.",
)
@click.option("--merge", is_flag=True, help="Merge consecutive points of a person at a place into one visit.")
@click.option(
    "--gap",
    callback=read_duration,
    metavar="DURATION",
    default="20m",
    show_default=True,
    help="The longest gap that --merge closes.",
)
@click.option(
    "--report-delay",
    callback=read_duration,
    metavar="DURATION",
    help="Time from the end of a visit to its report.",
)
@click.option("--person-per-day", is_flag=True, help="Treat the same id on another day (UTC) as another person.")
@add_consent_option
@click.option("--strict", is_flag=True, help="Stop at the first bad row: write nothing, exit with 1.")
@report_errors
def convert(**options: Any) -> None:
    """Turn recorded points (person, place, time) into a file of visits and a registry.

    A point is a check-in: a visit that begins at its time and ends after --stay. Without --stay its end is left open,
    and the service applies its default stay. With --merge, points at one place that are at most --gap apart become one
    visit. It ends at the last point plus the gap, or when the person is seen elsewhere. This requires each person's
    points in order of time (a file sorted by time, or by person and time), which is checked. Memory then grows with
    the number of people.

    Invalid rows are counted, reported on standard error with line and reason (at most 20), and left out. If no row is
    valid, the command exits with 1, prints the number of rows by reason, and writes nothing.

    Use a public list of places (--locations) as the registry. Without one the registry contains the places found in
    the data, and its entries reveal where people have been (docs/rules.md, rule 6).
    """
    known = None if options["locations"] is None else read_locations(options["locations"])
    conversion = Conversion(_read_columns(options), _read_shape(options), known)
    source, console = options["visits"], Console(stderr=True)
    with Progress(console=console, transient=True) as bar, _translate_errors():
        task = bar.add_task("Converting", total=source.stat().st_size)
        conversion.run(
            source, options["out"], strict=options["strict"], on_progress=lambda done: bar.update(task, completed=done)
        )
    if options["registry"] is not None:
        seen = {location_id: (location_id, "", "") for location_id in sorted(conversion.seen)}
        write_registry(options["registry"], seen if known is None else known)
    tally = conversion.tally
    for problem in tally.problems:
        console.print(problem, markup=False, highlight=False, soft_wrap=True)
    if tally.bad > len(tally.problems):
        console.print(f"… and {tally.bad - len(tally.problems):,} more")
    console.print(
        f"{options['out']}: {tally.visits:,} visits from {tally.rows:,} rows, {tally.bad:,} bad rows left out",
        soft_wrap=True,
    )


def _read_columns(options: dict[str, Any]) -> Columns:
    delimiter = options["delimiter"].replace("\\t", "\t")
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise UsageError(f"--delimiter is {delimiter!r}: expected one character such as , ; or \\t")
    return Columns(
        options["person_column"], options["location_column"], options["time_column"], delimiter, options["time_format"]
    )


def _read_shape(options: dict[str, Any]) -> Shape:
    if options["merge"] and options["stay"] is not None:
        raise UsageError("--stay and --merge exclude each other: a merged visit ends at its last point + --gap")
    return Shape(
        stay=options["stay"],
        merge_gap=options["gap"] if options["merge"] else None,
        report_delay=options["report_delay"],
        person_per_day=options["person_per_day"],
        consent=options["consent"],
    )


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        raise FailedError(str(error)) from error
