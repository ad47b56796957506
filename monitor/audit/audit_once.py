"""The audit of a run that ends, from files or once from topics, and its text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from monitor.audit.compare_ticks import Engine, Run
from monitor.audit.configuration import read_terms
from monitor.audit.findings import LISTED, SIGNED, AuditReport, format_ticks
from monitor.audit.follow_topic import Follower
from monitor.audit.kinds.all_kinds import ORACLES
from monitor.audit.parse_values import Record
from monitor.audit.read_records import read_file
from monitor.audit.recount_visits import Recount, create_recounts
from monitor.audit.topic_reader import Sources
from monitor.audit.visits import read_visits


def audit(visits: Path, configs: Path | Sequence[Path], alerts: Path, *, every_tick: bool = True) -> AuditReport:
    """Recount a run from its input and check every record of its output topic.

    Args:
        visits: the replay file (docs/interface.md, section 2). `reported_at` is the timestamp of a visit's record.
        configs: the configuration, or those that were in force, newest first. They must contain the values that the
            service took from the environment.
        alerts: the output topic in the form that `replay` writes.
        every_tick: whether every tick must be answered, as after a replay with one configuration. False if the service
            ran in real time.

    Raises:
        AuditError: one of the files cannot be read, or the configurations have different slots.
    """
    terms = [read_terms(path) for path in ([configs] if isinstance(configs, Path) else configs)]
    recounts = create_recounts(terms)
    engine = Engine(terms, recounts, Run(every_tick=every_tick))
    for recount in recounts:
        for line in read_visits(visits, recount.terms):
            recount.take(line)
    judge_records(engine, read_file(alerts, engine.terms.grid))
    del engine.findings.listed[SIGNED]  # a file has not the bytes that were signed
    return _make_report(engine, recounts[0])


def judge_records(engine: Engine, records: Iterable[Record]) -> None:
    """Judge records in order of tick, of which the recounts have all visits that they count."""
    for tick, of_tick in groupby(records, key=engine.order):
        engine.take_tick(tick, of_tick)
        while engine.waiting:
            engine.compare()


def audit_topics(configs: Sequence[Path], sources: Sources) -> AuditReport:
    """Recount a run in real time from its topics.

    Expired input lowers the recounted counts, so a "safe" and a noisy count cause no false finding. Lower bounds and
    totals that may count expired visits are not compared. If output has expired, the earlier marks and noisy
    counts that the first remaining records repeat are assumed to be correct.

    Args:
        configs: the configurations, newest first. They must contain the values that the service took from the
            environment.
        sources: the topics. There must be an input.

    Raises:
        AuditError: a configuration or a topic cannot be read.
    """
    terms = [read_terms(path) for path in configs]
    with closing(Follower(terms, sources, Run())) as follower:
        follower.judge_all()
        if follower.signed is None:
            del follower.engine.findings.listed[SIGNED]
        return _make_report(follower.engine, follower.recounts[0], follower.expired)


def _make_report(engine: Engine, recount: Recount, expired: tuple[str, ...] = ()) -> AuditReport:
    """Finish the audit, and return the report."""
    engine.finish(recount.first)
    output, findings = engine.output, engine.findings
    checks = [(name, check) for judge in engine.judges for (_kind, name), check in judge.checks.items()]
    answers: Counter[tuple[str, str]] = Counter()
    for name, check in checks:
        answers.update({(name, status): number for status, number in check.statuses.items()})
    return AuditReport(
        records=engine.records.total(),
        ticks=output.judged_ticks,
        first_tick=output.first_tick,
        last_tick=output.last_tick,
        whole_until=recount.find_last_tick(output.last_tick or 0),
        answers=dict(answers),
        safe=sum(check.safe for _name, check in checks),
        noisy=sum(check.noisy for _name, check in checks),
        bounds=sum(check.bounds for _name, check in checks),
        early=sum(check.early for _name, check in checks),
        noise=sum(check.noise for _name, check in checks),
        violations=findings.listed,
        totals=dict(findings.totals),
        spent=engine.payments.most_spent,
        may_pay=engine.terms.may_pay,
        fates={} if output.last_tick is None else recount.count_fates(output.last_tick),
        missing=output.parts.missing,
        incomplete=output.parts.incomplete,
        unjudged=output.unjudged_records,
        expired=expired,
    )


_EXPIRED: Final = (
    'Expired visits are not counted: a false "safe" may not be found, and lower bounds and totals are not '
    "compared. What the first remaining answers repeat of expired ones is assumed to be correct."
)


def render(report: AuditReport, console: Console) -> None:
    """Print the numbers of records checked, the violations, and the most that the answers cost one person."""
    ticks = f"{report.ticks:,} ticks" + (f" ({report.first_tick} to {report.last_tick})" if report.ticks else "")
    console.print(
        f"{report.records:,} records of {ticks}; "
        f'checked: {report.safe:,} "safe" answers, {report.noisy:,} noisy counts'
        + (f", {report.bounds:,} lower bounds" if report.bounds else ""),
        highlight=False,
    )
    for topic in report.expired:
        console.print(f"Earlier records of the topic {topic} have expired. {_EXPIRED}", highlight=False)
    if report.last_tick is not None and report.last_tick < report.whole_until:
        text = f"The run ends before tick {report.whole_until}, when every visit has left every window and horizon."
        console.print(text, highlight=False)
    statuses = ", ".join(f"{name} {status}: {count:,}" for (name, status), count in sorted(report.answers.items()))
    console.print(f"Answers: {statuses or 'none'}", highlight=False, markup=False)
    fates = ", ".join(f"{fate}: {count:,}" for fate, count in report.fates.items())
    console.print(f"Visits by fate, recounted: {fates or 'none'}", highlight=False)
    console.print(_make_table(report))
    _print_missing(report, console)
    for oracle, violations in report.violations.items():
        _print_violations(oracle, violations, report.totals.get(oracle, 0), console)
    console.print(
        f"The most that the answers cost any person within a period: ε = {report.spent} of {report.may_pay}",
        highlight=False,
    )
    console.print(_make_verdict(report), highlight=False)


def _make_verdict(report: AuditReport) -> str:
    if not report.ok:
        return "[red]Violations were found.[/]"
    if report.unjudged:
        judged = f"{report.records - report.unjudged:,} of {report.records:,}"
        return f"[yellow]Nothing wrong was found in {judged} records. The others were not judged.[/]"
    return "[green]Nothing wrong was found.[/]"


def _print_missing(report: AuditReport, console: Console) -> None:
    """Print the missing ticks by output partition, and the number of records that were not judged."""
    for partition, ranges in sorted(report.missing.items()):
        listed = ", ".join(format_ticks(first, last) for first, last in ranges[:LISTED])
        more = f", and {len(ranges) - LISTED:,} more ranges" if len(ranges) > LISTED else ""
        text = f"Missing in output partition {partition}: {listed}{more}. Nobody decided them."
        console.print(text, style="yellow", highlight=False)
    for partition, ticks in sorted(report.incomplete.items()):
        listed = ", ".join(format_ticks(tick, tick) for tick in ticks[:LISTED])
        more = f", and {len(ticks) - LISTED:,} more" if len(ticks) > LISTED else ""
        text = f"Incomplete in output partition {partition}: {listed}{more}. The service recorded the rest as lost."
        console.print(text, style="yellow", highlight=False)
    if report.unjudged:
        console.print(
            f"Not judged: {report.unjudged:,} records, because none of the given configurations was in force. "
            "Give the configuration that was, newer or earlier, with another --config.",
            style="yellow",
            highlight=False,
        )


def _make_table(report: AuditReport) -> Table:
    table = Table()
    table.add_column("check")
    table.add_column("violations", justify="right")
    for oracle in report.violations:
        table.add_row(ORACLES[oracle], f"{report.totals.get(oracle, 0):,}")
    return table


def _print_violations(oracle: str, violations: list[str], total: int, console: Console) -> None:
    for text in violations:
        console.print(f"{oracle}: {text}", style="red", highlight=False, markup=False, soft_wrap=True)
    if total > LISTED:
        console.print(f"{oracle}: and {total - LISTED:,} more", style="red", highlight=False)
