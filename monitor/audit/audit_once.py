"""The audit of a run that ends: from files, or once from topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path

from monitor.audit.compare_ticks import Engine, Run
from monitor.audit.configuration import read_terms
from monitor.audit.findings import SIGNED, AuditReport
from monitor.audit.follow_topic import Follower
from monitor.audit.read_records import read_file
from monitor.audit.record_fields import Record
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
