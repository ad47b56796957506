"""`location-monitor dead-letters`: show dead letters, export them for correction, or send corrected visits again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from monitor.contracts.clock import Clock
from monitor.contracts.instants import parse_duration, parse_instant
from monitor.contracts.visits import Reason
from monitor.errors import EXIT_DONE, EXIT_FAILED, DurationError, TimeError, UsageError
from monitor.service.service import Settings
from monitor.tools.dead_letters.export import export_letters
from monitor.tools.dead_letters.letters import Filter, read_letters, summarize
from monitor.tools.dead_letters.render import render, to_json
from monitor.tools.dead_letters.resend import explain, plan_resending, send

Print = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """What to show: the reasons (all if empty), `since` as a time or a duration, and the number of the latest ones."""

    reasons: tuple[str, ...] = ()
    since: str | None = None
    latest: int = 20


def show_command(settings: Settings, options: ShowOptions, clock: Clock, console: Console, *, as_json: bool) -> None:
    """Print dead letters by reason, and the positions of the latest ones.

    Raises:
        UsageError: an option is invalid.
        TopicError: the topic does not exist.
        UnreachableError: Kafka does not answer.
    """
    topic, wanted = settings.config.kafka.topics.dead_letters, read_filter(options, clock)
    summary = summarize(topic, read_letters(settings.kafka, topic, wanted), options.latest)
    if as_json:
        console.print(to_json(summary), markup=False, highlight=False, soft_wrap=True)
    else:
        render(summary, console)


def export_command(settings: Settings, options: ShowOptions, clock: Clock, path: Path, say: Print) -> None:
    """Write dead letters to a new file that only its owner may read.

    Raises:
        UsageError: an option is invalid, or the file exists.
        TopicError: the topic does not exist.
        UnreachableError: Kafka does not answer. No file is left.
    """
    topic, wanted = settings.config.kafka.topics.dead_letters, read_filter(options, clock)
    written = export_letters(read_letters(settings.kafka, topic, wanted), path)
    say(f"{written} dead letters in {path}. The file names people: correct it, send it with --resend, and delete it.")


def resend_command(settings: Settings, path: Path, clock: Clock, say: Print, *, dry_run: bool) -> int:
    """Send the visits of a file to the input topic, or with `dry_run` print what would be sent.

    Return the exit code: 1 if the service would refuse some of the visits again. These are not sent, the others are.

    Raises:
        TopicError: the input topic does not exist.
        UnreachableError: Kafka does not accept a record.
    """
    parameters, topic = settings.parameters, settings.config.kafka.topics.visits
    plan = plan_resending(parameters, path, clock.now())
    for sentence in plan.explain_left_out():
        say(sentence)
    code = EXIT_FAILED if plan.refused else EXIT_DONE
    if plan.refused:
        say("Correct the refused lines and send the file again: a visit that was sent twice counts once.")
    amount = f"{plan.visits} visits of {len(plan.lines)} lines"
    if dry_run or not plan.lines:
        say(f"{amount} would be sent to {topic}." if dry_run else "Nothing to send.")
        return code
    sent = send(settings.kafka, topic, plan, parameters)
    say(f"{amount} were sent to {topic}.")
    for sentence in explain(sent, parameters):
        say(sentence)
    return code


def read_filter(options: ShowOptions, clock: Clock) -> Filter:
    """Return the filter that the options describe.

    Raises:
        UsageError: `since` is neither a time nor a duration.
    """
    return Filter(frozenset(map(Reason, options.reasons)), _read_since(options.since, clock))


def _read_since(text: str | None, clock: Clock) -> int | None:
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


def list_reasons() -> Sequence[str]:
    """Return the reasons that a dead letter may have."""
    return [reason.value for reason in Reason]
