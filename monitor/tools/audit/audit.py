"""The whole audit: recount the visits, then check every record of the output topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

from monitor.tools.audit.at_times import AtTimesCheck
from monitor.tools.audit.counts import Presence, count_people, find_present
from monitor.tools.audit.dwell import DwellCheck
from monitor.tools.audit.fates import count_fates
from monitor.tools.audit.findings import FATES, FORM, PAID, TICKS, AuditReport, Findings
from monitor.tools.audit.hot_spots import HotSpotsCheck
from monitor.tools.audit.over_time import OverTimeCheck
from monitor.tools.audit.payments import NoisyAnswers, most_paid
from monitor.tools.audit.records import PublishedRecord, ReadRecord, drop_repeats, read_file
from monitor.tools.audit.sequence import Sequence
from monitor.tools.audit.terms import AuditTerms, read_terms
from monitor.tools.audit.text import parse_instant
from monitor.tools.audit.topics import Kept, OpenConsumer, Topic, read_input, read_output
from monitor.tools.audit.visits import Visits, read_visits

_KINDS: Final = {"over_time", "at_times", "hot_spots", "dwell"}
_COUNTING: Final = 2
"""The least `counting` in owner records of builds whose counts contain no visit reported at or after as_of."""

_Check = OverTimeCheck | AtTimesCheck | HotSpotsCheck | DwellCheck


@dataclass
class _Auditor:
    """Passes every record to the check of its monitor, and collects the ticks."""

    terms: AuditTerms
    visits: Visits
    every_tick: bool
    whole: bool = True
    whole_input: bool = True
    findings: Findings = field(default_factory=Findings)
    records: int = 0
    ticks: set[int] = field(default_factory=set)
    paid: Fraction = Fraction(0)
    _late_slots: dict[int | None, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Count the visits, and make a check for each monitor."""
        terms, findings, visits = self.terms, self.findings, self.visits
        sequence = Sequence(findings, self.every_tick)
        self.over_time: dict[str, OverTimeCheck] = {}
        self.at_times: dict[str, AtTimesCheck] = {}
        self.hot_spots: dict[str, HotSpotsCheck] = {}
        self.dwell: dict[str, DwellCheck] = {
            stated.name: DwellCheck(
                terms, stated, visits, findings, every_tick=self.every_tick, whole_input=self.whole_input
            )
            for stated in terms.dwell
        }
        for windowed in terms.over_time:
            counts = count_people(visits, terms, windowed)
            self.over_time[windowed.name] = OverTimeCheck(terms, windowed, counts, sequence, findings, whole=self.whole)
        for timed in terms.at_times:
            presence: Presence = find_present(visits, terms, timed, timed.threshold)
            self.at_times[timed.name] = AtTimesCheck(
                terms, timed, presence, sequence, findings, whole=self.whole, whole_input=self.whole_input
            )
        for ranked in terms.hot_spots:
            presence = find_present(visits, terms, ranked)
            self.hot_spots[ranked.name] = HotSpotsCheck(terms, ranked, presence, findings, every_tick=self.every_tick)

    @property
    def checks(self) -> dict[str, _Check]:
        """The check of every monitor."""
        return {**self.over_time, **self.at_times, **self.hot_spots, **self.dwell}

    def take(self, record: PublishedRecord) -> None:
        """Check a record. Owner and start records are not checked, but change how later records are checked."""
        self.records += 1
        if record.kind not in _KINDS:
            self._take_owner(record)
            return
        kinds: dict[str, Mapping[str, _Check]] = {
            "over_time": self.over_time,
            "at_times": self.at_times,
            "hot_spots": self.hot_spots,
            "dwell": self.dwell,
        }
        try:
            check = kinds[record.kind].get(record.value["monitor"])
            if check is None:
                self.findings.add(FORM, f"{record.ce_id} ({record.place}): the configuration has no such monitor")
                return
            self.ticks.add(int(record.value["tick"]))
            unknown = 0 if self.whole else None
            check.take(replace(record, late_slots=self._late_slots.get(record.partition, unknown)))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            text = f"{record.ce_id} ({record.place}): not in the form of the interface: {error!r}"
            self.findings.add(FORM, text)

    def _take_owner(self, record: PublishedRecord) -> None:
        """Record whether a ledger was lost, and how the partition's new owner counts.

        The counts of earlier builds also contained visits reported in the slot after the tick's, so their marks run for
        W + F + 1 ticks. Their owner records have `counting` 1 or none.
        """
        if not isinstance(record.value, dict):
            return
        lost_at, counting = record.value.get("lost_at"), record.value.get("counting")
        if isinstance(lost_at, str):
            lost = self.terms.grid.slot_of(parse_instant(lost_at))
            for check in self.over_time.values():
                check.lost_slots[record.partition] = max(lost, check.lost_slots.get(record.partition, lost))
        if record.kind == "owner":
            self._late_slots[record.partition] = 0 if isinstance(counting, int) and counting >= _COUNTING else 1

    def finish(self) -> None:
        """After the last record, check that no tick is missing and that no person paid too much."""
        if not self.ticks:
            self.findings.add(TICKS, "the output topic answers no tick")
            return
        first, last = min(self.ticks), max(self.ticks)
        if self.every_tick:
            first = find_first_slot(self.visits, self.terms, first)
        for check in self.checks.values():
            check.finish(first, last)
        self.paid = self._most_paid()
        if self.paid > self.terms.may_pay:
            text = f"one person paid ε = {self.paid} within a period, more than the stated {self.terms.may_pay}"
            self.findings.add(PAID, text)

    def _most_paid(self) -> Fraction:
        answers = NoisyAnswers(self.terms)
        for windowed in self.terms.over_time:
            answers.add_over_time(windowed, self.over_time[windowed.name].answers)
        for timed in self.terms.at_times:
            check = self.at_times[timed.name]
            answers.add_at_times(timed.epsilon, check.answers)
            if timed.at_least is not None:
                answers.add_at_least(timed.at_least, check.lower_bounds.answers)
        for ranked in self.terms.hot_spots:
            answers.add_hot_spots(ranked.epsilon, self.hot_spots[ranked.name].answers)
        for stated in self.terms.dwell:
            answers.add_dwell(stated.epsilon, self.dwell[stated.name].answers)
        return most_paid(self.visits, answers)


