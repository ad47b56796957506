"""The audit as a whole: the visits counted anew, then every record of the output topic judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np

from monitor.tools.audit.at_times import AtTimesCheck
from monitor.tools.audit.counts import Presence, counted, present
from monitor.tools.audit.fates import fates_of
from monitor.tools.audit.findings import FATES, FORM, PAID, TICKS, AuditReport, Findings
from monitor.tools.audit.hot_spots import HotSpotsCheck
from monitor.tools.audit.over_time import OverTimeCheck
from monitor.tools.audit.payments import at_times_charges, hot_spots_charges, most_paid, over_time_charges
from monitor.tools.audit.records import PublishedRecord, Told, each_once, read_file
from monitor.tools.audit.sequence import Sequence
from monitor.tools.audit.terms import AuditTerms, read_terms
from monitor.tools.audit.text import instant
from monitor.tools.audit.topics import Kept, OpenConsumer, Topic, read_input, read_output
from monitor.tools.audit.visits import Visits, read_visits

_KINDS: Final = {"over_time", "at_times", "hot_spots"}

_Check = OverTimeCheck | AtTimesCheck | HotSpotsCheck


@dataclass
class _Judge:
    """Hands every record to the check of its monitor, and remembers the ticks."""

    terms: AuditTerms
    visits: Visits
    every_tick: bool
    whole: bool = True
    findings: Findings = field(default_factory=Findings)
    records: int = 0
    ticks: set[int] = field(default_factory=set)
    paid: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """Count what is to be compared with."""
        sequence = Sequence(self.findings, self.every_tick)
        self.presence: dict[str, Presence] = {
            monitor.name: present(self.visits, self.terms, monitor, monitor.threshold)
            for monitor in self.terms.at_times
        }
        self.presence |= {monitor.name: present(self.visits, self.terms, monitor) for monitor in self.terms.hot_spots}
        self.over_time = {
            monitor.name: OverTimeCheck(
                self.terms,
                monitor,
                counted(self.visits, self.terms, monitor),
                sequence,
                self.findings,
                whole=self.whole,
            )
            for monitor in self.terms.over_time
        }
        self.at_times = {
            monitor.name: AtTimesCheck(
                self.terms, monitor, self.presence[monitor.name], sequence, self.findings, whole=self.whole
            )
            for monitor in self.terms.at_times
        }

        self.hot_spots = {
            monitor.name: HotSpotsCheck(
                self.terms, monitor, self.presence[monitor.name], self.findings, every_tick=self.every_tick
            )
            for monitor in self.terms.hot_spots
        }

    @property
    def checks(self) -> dict[str, _Check]:
        """Every monitor's check."""
        return {**self.over_time, **self.at_times, **self.hot_spots}

    def take(self, record: PublishedRecord) -> None:
        """Judge a record; of those for the service itself it matters only whether a ledger was lost."""
        self.records += 1
        if record.kind not in _KINDS:
            self._note_loss(record)
            return
        kinds: dict[str, Mapping[str, _Check]] = {
            "over_time": self.over_time,
            "at_times": self.at_times,
            "hot_spots": self.hot_spots,
        }
        try:
            check = kinds[record.kind].get(record.value["monitor"])
            if check is None:
                self.findings.say(FORM, f"{record.ce_id} ({record.place}): the configuration has no such monitor")
                return
            self.ticks.add(int(record.value["tick"]))
            check.take(record)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            text = f"{record.ce_id} ({record.place}): not as the interface says: {error!r}"
            self.findings.say(FORM, text)

    def _note_loss(self, record: PublishedRecord) -> None:
        lost_at = record.value.get("lost_at") if isinstance(record.value, dict) else None
        if isinstance(lost_at, str):
            for check in self.over_time.values():
                check.lost_tick = self.terms.grid.slot_of(instant(lost_at))

    def finish(self) -> None:
        """Check what can be said only at the end."""
        if not self.ticks:
            self.findings.say(TICKS, "the output topic answers no tick")
            return
        first, last = min(self.ticks), max(self.ticks)
        if self.every_tick:
            first = first_slot(self.visits, self.terms, first)
        for check in self.checks.values():
            check.finish(first, last)
        self.paid = self._paid()
        if self.paid > self.terms.may_pay:
            text = f"one person paid ε = {self.paid} within a period, more than the {self.terms.may_pay} that is stated"
            self.findings.say(PAID, text)

    def _paid(self) -> Fraction:
        """The most that one person paid: each answer charges those whom its count holds, reported before its as_of."""
        charges = [
            over_time_charges(self.visits, self.terms, monitor, answer, answer.tick)
            for monitor in self.terms.over_time
            for answer in self.over_time[monitor.name].answers
        ]
        charges += [
            at_times_charges(self.presence[monitor.name], self.terms, monitor.epsilon, answer, answer.tick)
            for monitor in self.terms.at_times
            for answer in self.at_times[monitor.name].answers
        ]
        charges += [
            hot_spots_charges(self.presence[monitor.name], self.terms, monitor.epsilon, drawn, drawn.tick)
            for monitor in self.terms.hot_spots
            for drawn in self.hot_spots[monitor.name].answers
        ]
        return most_paid(charges)


