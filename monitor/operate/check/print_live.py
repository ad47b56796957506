"""Print the result of `check --live` as text."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from monitor.ingest.start_offsets import CONTINUES
from monitor.operate.check.live_report import Facts, LiveReport, PeriodPayment, Silence, TopicSummary, format_time
from monitor.operate.check.print_report import Printer
from monitor.privacy.epsilon import format_epsilon
from monitor.time.instants import MILLISECOND, format_duration

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
