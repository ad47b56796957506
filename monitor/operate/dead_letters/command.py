"""`location-monitor dead-letters`: refused visits, shown, exported for correction, and sent again.

Values name people, so only an export has them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from monitor.command_options import EXISTING, add_config_option
from monitor.config.valid_config import load_valid_config
from monitor.errors import DurationError, TimeError, UsageError, escape_controls
from monitor.kafka.connections import build_kafka_connections
from monitor.new_files import create_file
from monitor.observe.logs import set_up_logging
from monitor.operate.dead_letters.read_letters import Letter, ReasonCount, Summary, read_letters, summarize
from monitor.operate.send.send_file import Target, send_file
from monitor.records.dead_letter_record import DeadLetterHeaders
from monitor.records.visit_contract import Fault, Reason, open_record
from monitor.time.clock import Clock, SystemClock
from monitor.time.instants import SECOND, format_instant, parse_duration, parse_instant


@click.command("dead-letters")
@add_config_option
@click.option(
    "--reason",
    "reasons",
    multiple=True,
    type=click.Choice([reason.value for reason in Reason]),
    help="Only this reason; repeatable.",
)
@click.option("--since", help="Only since this time (RFC 3339), or within this duration before now, such as 2h.")
@click.option("--latest", type=click.IntRange(0), default=20, show_default=True, help="How many to list.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--export", type=click.Path(path_type=Path), help="Write them to a new file, for correction.")
@click.option("--resend", type=EXISTING, help="Send the corrected visits of an exported file to the input topic.")
@click.option("--dry-run", is_flag=True, help="With --resend: check the file and send nothing.")
def dead_letters(
    config_file: Path,
    *,
    reasons: tuple[str, ...],
    since: str | None,
    latest: int,
    as_json: bool,
    export: Path | None,
    resend: Path | None,
    dry_run: bool,
) -> None:
    """Show refused visits by reason, or send corrected ones again.

    Values are never shown, because they name people. A visit that is sent again counts like a visit that is reported
    now: from the next tick on, and only if a window or horizon still contains it.
    """
    set_up_logging(30)
    if (export is not None and resend is not None) or (dry_run and resend is None):
        raise UsageError("--export and --resend exclude each other, and --dry-run requires --resend")
    valid, clock = load_valid_config(config_file, os.environ), SystemClock()
    config = valid.config
    kafka, topics = build_kafka_connections(config.kafka, config.service.name), config.kafka.topics
    if resend is not None:
        target = Target(kafka, topics.visits, resend)
        sys.exit(send_file(target, valid.parameters, clock, dry_run=dry_run))
    topic = topics.dead_letters
    letters = read_letters(kafka, topic, frozenset(map(Reason, reasons)), _read_since(since, clock))
    if export is not None:
        written = export_letters(letters, export)
        click.echo(
            f"{written} dead letters in {export}. The file names people: correct it, send it with --resend, and delete "
            "it."
        )
        return
    summary, console = summarize(topic, letters, latest), Console()
    if as_json:
        console.print(to_json(summary), markup=False, highlight=False, soft_wrap=True)
    else:
        render(summary, console)


def _read_since(text: str | None, clock: Clock) -> int | None:
    """Return an instant. Raise UsageError if the text is neither a time nor a duration."""
    if text is None:
        return None
    try:
        return clock.now() - parse_duration(text)
    except DurationError:
        pass
    try:
        return parse_instant(text)
    except TimeError as error:
        raise UsageError(f"--since {text}: expected a duration such as 2h, or a time: {error}") from error


def to_json(summary: Summary) -> str:
    """Return a summary as a JSON object. Times are RFC 3339 in UTC."""
    tree = {
        "topic": summary.topic,
        "reasons": {reason.value: _count(count) for reason, count in summary.reasons.items()},
        "foreign": _count(summary.foreign),
        "latest": [{"topic": summary.topic, **describe(letter)} for letter in summary.latest],
    }
    return json.dumps(tree, indent=2)  # ASCII: a header may contain characters that control a terminal


def _count(count: ReasonCount) -> Mapping[str, Any]:
    span = {"first": format_instant(count.first), "last": format_instant(count.last)} if count.letters else {}
    return {"dead_letters": count.letters, "refused": count.refused, **span}


def describe(letter: Letter) -> dict[str, Any]:
    """Return what may be shown of a dead letter: its position and time, and its headers."""
    place: dict[str, Any] = {"partition": letter.partition, "offset": letter.offset, "time": format_instant(letter.at)}
    headers = letter.headers
    if headers is None:
        return place
    return place | {
        "reason": headers.reason.value,
        "error": headers.error,
        "count": int(headers.count),
        "truncated": "truncated" in headers.model_fields_set,
        "origin": {
            "topic": headers.topic,
            "partition": int(headers.partition),
            "offset": int(headers.offset),
            "index": int(headers.index) if headers.index.isdecimal() else None,
        },
    }


def render(summary: Summary, console: Console) -> None:
    """Print the counts by reason, then the latest dead letters with their positions."""
    total = sum(count.letters for count in summary.reasons.values())
    console.print(f"{summary.topic}: {total} dead letters", markup=False, highlight=False)
    for line in _format_table(summary):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if summary.foreign.letters:
        text = f"{summary.foreign.letters} records are not dead letters of this service: they lack its headers."
        console.print(text, markup=False, highlight=False)
    shown = [(letter, letter.headers) for letter in summary.latest if letter.headers is not None]
    if shown:
        console.print(f"\nThe latest {len(shown)}, with the record that each comes from:", highlight=False)
        for letter, headers in shown:
            line = f"  {_to_second(letter.at)} {summary.topic}-{letter.partition}@{letter.offset}"
            console.print(f"{line} {_describe(headers)}", markup=False, highlight=False, soft_wrap=True)


def _describe(headers: DeadLetterHeaders) -> str:
    visit = "" if headers.index == "-" else f" visit {headers.index}"
    several = "" if headers.count == "1" else f" ({headers.count} refused)"
    origin = f"{headers.topic}-{headers.partition}@{headers.offset}{visit}"
    return escape_controls(f"from {origin}{several}: {headers.reason.value}: {headers.error}")


def _format_table(summary: Summary) -> Iterator[str]:
    """Yield a table, one line per reason. Lines are not wrapped, so that programs can read them."""
    if not summary.reasons:
        return
    heads = ("reason", "dead letters", "refused", "first", "last")
    rows = [
        (reason.value, str(count.letters), str(count.refused), _to_second(count.first), _to_second(count.last))
        for reason, count in summary.reasons.items()
    ]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _to_second(instant: int) -> str:
    return format_instant(instant // SECOND * SECOND)


def export_letters(letters: Iterable[Letter], path: Path) -> int:
    """Write one line of JSON per dead letter, and return their number. Records of other programs are left out.

    Each line is a batch of visits: `visits` has the refused visits. If they cannot be read,
    `visits` is empty, and `value` has the text of the refused record. `dead_letter` describes the dead letter. The file
    names people, so only its owner may read it.

    Raises:
        UsageError: the file exists, or cannot be created.
    """
    with ExitStack() as stack:
        try:
            file = stack.enter_context(create_file(path))
        except FileExistsError as error:
            raise UsageError(f"--export {path}: the file exists: give the name of a new file") from error
        except OSError as error:
            raise UsageError(f"--export {path}: the file cannot be created: {error.strerror}") from error
        written = 0
        for letter in letters:
            if letter.headers is not None:
                file.write(f"{json.dumps(_to_line(letter), ensure_ascii=False)}\n".encode())
                written += 1
    return written


def _to_line(letter: Letter) -> dict[str, Any]:
    visits = open_record(letter.value)
    line: dict[str, Any] = {"dead_letter": describe(letter)}
    if isinstance(visits, Fault):
        return line | {"value": letter.value.decode("utf-8", "backslashreplace"), "visits": []}
    return line | {"visits": visits}
