"""`location-monitor dead-letters`: refused visits, shown, exported for correction, and sent again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
from rich.console import Console

from monitor.command_options import EXISTING, add_config_option
from monitor.config.valid_config import load_valid_config
from monitor.errors import DurationError, TimeError, UsageError
from monitor.kafka.connections import build_kafka_connections
from monitor.observe.logs import set_up_logging
from monitor.operate.dead_letters.export_to_send_again import export_letters
from monitor.operate.dead_letters.read_letters import read_letters, summarize
from monitor.operate.dead_letters.render import render, to_json
from monitor.operate.send.send_file import Target, send_file
from monitor.records.visit_contract import Reason
from monitor.time.clock import Clock, SystemClock
from monitor.time.instants import parse_duration, parse_instant


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
