"""`location-monitor convert`: recorded movements, or an export of a case system, as a file of visits."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo

import click
from click.core import ParameterSource
from rich.console import Console
from rich.progress import Progress

from monitor.command_options import EXISTING, NEW, read_duration
from monitor.errors import FailedError, UsageError, escape_controls
from monitor.operate.convert import fhir, geojson, godata, sormas
from monitor.operate.convert.conversion import Conversion, Shape, VisitReader
from monitor.operate.convert.exports import Export, read_export
from monitor.operate.convert.local_times import locate_day
from monitor.operate.convert.points import RFC3339, Columns, TimeColumns, read_points
from monitor.operate.convert.registries import Place, Places, read_place_table, read_places, read_stops, write_registry
from monitor.operate.convert.rows import SHOWN_PROBLEMS, NothingValidError, Stay, Tally

POINTS: Final = "points"
TABLE: Final = "csv"
GTFS: Final = "gtfs"

_LONGEST_RECORD: Final = 2**28  # characters: a tree of places is one record, and all places are in memory anyway

CASES: Final[dict[str, Export[Stay]]] = {"fhir": fhir.EXPOSURES, "sormas": sormas.EXPOSURES, "godata": godata.STAYS}
MAPS: Final[dict[str, Export[Place]]] = {
    "geojson": geojson.FEATURES,
    "fhir": fhir.LOCATIONS,
    "sormas": sormas.FACILITIES,
    "godata": godata.LOCATIONS,
}


def choose_visit_reader(source: str, columns: Columns, zone: ZoneInfo | None) -> VisitReader:
    """Return the reader of a format of visits. `columns` describes points only."""
    if source == POINTS:
        return partial(read_points, columns=columns)
    return partial(read_export, export=CASES[source], zone=zone)


def read_registry(source: str, tally: Tally) -> Places:
    """Read all places of the tally's file. Every row of a table (`csv`) must be valid.

    Raises:
        UsageError: the file has another format, or rows of a table are invalid: the message lists the first ones.
        BadRowError: a row is invalid, and the tally is strict.
    """
    if source in MAPS:
        return read_places(partial(read_export, export=MAPS[source], zone=None), tally, longest=_LONGEST_RECORD)
    if source == GTFS:
        return read_places(read_stops, tally, joins_parts=True)
    tally.strict = False  # so that all problems are listed at once
    places = read_places(read_place_table, tally)
    if tally.bad:
        raise UsageError(tally.list_problems())
    return places


_Command = TypeVar("_Command", bound=Callable[..., Any])

_ONLY_POINTS: Final = (
    "person_column", "location_column", "time_column", "date_column", "end_column", "end_date_column", "time_format",
    "delimiter", "merge", "gap", "person_per_day",
)  # fmt: skip


def add_consent_option(command: _Command) -> _Command:
    """Add the option --consent, which `python -m simulators city` also has."""
    help_text = "Share of people who consent to lower bounds (0 to 1): adds the column consent."
    return click.option("--consent", type=click.FloatRange(0, 1), metavar="SHARE", help=help_text)(command)


def _read_zone(_: click.Context, __: click.Parameter, value: str | None) -> ZoneInfo | None:
    try:
        return None if value is None else ZoneInfo(value)
    except (OSError, ValueError, LookupError):
        raise click.BadParameter(f"{value!r} is not a time zone such as Europe/Berlin or UTC") from None


def _read_day(_: click.Context, __: click.Parameter, value: str | None) -> date | None:
    try:
        return None if value is None else date.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a date such as 2026-11-20") from None


@click.command(short_help="Turn points, or an export of a case system, into visits and a registry.")
@click.option("--visits", type=EXISTING, help="The points or the export, also gzipped (.gz).")
@click.option(
    "--from",
    "source",
    type=click.Choice([POINTS, *CASES]),
    default=POINTS,
    show_default=True,
    help="Format of --visits.",
)
@click.option("--out", type=NEW, help="The file of visits to write.")
@click.option("--locations", type=EXISTING, help="The public places, also gzipped (.gz).")
@click.option(
    "--registry-from", "map_source", type=click.Choice([TABLE, GTFS, *MAPS]), default=TABLE, show_default=True,
    help="Format of --locations; csv has the columns location_id[,name][,lat,lon][,kind].",
)  # fmt: skip
@click.option("--registry", type=NEW, help="The registry to write.")
@click.option("--timezone", "zone", callback=_read_zone, metavar="ZONE", help="The zone of times without an offset.")
@click.option("--person-column", default=Columns().person, show_default=True, help="The column of the person's id.")
@click.option("--location-column", default=Columns().location, show_default=True, help="The column of the place's id.")
@click.option("--time-column", default=Columns().start.time, show_default=True, help="The column of the time.")
@click.option("--date-column", help="The column of the date, if --time-column has only the time of day.")
@click.option("--end-column", help="The column of the time at which the person left; an empty cell leaves it open.")
@click.option("--end-date-column", help="The column of its date, if it is not that of --date-column.")
@click.option(
    "--time-format",
    default=RFC3339,
    show_default=True,
    help="rfc3339, epoch (seconds), or a strptime pattern; of two columns, with a space between date and time.",
)
@click.option("--delimiter", default=",", show_default=True, help="Column separator.")
@click.option(
    "--stay",
    callback=read_duration,
    metavar="DURATION",
    help="How long a visit without an end lasts; without it, the end is left open. Whole days are those of --timezone.",
)
@click.option(
    "--until",
    callback=_read_day,
    metavar="DATE",
    help="The last day (local) of stays that have no end because they go on (godata): usually the day of the export.",
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
@click.option("--strict", is_flag=True, help="Write nothing and exit with 1 if there is a bad row or a warning.")
def convert(**options: Any) -> None:
    """Turn recorded points, or an export of a case system, into a file of visits and a registry.

    A point (CSV: person, place, time) is a check-in: a visit that begins at its time and ends at that of --end-column,
    or after --stay. Without both its end is left open, and the service applies its default stay. A date without a time
    is a visit of the whole day. A time that occurs twice, because the clocks are set back, is both.

    With --merge, points at one place that are at most --gap apart become one visit. It ends at the last point plus the
    gap, or when the person is seen elsewhere. This requires each person's points in order of time (a file sorted by
    time, or by person and time), which is checked. Memory then grows with the number of people.

    An export is a JSON document, or NDJSON if its name ends in .ndjson or .jsonl: exposures at a Location (fhir), cases
    with exposures (sormas), or cases with dateRanges (godata). A time or date without an offset needs --timezone, and
    sormas always. A date stands for the whole local day. A local time that occurs twice stands for both: a visit begins
    at the first and ends at the second.

    Invalid rows are counted, reported on standard error with position and reason (at most 20), and left out. If no row
    is valid, the command exits with 1, prints the number of rows by reason, and writes nothing. A broken quote in CSV
    would hide rows: the command exits with 2, names its line, and writes nothing.

    At the end it prints what to compare with the file: its rows and lines, the days of the visits, the columns that
    were not used, and warnings, such as visits without length or at midnight, and ids that a spreadsheet has changed.

    Use a public list of places (--locations) as the registry. Without one the registry contains the places found in
    the data, and its entries reveal where people have been (docs/rules.md, rule 6). Without --visits only the registry
    is written.
    """
    _check_options(options)
    console = Console(stderr=True)
    try:
        places = None if options["locations"] is None else _read_places(options, console)
        if options["visits"] is not None:
            places = _convert_visits(options, places, console)
        if options["registry"] is not None and places is not None:
            write_registry(options["registry"], places)
    except (OSError, EOFError, zlib.error) as error:
        raise FailedError(str(error)) from error


def _check_options(options: dict[str, Any]) -> None:
    """Raise UsageError if options are missing or exclude each other."""
    _check_files(options)
    if (options["visits"] is None) != (options["out"] is None):
        raise UsageError("--visits and --out need each other: name the file to read and the one to write")
    if options["visits"] is None and (options["locations"] is None or options["registry"] is None):
        raise UsageError("nothing to write: give --visits and --out, or --locations and --registry, or all four")
    if options["source"] != POINTS:
        source_of = click.get_current_context().get_parameter_source
        given = [name for name in _ONLY_POINTS if source_of(name) is ParameterSource.COMMANDLINE]
        if given:
            names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            raise UsageError(f"{names}: only for points, not with --from {options['source']}: remove it")


def _check_files(options: dict[str, Any]) -> None:
    """Raise UsageError if a file to write is another file of the command: its content would be lost."""
    for written in ("out", "registry"):
        for other in ("visits", "locations", "out"):
            if other != written and _is_same(options[written], options[other]):
                raise UsageError(
                    f"--{written} is the file of --{other}, {options[other]}: expected another one, because it would "
                    "be replaced"
                )


def _is_same(first: Path | None, second: Path | None) -> bool:
    if first is None or second is None:
        return False
    return first.samefile(second) if first.exists() and second.exists() else first.resolve() == second.resolve()


def _read_places(options: dict[str, Any], console: Console) -> Places:
    tally = Tally(options["locations"], options["strict"])
    places = read_registry(options["map_source"], tally)
    if not places.rows and options["visits"] is None:
        raise NothingValidError(tally.explain_none("place"))
    if options["map_source"] != TABLE or options["visits"] is None:
        _report(console, tally, options["locations"], "places")
    return places


def _convert_visits(options: dict[str, Any], places: Places | None, console: Console) -> Places:
    reader = choose_visit_reader(options["source"], _read_columns(options), options["zone"])
    conversion = Conversion(reader, _read_shape(options), places)
    source = options["visits"]
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("Converting", total=source.stat().st_size)
        conversion.run(
            source, options["out"], strict=options["strict"], on_progress=lambda done: bar.update(task, completed=done)
        )
    _report(console, conversion.tally, options["out"], "visits")
    _report_content(console, conversion.tally, has_end=options["end_column"] is not None)
    return conversion.list_places()


def _report(console: Console, tally: Tally, path: Path, what: str) -> None:
    for problem in tally.problems:
        console.print(problem, markup=False, highlight=False, soft_wrap=True)
    if tally.bad > len(tally.problems):
        console.print(f"… and {tally.bad - len(tally.problems):,} more")
    passed = f", {tally.passed:,} with nothing to convert" if tally.passed else ""
    console.print(
        f"{path}: {tally.written:,} {what} from {tally.rows:,} rows, {tally.bad:,} bad rows left out{passed}",
        soft_wrap=True,
    )


def _report_content(console: Console, tally: Tally, *, has_end: bool) -> None:
    """Print what to compare with the file, and warnings."""
    lines = ["; ".join(tally.notes)]
    if tally.unused:
        hint = "" if has_end else " (if one has the end of a visit, name it with --end-column)"
        more = f" and {len(tally.unused) - SHOWN_PROBLEMS} more" if len(tally.unused) > SHOWN_PROBLEMS else ""
        lines.append(f"columns not used: {', '.join(tally.unused[:SHOWN_PROBLEMS])}{more}{hint}")
    for line in [*lines, *(f"warning: {warning}" for warning in tally.warnings)]:
        console.print(escape_controls(line), markup=False, highlight=False, soft_wrap=True)


def _read_columns(options: dict[str, Any]) -> Columns:
    delimiter = options["delimiter"].replace("\\t", "\t")
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise UsageError(f"--delimiter is {delimiter!r}: expected one character such as , ; or \\t")
    return Columns(
        options["person_column"],
        options["location_column"],
        TimeColumns(options["time_column"], options["date_column"] or ""),
        _read_end_columns(options),
        delimiter,
        options["time_format"],
        options["zone"],
    )


def _read_end_columns(options: dict[str, Any]) -> TimeColumns | None:
    if options["end_column"] is None:
        if options["end_date_column"] is not None:
            raise UsageError(
                "--end-date-column needs --end-column: name the column of the time at which the person left"
            )
        return None
    if options["merge"]:
        raise UsageError("--end-column and --merge exclude each other: a point that is merged has no end of its own")
    return TimeColumns(options["end_column"], options["end_date_column"] or options["date_column"] or "")


def _read_shape(options: dict[str, Any]) -> Shape:
    if options["merge"] and options["stay"] is not None:
        raise UsageError("--stay and --merge exclude each other: a merged visit ends at its last point + --gap")
    return Shape(
        stay=options["stay"],
        until=_read_until(options),
        merge_gap=options["gap"] if options["merge"] else None,
        report_delay=options["report_delay"],
        person_per_day=options["person_per_day"],
        consent=options["consent"],
        zone=options["zone"],
    )


def _read_until(options: dict[str, Any]) -> int | None:
    """Return the instant at which the day of --until ends."""
    day, zone = options["until"], options["zone"]
    if day is None:
        return None
    if options["source"] != "godata" or zone is None:
        raise UsageError(f"--until is {day}: expected with --from godata and --timezone, the zone of its days")
    return locate_day(day, zone).latest
