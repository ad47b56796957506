"""`location-monitor dead-letters`: refused visits, shown, exported for correction, and sent again."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from monitor.command_line import EXISTING, add_config_option
from monitor.errors import EXIT_DONE, EXIT_FAILED, DurationError, TimeError, UsageError
from monitor.observe.logs import set_up_logging
from monitor.operate.dead_letters.letters import Filter, read_letters, summarize
from monitor.operate.dead_letters.render import render, to_json
from monitor.operate.dead_letters.resend import explain_counting, export_letters, plan_resending, send
from monitor.records.visits import Reason
from monitor.service.load_settings import load_settings
from monitor.service.wiring import Settings
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
    settings, clock = load_settings(config_file, bytes(16)), SystemClock()
    if resend is not None:
        sys.exit(_send_again(settings, resend, clock, dry_run=dry_run))
    topic = settings.config.kafka.topics.dead_letters
    letters = read_letters(settings.kafka, topic, Filter(frozenset(map(Reason, reasons)), _read_since(since, clock)))
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


def _send_again(settings: Settings, path: Path, clock: Clock, *, dry_run: bool) -> int:
    """Send the visits of a file to the input topic, or with `dry_run` print what would be sent.

    Return the exit code: 1 if a visit of the file is not sent, because the service would refuse it or not count it.
    """
    parameters, topic = settings.parameters, settings.config.kafka.topics.visits
    plan = plan_resending(parameters, path, clock.now())
    for sentence in plan.explain_left_out():
        click.echo(sentence)
    if plan.has_refused:
        click.echo("Correct the refused lines and send the file again: a visit that was sent twice counts once.")
    amount = f"{plan.visits} of {plan.visits + plan.count_left_out()} visits"
    if dry_run:
        click.echo(f"{amount} would be sent to {topic}.")
    elif not plan.records:
        click.echo("Nothing to send.")
    else:
        stamp = send(settings.kafka, topic, plan)
        click.echo(f"{amount} were sent to {topic}.")
        click.echo(explain_counting(stamp, parameters))
    return EXIT_FAILED if plan.left_out else EXIT_DONE