def audit(
    visits: Path, config: Path, alerts: Path, *, every_tick: bool = True, fates: Mapping[str, int] | None = None
) -> AuditReport:
    """Recount a run from its input and check every record of its output topic.

    Args:
        visits: the replay file (docs/interface.md, section 2). `reported_at` is the timestamp of a visit's record.
        config: the configuration. It must contain the values that the service took from the environment.
        alerts: the output topic in the form that `replay` writes.
        every_tick: whether every tick must be answered, as after a replay. False if the service ran by the clock.
        fates: the service's own count of visits by fate, to compare with the recount.

    Raises:
        AuditError: one of the files cannot be read.
    """
    terms = read_terms(config)
    return _report(_Auditor(terms, read_visits(visits, terms), every_tick), read_file(alerts), fates)


def audit_topics(
    config: Path, open_consumer: OpenConsumer, visits: str, alerts: str, open_input: OpenConsumer | None = None
) -> tuple[AuditReport, Kept, Kept]:
    """Recount a run by the clock from its topics. Return the report, and what the input and output still contain.

    Expired input lowers the counts that the answers are compared with, so it causes no false finding; lower bounds are
    then not compared. If the records of
    earlier marks and noisy counts have expired, the first remaining records are trusted for them.

    Args:
        config: the configuration. It must contain the values that the service took from the environment.
        open_consumer: opens a kafka-python consumer without a group.
        visits: the input topic.
        alerts: the output topic.
        open_input: opens a consumer for the input topic that also returns batches that kafka-python cannot read. The
            default is `open_consumer`.

    Raises:
        AuditError: the configuration or a topic cannot be read.
    """
    terms = read_terms(config)
    output = Topic(open_consumer, alerts, committed=False)
    # The input is opened after the output, so that it contains every visit that the published answers count.
    source = Topic(open_input or open_consumer, visits, committed=True)
    auditor = _Auditor(
        terms,
        read_input(source, terms),
        every_tick=False,
        whole=not output.kept.expired,
        whole_input=not source.kept.expired,
    )
    return _report(auditor, read_output(output), None), source.kept, output.kept


def _report(auditor: _Auditor, records: Iterator[ReadRecord], fates: Mapping[str, int] | None) -> AuditReport:
    """Check all records, and return the findings."""
    for record in drop_repeats(records, auditor.findings):
        auditor.take(record)
    auditor.finish()
    checks = auditor.checks
    last_tick = max(auditor.ticks, default=None)
    recounted = {} if last_tick is None else count_fates(auditor.visits, auditor.terms, last_tick)
    if fates is None:
        del auditor.findings.listed[FATES]
    else:
        _compare_fates(fates, recounted, auditor.findings)
    return AuditReport(
        records=auditor.records,
        ticks=len(auditor.ticks),
        first_tick=min(auditor.ticks, default=None),
        last_tick=last_tick,
        whole_until=find_last_tick(auditor.visits, auditor.terms, last_tick or 0),
        answers={(name, status): n for name, check in checks.items() for status, n in check.statuses.items()},
        safe=sum(check.safe for check in checks.values()),
        noisy=sum(check.noisy for check in checks.values()),
        bounds=sum(check.lower_bounds.bounds for check in auditor.at_times.values()),
        violations=auditor.findings.listed,
        totals=dict(auditor.findings.totals),
        paid=auditor.paid,
        may_pay=auditor.terms.may_pay,
        fates=recounted,
    )


def _compare_fates(counted: Mapping[str, int], recounted: Mapping[str, int], findings: Findings) -> None:
    for fate, number in recounted.items():
        if counted.get(fate, 0) != number:
            findings.add(FATES, f"{fate}: the service counted {counted.get(fate, 0)} visits, the recount {number}")


def find_first_slot(visits: Visits, terms: AuditTerms, slot: int) -> int:
    """Return the earliest slot in which an accepted visit begins or is reported, or the given slot if it is earlier."""
    slots = (min(terms.grid.slot_of(visit.arrived), visit.current) for visit in visits.accepted)
    return min(slot, min(slots, default=slot))


def find_last_tick(visits: Visits, terms: AuditTerms, tick: int) -> int:
    """Return the tick at which every accepted visit has left every window and horizon; `tick` if there is no visit."""
    windows = [monitor.window for monitor in terms.over_time]
    horizons = [-(-monitor.horizon // terms.grid.slot) for monitor in terms.timed]
    last = max((max(visit.last, visit.current) for visit in visits.accepted), default=None)
    return tick if last is None else last + max([*windows, *horizons])
