"""The whole audit: recount the visits, then check every record of the output topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from pathlib import Path

from monitor.tools.audit.fates import count_fates
from monitor.tools.audit.findings import FATES, FORM, PAID, TICKS, AuditReport, Findings
from monitor.tools.audit.history import History
from monitor.tools.audit.input_ids import counts_another_input
from monitor.tools.audit.judge import KINDS, OWNER_KINDS, Judge, WholeRecount
from monitor.tools.audit.ownership import Ownership
from monitor.tools.audit.partition_ticks import PartitionTicks, read_tick
from monitor.tools.audit.payments import Payer, find_most_paid
from monitor.tools.audit.published_costs import find_most_spent, list_costs
from monitor.tools.audit.reader import TopicFacts
from monitor.tools.audit.records import PublishedRecord, ReadRecord, drop_repeats, read_file
from monitor.tools.audit.sequence import TickSequence
from monitor.tools.audit.terms import AuditTerms, read_terms
from monitor.tools.audit.topics import OpenConsumer, Topic, TopicContents, read_input, read_output
from monitor.tools.audit.visits import Visits, read_visits

Configs = Path | Sequence[Path]
"""The configuration, or several that were in force one after another, newest first."""


@dataclass(frozen=True, slots=True)
class Input:
    """A configuration, and the visits as it accepts them."""

    terms: AuditTerms
    visits: Visits


@dataclass
class Auditor:
    """The audit of one run. It passes each record to the judge of the configuration that was in force.

    If output has expired (`whole` is False), what the first remaining records say about earlier ones is assumed to be
    correct. If input has expired (`whole_input` is False), lower bounds and dwell times are not compared. Nor are those
    that count an input topic with another id than `input_id`.
    """

    inputs: Sequence[Input]
    every_tick: bool
    whole: bool = True
    whole_input: bool = True
    input_id: str = ""
    findings: Findings = field(default_factory=Findings)
    records: int = 0
    unjudged: int = 0
    ticks: set[int] = field(default_factory=set)
    paid: Fraction = Fraction(0)
    spent: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """Count the visits, and create the judge of each configuration."""
        self._history = History.create(TickSequence(self.findings, self.every_tick), whole=self.whole)
        self.judges = [
            Judge(given.terms, WholeRecount(given.visits, given.terms), self._history, self.findings)
            for given in self.inputs
        ]
        for judge in self.judges:
            judge.set_whole_input(self.whole_input)
        self._owners = Ownership(self.judges, self.findings, whole=self.whole, checks_ticks=not self.every_tick)
        self.partition_ticks = PartitionTicks()

    @property
    def terms(self) -> AuditTerms:
        """The newest configuration."""
        return self.inputs[0].terms

    def take(self, record: PublishedRecord) -> None:
        """Check a record, which may have any form. Owner and start records change how later records are checked."""
        self.records += 1
        with self.findings.catch_errors(record.place):
            if record.kind not in (*KINDS, *OWNER_KINDS):
                self.findings.add(FORM, f"{record.place}: not a record of this service")
                return
            tick = read_tick(record.value, self.terms.grid)
            self.partition_ticks.take(record.partition, tick)
            if record.kind in KINDS:
                self._take_answer(record, tick)
            else:
                self._owners.take(record)

    def _take_answer(self, record: PublishedRecord, tick: int | None) -> None:
        if not record.strict:
            self.findings.add(FORM, f"{record.place}: the value is not strict JSON")
            return
        if not isinstance(record.value, dict):
            self.findings.add(FORM, f"{record.place}: the value is not a JSON object")
            return
        judge = self._owners.stretches.find(record)
        self._owners.parts.take(record, tick, judge)
        if judge is None:
            self.unjudged += 1
            self._history.doubt(record)
            return
        taken = judge.take(record)
        if tick is not None and judge.find_check(record):
            self.ticks.add(tick)
        if taken is not None:
            earlier = counts_another_input(self._owners.input_ids.find(record.partition), self.input_id)
            judge.set_whole_input(self.whole_input and not earlier)
            judge.prove(taken)

    def take_repeat(self, record: PublishedRecord) -> None:
        """Note that a record was delivered again."""
        if record.kind in KINDS:
            self._owners.take_repeat(record.partition)

    def finish(self) -> None:
        """After the last record, check that no tick is missing and that no person paid too much."""
        if not self.ticks:
            if not self.unjudged:
                self.findings.add(TICKS, "the output topic answers no tick")
            return
        first, last = min(self.ticks), max(self.ticks)
        if self.every_tick:
            first = find_first_slot(self.inputs[0].visits, self.terms, first)
        for judge in self.judges:
            judge.finish(first, last)
        self.paid = find_most_paid(
            [
                Payer(judge.collect_answers(), given.visits)
                for judge, given in zip(self.judges, self.inputs, strict=True)
            ]
        )
        self.spent = find_most_spent(cost for judge in self.judges for cost in list_costs(judge))
        if self.paid > self.terms.may_pay:
            text = f"one person paid ε = {self.paid} within a period, more than the stated {self.terms.may_pay}"
            self.findings.add(PAID, text)


def audit(
    visits: Path, config: Path, alerts: Path, *, every_tick: bool = True, fates: Mapping[str, int] | None = None
) -> AuditReport:
    """Recount a run from its input and check every record of its output topic.

    Args:
        visits: the replay file (docs/interface.md, section 2). `reported_at` is the timestamp of a visit's record.
        config: the configuration. It must contain the values that the service took from the environment.
        alerts: the output topic in the form that `replay` writes.
        every_tick: whether every tick must be answered, as after a replay. False if the service ran in real time.
        fates: the service's own count of visits by fate, to compare with the recount.

    Raises:
        AuditError: one of the files cannot be read.
    """
    return audit_files(visits, [config], alerts, every_tick=every_tick, fates=fates)


def audit_files(
    visits: Path,
    configs: Sequence[Path],
    alerts: Path,
    *,
    every_tick: bool = True,
    fates: Mapping[str, int] | None = None,
) -> AuditReport:
    """Recount a run as `audit` does. `configs`: the configurations that were in force, newest first."""
    people: dict[str, int] = {}
    inputs = [Input(terms, read_visits(visits, terms, people)) for terms in map(read_terms, configs)]
    return _check_records(Auditor(inputs, every_tick and len(configs) == 1), read_file(alerts), fates)


def audit_topics(
    configs: Configs,
    open_consumer: OpenConsumer,
    visits: str,
    alerts: str,
    open_input: OpenConsumer | None = None,
    *,
    facts: TopicFacts,
) -> tuple[AuditReport, TopicContents, TopicContents]:
    """Recount a run in real time from its topics. Return the report, and what the input and output still contain.

    Expired input lowers the recounted counts, so a "safe" and a noisy count cause no false finding. Lower bounds and
    dwell times are then not compared. If output has expired, the earlier marks and noisy counts that the first
    remaining records repeat are assumed to be correct.

    Args:
        configs: the configurations. They must contain the values that the service took from the environment.
        open_consumer: opens a kafka-python consumer without a group.
        visits: the input topic.
        alerts: the output topic.
        open_input: opens a consumer for the input topic that also returns batches that kafka-python cannot read. The
            default is `open_consumer`.
        facts: returns the ends of the input's logs, and its id. The input is read to the ends of its logs, because a
            visit in an open transaction counts once it is committed.

    Raises:
        AuditError: a configuration or a topic cannot be read.
    """
    listed = [read_terms(path) for path in ([configs] if isinstance(configs, Path) else configs)]
    output = Topic(open_consumer, alerts, committed=False)
    # The input is opened after the output, so that it contains every visit that the published answers count.
    source = Topic(open_input or open_consumer, visits, committed=True, log_ends=facts.log_ends)
    people: dict[str, int] = {}
    auditor = Auditor(
        [Input(terms, read_input(source, terms, people)) for terms in listed],
        every_tick=False,
        whole=not output.contents.expired,
        whole_input=not source.contents.expired,
        input_id=facts.read_topic_id(visits),
    )
    return _check_records(auditor, read_output(output, listed[0].grid), None), source.contents, output.contents


def _check_records(auditor: Auditor, records: Iterator[ReadRecord], fates: Mapping[str, int] | None) -> AuditReport:
    """Check all records, and return the report."""
    for record in drop_repeats(records, auditor.findings, auditor.take_repeat):
        auditor.take(record)
    auditor.finish()
    visits, last_tick = auditor.inputs[0].visits, max(auditor.ticks, default=None)
    recounted = {} if last_tick is None else count_fates(visits, auditor.terms, last_tick)
    if fates is None:
        del auditor.findings.listed[FATES]
    else:
        _compare_fates(fates, recounted, auditor.findings)
    checks = list(chain.from_iterable(judge.checks.items() for judge in auditor.judges))
    answers: dict[tuple[str, str], int] = {}
    for name, check in checks:
        for status, number in check.statuses.items():
            answers[name, status] = answers.get((name, status), 0) + number
    return AuditReport(
        records=auditor.records,
        ticks=len(auditor.ticks),
        first_tick=min(auditor.ticks, default=None),
        last_tick=last_tick,
        whole_until=find_last_tick(visits, auditor.terms, last_tick or 0),
        answers=answers,
        safe=sum(check.safe for _name, check in checks),
        noisy=sum(check.noisy for _name, check in checks),
        bounds=sum(check.lower_bounds.bounds for judge in auditor.judges for check in judge.at_times.values()),
        violations=auditor.findings.listed,
        totals=dict(auditor.findings.totals),
        paid=auditor.paid,
        may_pay=auditor.terms.may_pay,
        fates=recounted,
        spent=auditor.spent,
        missing=auditor.partition_ticks.missing,
        unjudged=auditor.unjudged,
    )


def _compare_fates(counted: Mapping[str, int], recounted: Mapping[str, int], findings: Findings) -> None:
    for fate, number in recounted.items():
        if counted.get(fate, 0) != number:
            findings.add(FATES, f"{fate}: the service counted {counted.get(fate, 0)} visits, the recount {number}")


def find_first_slot(visits: Visits, terms: AuditTerms, slot: int) -> int:
    """Return the earliest slot in which an accepted visit begins or is reported, or the given slot if it is earlier."""
    slots = (min(terms.grid.find_slot(visit.arrived), visit.current) for visit in visits.accepted)
    return min(slot, min(slots, default=slot))


def find_last_tick(visits: Visits, terms: AuditTerms, tick: int) -> int:
    """Return the tick at which every accepted visit has left every window and horizon; `tick` if there is no visit."""
    windows = [monitor.window for monitor in terms.over_time]
    horizons = [-(-monitor.horizon // terms.grid.slot) for monitor in terms.timed]
    last = max((max(visit.last, visit.current) for visit in visits.accepted), default=None)
    return tick if last is None else last + max([*windows, *horizons])
