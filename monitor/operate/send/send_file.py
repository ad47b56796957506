"""Check a file of visits, say what would not be sent, and send the others in portions.

Each portion is in Kafka before the next one is sent.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple

import click
from kafka.errors import KafkaError
from rich.console import Console

from monitor.errors import EXIT_DONE, EXIT_FAILED, SendError, TopicError, UnreachableError, UsageError, escape_controls
from monitor.kafka.bulk_producer import BulkProducer
from monitor.kafka.connections import KafkaConnections
from monitor.kafka.topics import find_topics
from monitor.kinds.parameters import Parameters
from monitor.operate.replay.progress import show_progress
from monitor.operate.send.judge import RECORD_VISITS, Judged, Survey, join_visits, judge_visits
from monitor.operate.send.visits_file import FileVisit, read_visits
from monitor.stop_signals import stop_on_signals
from monitor.time.clock import Clock
from monitor.time.instants import MILLISECOND, format_instant

CLOSE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Target:
    """The input topic, and the file for messages that say how to send its rest."""

    connections: KafkaConnections
    topic: str
    path: Path

    def require_topic(self) -> None:
        """Check that the topic exists.

        Raises:
            TopicError: it does not.
            UnreachableError: Kafka cannot be used, or the user may not write to the topic.
        """
        with self.connections.open_admin() as admin:
            if not find_topics(admin, [self.topic], "Write"):
                raise TopicError(
                    f"kafka.topics.visits is {self.topic!r}: there is no such topic, so nothing was sent; create "
                    "it with `location-monitor topics --create`, or correct kafka.topics.visits or "
                    "kafka.bootstrap_servers"
                )

    def explain_position(self, sent: int, line: int) -> str:
        """Return how far the file was sent: the visits that Kafka has, and the first line that it may lack."""
        if not sent:
            return "No visit is known to be in Kafka. Send the file again: a visit that arrives twice counts once"
        return (
            f"Kafka has the {sent:,} visits before line {line}, and may have later ones. Send the rest with "
            f"`location-monitor send {self.path} --resume {line}`: a visit that arrives twice counts once"
        )


class Progress(NamedTuple):
    """How far a file was sent: the number of visits and the last line that Kafka has, and their last timestamp.

    `timestamp`: an instant.
    """

    visits: int
    line: int
    timestamp: int


def send_visits(target: Target, portions: Iterable[Judged], clock: Clock, stop: threading.Event) -> Iterator[Progress]:
    """Send the visits that are not left out, and yield the progress after each portion.

    Raises:
        UnreachableError: Kafka does not accept a record.
        SendError: `stop` is set.
    """
    sent = stamp = 0
    with target.connections.translate_errors("Write"):
        producer = BulkProducer(target.connections, target.topic)
    try:
        for judged in portions:
            kept = [visit for visit, cause in zip(judged.visits, judged.causes, strict=True) if cause is None]
            if stop.is_set() and kept:
                raise SendError(f"stopped by a signal. {target.explain_position(sent, kept[0].line)}")
            stamp = max(stamp, _send_portion(target, producer, kept, sent, clock.now()))
            sent += len(kept)
            yield Progress(sent, judged.visits[-1].line, stamp)
    finally:
        producer.close(CLOSE_SECONDS)


def _send_portion(target: Target, producer: BulkProducer, kept: list[FileVisit], sent: int, now: int) -> int:
    """Send visits, wait until Kafka has them, and return their last timestamp, an instant.

    The broker replaces the timestamp `now` (an instant), unless the topic has other settings.
    """
    if not kept:
        return 0
    parts = (kept[start : start + RECORD_VISITS] for start in range(0, len(kept), RECORD_VISITS))
    first: int = 0
    failure: BaseException
    try:
        deliveries = producer.produce([(None, join_visits(part), (), now // MILLISECOND) for part in parts])
        failed = [(delivery.positions.start, delivery.error) for delivery in deliveries if delivery.error is not None]
        if not failed:
            return max(delivery.timestamp for delivery in deliveries) * MILLISECOND
        first, failure = min(failed, key=itemgetter(0))
    except (KafkaError, OSError) as error:
        failure = error
    visit = first * RECORD_VISITS
    reason = target.connections.make_unreachable_error(failure, operation="Write")
    raise UnreachableError(f"{reason}. {target.explain_position(sent + visit, kept[visit].line)}") from failure


_MERGED: Final = (
    'Nothing is sent: if several people have one id, "safe" may be false. Correct the ids, or send them as they are '
    "with --despite-warnings."
)


def send_file(
    target: Target,
    parameters: Parameters,
    clock: Clock,
    *,
    dry_run: bool,
    first_line: int = 1,
    despite_warnings: bool = False,
) -> int:
    """Send the visits of a file, or with `dry_run` print what would be sent.

    Visits that begin before `first_line` are left out, because Kafka has them.

    Return the exit code: 1 if a visit is not sent, because the service would refuse it or not count it, or because the
    ids of people look as if a spreadsheet has changed them.

    Raises:
        UsageError: the file cannot be read, or has no visit from the first line on.
        TopicError, UnreachableError: the visits cannot be sent.
        SendError: a signal stopped the command.
    """
    if not dry_run:
        target.require_topic()
    now, stderr = clock.now(), Console(stderr=True)

    def judge() -> Iterator[Judged]:
        visits = (visit for visit in read_visits(target.path) if visit.line >= first_line)
        return judge_visits(parameters, visits, now)

    survey = _survey(target.path, judge(), stderr)
    if first_line > 1 and not survey.total:
        raise UsageError(
            f"--resume {first_line}: {target.path} has no visit in this line or later: nothing is left to send"
        )
    _print_findings(survey)
    amount = f"{survey.visits} of {survey.total} visits"
    if survey.plausibility.may_merge_people() and not despite_warnings:
        click.echo(_MERGED)
        return EXIT_FAILED
    if dry_run:
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
