"""The result of `check --live`, and its text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from rich.console import Console

from monitor.ingest.start_offsets import CONTINUES
from monitor.operate.check.print_report import Printer
from monitor.operate.check.report import make_tree
from monitor.privacy.epsilon import format_epsilon
from monitor.time.instants import MILLISECOND, format_duration, format_instant


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why `run` would refuse to start (exit code 3), in the words of `run`. `kind`: the name of the error."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """A topic that exists: its configuration key and name, and its partitions, replicas and `retention.ms` in Kafka."""

    key: str
    topic: str
    partitions: int
    replicas: int
    retention_ms: str


@dataclass(frozen=True, slots=True)
class PeriodPayment:
    """What one person may pay in a period, with the answers that were published under earlier configurations."""

    stated: Fraction
    """The ε that the configuration states (`privacy.epsilon`)."""
    worst: Fraction
    """Under the new configuration alone."""
    total: Fraction
    """With earlier answers."""
    added: Mapping[str, Fraction]
    """For each monitor with published answers, how much smaller the total would be without them."""
    fits_from: int | None
    """The instant from which the total fits; None if it fits now, or never."""
    fences_others: bool | None
    """Whether a takeover would fence instances with another configuration, because the sum is too large while both
    answer; None if there are no such instances.
    """

    @property
    def fits(self) -> bool:
        """Whether the total is at most the stated ε."""
        return self.total <= self.stated


@dataclass(frozen=True, slots=True)
class PartitionStart:
    """The offsets of an input partition that would be read, and why reading does not continue where the facts end.

    `cause`: a label of `recoveries_total`, or `CONTINUES`.
    """

    partition: int
    start: int
    end: int
    cause: str


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of the new configuration, and the records that an instance would read before it is ready."""

    fingerprint: str
    exist: bool
    """Whether Redis has facts with this fingerprint."""
    partitions: tuple[PartitionStart, ...]
    complete_from: int
    """The instant from which the facts are complete after reading."""

    @property
    def records(self) -> int:
        """The largest number of records that would be read."""
        return sum(max(0, partition.end - partition.start) for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class Silence:
    """The answers that a monitor could not give after a takeover now. Times are instants; None if not applicable."""

    monitor: str
    kind: str
    places: int | None = None
    """How many places an `over_time` monitor watches."""
    paused: int = 0
    """How many of them are paused."""
    longer: int = 0
    """How many of the paused places stay paused for longer than was published."""
    first_resumes: int | None = None
    last_resumes: int | None = None
    """`first_resumes`, `last_resumes`: when the first and the last paused place can answer again, at the earliest."""
    unknown_until: int | None = None
    """The last as_of with unknown answers, because earlier facts are missing."""
    times_unknown_before: int | None = None
    """Designated times before this instant stay unknown."""

    @property
    def is_silent(self) -> bool:
        """Whether any answer is missing."""
        return bool(self.paused) or self.unknown_until is not None or self.times_unknown_before is not None


@dataclass(frozen=True, slots=True)
class LiveReport:
    """The whole result. A part is None if an earlier problem prevented finding it out."""

    at: int
    """The instant of the check."""
    refusals: tuple[Refusal, ...] = ()
    """Why `run` would not start; `run` itself reports only the first one."""
    obstacles: tuple[str, ...] = ()
    """Why `run` would wait and try again, such as a server that does not answer."""
    warnings: tuple[str, ...] = ()
    topics: tuple[TopicSummary, ...] = ()
    ledger_partitions: int | None = None
    last_answers: int | None = None
    """The as_of of the last decided tick."""
    cost: PeriodPayment | None = None
    facts: Facts | None = None
    facts_unknown: str = ""
    silences: tuple[Silence, ...] = ()
    members: int | None = None
    other_members: int | None = None
    """How many members of the release group have another configuration; a new instance waits until they have left."""

    def to_tree(self) -> dict[str, Any]:
        """Return the report as an object for JSON: ε as exact strings, times as RFC 3339."""
        tree = make_tree(self)
        for entry, names in (
            (tree, ("at", "last_answers")),
            (tree["cost"], ("fits_from",)),
            (tree["facts"], ("complete_from",)),
            *((silence, _SILENCE_TIMES) for silence in tree["silences"]),
        ):
            for name in names if entry is not None else ():
                entry[name] = None if entry[name] is None else format_time(entry[name])
        if self.cost is not None:
            tree["cost"]["fits"] = self.cost.fits
        if self.facts is not None:
            tree["facts"]["records"] = self.facts.records
        return tree


_SILENCE_TIMES = ("first_resumes", "last_resumes", "unknown_until", "times_unknown_before")


def format_time(instant: int) -> str | None:
    """Return an instant as RFC 3339; None if it is outside the years 1 to 9999."""
    try:
        return format_instant(instant)
    except OverflowError:
        return None


_CAUSES = {
    "no_progress": "Redis has no facts of this configuration",
    "behind_the_log": "records have expired before they were read",
    "log_lost_records": "the input has lost records that were read",
}


def render_live(report: LiveReport, console: Console) -> None:
    """Print the result of `check --live`."""
    say = Printer(console)
    say.print_section("On the servers as they are now", _describe_decision(report), indent="")
    say.print_section("Topics", map(_describe_topic, report.topics))
    say.print_section("What one person pays, with earlier answers", _describe_payment(report.cost))
    say.print_section("What would be read again", _describe_facts(report))
    say.print_section("What would be silent", _describe_silences(report))
    say.print_section("Running instances", _describe_members(report))
    say.print_section("Warnings about the servers", report.warnings)


def _describe_decision(report: LiveReport) -> Iterator[str]:
    at = format_time(report.at)
    if report.refusals:
        yield f"`run` would refuse to start (exit code 3), as of {at}:"
        yield from (f"  {refusal.message}" for refusal in report.refusals)
    elif not report.obstacles:
        yield f"`run` would start, as of {at}."
    if report.obstacles:
        yield "`run` would wait and try again:"
        yield from (f"  {obstacle}" for obstacle in report.obstacles)


def _describe_topic(topic: TopicSummary) -> str:
    milliseconds = topic.retention_ms
    kept = "for ever" if milliseconds == "-1" else "for an unknown time"
    if milliseconds.isdecimal():
        kept = f"for {format_duration(int(milliseconds) * MILLISECOND)}"
    return f"{topic.key}: {topic.topic}, {topic.partitions} partitions, {topic.replicas} replicas, kept {kept}"


def _describe_payment(payment: PeriodPayment | None) -> Iterator[str]:
    if payment is None:
        return
    more, total = payment.total - payment.worst, format_epsilon(payment.total)
    stated = format_epsilon(payment.stated)
    if not more:
        yield f"At most {total} within any period; privacy.epsilon states {stated}. Earlier answers add nothing."
    else:
        sum_ = f"{format_epsilon(payment.worst)} + {format_epsilon(more)} for earlier answers = {total}"
        yield f"At most {sum_} within any period; privacy.epsilon states {stated}."
    for monitor, amount in payment.added.items():
        yield f"Without the published answers of {monitor} the total would be {format_epsilon(amount)} less."
    if not payment.fits:
        yield (
            "The total would never fit."
            if payment.fits_from is None
            else f"The total would fit from {format_time(payment.fits_from)} on, if nothing else is published before."
        )
    if payment.fences_others is not None:
        yield (
            "The first takeover would permanently fence instances with another configuration from all partitions: "
            "the sum is too large while both answer."
            if payment.fences_others
            else "Instances with another configuration may answer until they stop."
        )


def _describe_facts(report: LiveReport) -> Iterator[str]:
    if report.facts is None:
        if report.facts_unknown:
            yield f"Not known: {report.facts_unknown}."
        return
    facts = report.facts
    again = [partition for partition in facts.partitions if partition.cause != CONTINUES]
    if not again:
        yield f"Nothing: the facts exist ({facts.fingerprint}). At most {facts.records} new records are left to read."
        return
    yield from _describe_rereading(facts, len(again))


def _describe_rereading(facts: Facts, again: int) -> Iterator[str]:
    causes = dict.fromkeys(partition.cause for partition in facts.partitions if partition.cause != CONTINUES)
    why = "; ".join(_CAUSES.get(cause, cause) for cause in causes)
    yield (
        f"At most {facts.records} records, {again} of {len(facts.partitions)} partitions from an earlier offset: {why} "
        f"({facts.fingerprint})."
    )
    for partition in facts.partitions:
        yield f"partition {partition.partition}: offsets {partition.start} to {partition.end}"
    if not facts.exist:
        yield "Redis needs room for a separate set of facts until the old one has expired."


def _describe_silences(report: LiveReport) -> Iterator[str]:
    for silence in report.silences:
        if silence.is_silent:
            yield f"{silence.monitor} ({silence.kind}): {'; '.join(_describe_silence(silence))}."
    if report.silences and not any(silence.is_silent for silence in report.silences):
        yield "Nothing, once the input has been read. Until then the running instances continue to answer."


def _describe_silence(silence: Silence) -> Iterator[str]:
    if silence.paused:
        longer = f", {silence.longer} of them longer than was published" if silence.longer else ""
        yield (
            f"{silence.paused} of {silence.places} places are paused{longer}; the first can answer again at "
            f"{_format_time(silence.first_resumes)}, the last at {_format_time(silence.last_resumes)}"
        )
    if silence.unknown_until is not None:
        yield f"unknown until {_format_time(silence.unknown_until)}, because earlier visits are missing from the input"
    if silence.times_unknown_before is not None:
        yield f"designated times before {_format_time(silence.times_unknown_before)} stay unknown"


def _format_time(instant: int | None) -> str:
    return (None if instant is None else format_time(instant)) or "an unknown time"


def _describe_members(report: LiveReport) -> Iterator[str]:
    if report.members is None:
        return
    if report.other_members is None:
        yield f"{report.members} in the release group."
        return
    others = f"{report.other_members} of them with another configuration or person key"
    yield f"{report.members} in the release group, {others}."
    if report.other_members:
        yield "A new instance reads first, and takes over when the others have left."
