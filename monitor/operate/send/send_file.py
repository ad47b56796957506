"""Check a file of visits, say what would not be sent, and send the others."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from monitor.errors import EXIT_DONE, EXIT_FAILED, UsageError, escape_controls
from monitor.kinds.parameters import Parameters
from monitor.operate.replay.progress import show_progress
from monitor.operate.send.judge import Judged, Survey, judge_visits
from monitor.operate.send.sender import Target, send_visits
from monitor.operate.send.visits_file import read_visits
from monitor.stop_signals import stop_on_signals
from monitor.time.clock import Clock
from monitor.time.instants import format_instant

_MERGED: Final = (
    'Nothing is sent: if several people have one id, "safe" may be false. Correct the ids, or send them as they are '
    "with --despite-warnings."
)


@dataclass(frozen=True, slots=True)
class SendOptions:
    """What to do with a file. `first_line`: visits that begin before it are left out, because Kafka has them."""

    first_line: int = 1
    dry_run: bool = False
    despite_warnings: bool = False


def send_file(target: Target, parameters: Parameters, clock: Clock, options: SendOptions) -> int:
    """Send the visits of a file, or with `dry_run` print what would be sent.

    Return the exit code: 1 if a visit is not sent, because the service would refuse it or not count it, or because the
    ids of people look as if a spreadsheet has changed them.

    Raises:
        UsageError: the file cannot be read, or has no visit from the first line on.
        TopicError, UnreachableError: the visits cannot be sent.
        SendError: a signal stopped the command.
    """
    if not options.dry_run:
        target.require_topic()
    now, stderr = clock.now(), Console(stderr=True)

    def judge() -> Iterator[Judged]:
        visits = (visit for visit in read_visits(target.path) if visit.line >= options.first_line)
        return judge_visits(parameters, visits, now)

    survey = _survey(target.path, judge(), stderr)
    if options.first_line > 1 and not survey.total:
        raise UsageError(
            f"--resume {options.first_line}: {target.path} has no visit in this line or later: nothing is left to send"
        )
    _print_findings(survey)
    amount = f"{survey.visits} of {survey.total} visits"
    if survey.plausibility.may_merge_people() and not options.despite_warnings:
        click.echo(_MERGED)
        return EXIT_FAILED
    if options.dry_run:
        click.echo(f"{amount} would be sent to {target.topic}. Sent now, {_name_tick(now, parameters)}")
    elif not survey.visits:
        click.echo("Nothing to send.")
    else:
        stamp = _send(target, judge(), survey, clock, stderr)
        click.echo(f"{amount} were sent to {target.topic}.")
        click.echo(_explain_counting(stamp, parameters))
    return EXIT_FAILED if survey.left_out else EXIT_DONE


def _survey(path: Path, portions: Iterable[Judged], stderr: Console) -> Survey:
    """Read the whole file before any of its visits is sent."""
    survey = Survey()
    with show_progress(f"Reading {escape_controls(path.name)}", None, "visits", stderr) as steps:
        for judged in portions:
            survey.add(judged)
            steps.advance(len(judged.visits))
    return survey


def _print_findings(survey: Survey) -> None:
    for warning in survey.plausibility.find_warnings():
        click.echo(f"warning: {warning}")
    for sentence in survey.explain_left_out():
        click.echo(sentence)
    if survey.has_refused:
        click.echo("Correct the refused lines and send the file again: a visit that was sent twice counts once.")


def _send(target: Target, portions: Iterable[Judged], survey: Survey, clock: Clock, stderr: Console) -> int:
    """Send the visits of a file, and return the last timestamp of their records, an instant."""
    stop, line, stamp = threading.Event(), 0, 0
    with (
        show_progress(f"Sending {escape_controls(target.path.name)}", survey.last_line, "lines", stderr) as steps,
        stop_on_signals(stop, lambda text: click.echo(text, err=True)),
    ):
        for progress in send_visits(target, portions, clock, stop):
            steps.advance(progress.line - line)
            line, stamp = progress.line, progress.timestamp
    return stamp


def _explain_counting(stamp: int, parameters: Parameters) -> str:
    """Return a sentence about the first tick that counts visits whose last record has this timestamp (an instant)."""
    return f"The last one has the timestamp {format_instant(stamp)}, so {_name_tick(stamp, parameters)}"


def _name_tick(stamp: int, parameters: Parameters) -> str:
    as_of = parameters.grid.as_of(parameters.grid.find_slot(stamp))
    return f"they count from the tick at {format_instant(as_of)} on. Earlier answers are not revised."