def audit(
    visits: Path, config: Path, alerts: Path, *, every_tick: bool = True, fates: Mapping[str, int] | None = None
) -> AuditReport:
    """Recount a run from its input and judge every record of its output topic.

    Args:
        visits: the replay file (docs/interface.md, section 2); `reported_at` is the time that Kafka stamped a visit with.
        config: the configuration; what came from the environment must be written in it.
        alerts: the output topic as `replay` writes it.
        every_tick: whether every tick must be there, as after a replay; False for a service that ran by the clock.
        fates: visits by fate as the service counted them, to be compared.

    Raises:
        AuditError: one of the files cannot be read.
    """
    terms = read_terms(config)
    return _report(_Judge(terms, read_visits(visits, terms), every_tick), read_file(alerts), fates)


def audit_topics(
    config: Path, open_consumer: OpenConsumer, visits: str, alerts: str, open_input: OpenConsumer | None = None
) -> tuple[AuditReport, Kept, Kept]:
    """Recount a run by the clock from its topics, as far back as they go: the report, and what the two still hold.

    What has expired from the input lowers the counts that the answers are compared with, so that nothing is found wrong
    that was right; what has expired from the output is taken from the first records that are left.

    Args:
        config: the configuration; what came from the environment must be written in it.
        open_consumer: opens a kafka-python consumer without a group.
        visits: the input topic.
        alerts: the output topic.
        open_input: opens another one for the input topic, which gives also batches that kafka-python would not read.

    Raises:
        AuditError: the configuration or a topic cannot be read.
    """
    terms = read_terms(config)
    output = Topic(open_consumer, alerts, committed=False)
    source = Topic(
        open_input or open_consumer, visits, committed=True
    )  # opened later, so that it holds all that was answered about
    judge = _Judge(terms, read_input(source, terms), every_tick=False, whole=not output.kept.expired)
    return _report(judge, read_output(output), None), source.kept, output.kept


def _report(judge: _Judge, records: Iterator[Told], said: Mapping[str, int] | None) -> AuditReport:
    """Judge all records, and say what was found."""
    for record in each_once(records, judge.findings):
        judge.take(record)
    judge.finish()
    checks = judge.checks
    last_tick = max(judge.ticks, default=None)
    recounted = {} if last_tick is None else fates_of(judge.visits, judge.terms, last_tick)
    if said is None:
        del judge.findings.listed[FATES]
    else:
        _compare(said, recounted, judge.findings)
    return AuditReport(
        records=judge.records,
        ticks=len(judge.ticks),
        first_tick=min(judge.ticks, default=None),
        last_tick=last_tick,
        whole_until=whole_until(judge.visits, judge.terms, last_tick or 0),
        answers={(name, status): n for name, check in checks.items() for status, n in check.statuses.items()},
        safe=sum(check.safe for check in checks.values()),
        noisy=sum(check.noisy for check in checks.values()),
        violations=judge.findings.listed,
        totals=dict(judge.findings.totals),
        paid=judge.paid,
        may_pay=judge.terms.may_pay,
        fates=recounted,
    )


def _compare(said: Mapping[str, int], recounted: Mapping[str, int], findings: Findings) -> None:
    for fate, number in recounted.items():
        if said.get(fate, 0) != number:
            findings.say(FATES, f"{fate}: the service counted {said.get(fate, 0)} visits, the recount {number}")


def first_slot(visits: Visits, terms: AuditTerms, least: int) -> int:
    """The slot of the first accepted visit, or of its report, or another, whichever is the earliest."""
    arrived = (visits.arrived - terms.grid.origin) // terms.grid.slot
    return int(np.minimum(arrived, visits.current).min(initial=least))


def whole_until(visits: Visits, terms: AuditTerms, most: int) -> int:
    """The tick at which every accepted visit has left every window and horizon; without any, the one given."""
    windows = [monitor.window for monitor in terms.over_time]
    horizons = [-(-monitor.horizon // terms.grid.slot) for monitor in terms.timed]
    if not visits.row.size:
        return most
    return int(np.maximum(visits.last, visits.current).max()) + max([*windows, *horizons])
