"""The audit as a whole: the visits counted anew, then every record of the output topic judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np

from monitor.audit.at_times import AtTimesCheck
from monitor.audit.counts import Presence, counted, present
from monitor.audit.fates import fates_of
from monitor.audit.findings import FATES, FORM, PAID, TICKS, Findings, Report
from monitor.audit.hot_spots import HotSpotsCheck
from monitor.audit.over_time import OverTimeCheck
from monitor.audit.payments import at_times_charges, hot_spots_charges, most_paid, over_time_charges
from monitor.audit.records import Record, read_records
from monitor.audit.sequence import Sequence
from monitor.audit.terms import Terms, read_terms
from monitor.audit.visits import Visits, read_visits

_KINDS: Final = {"over_time", "at_times", "hot_spots"}

_Check = OverTimeCheck | AtTimesCheck | HotSpotsCheck


@dataclass
class _Judge:
    """Hands every record to the check of its monitor, and remembers the ticks."""

    terms: Terms
    visits: Visits
    every_tick: bool
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
                self.terms, monitor, counted(self.visits, self.terms, monitor), sequence, self.findings
            )
            for monitor in self.terms.over_time
        }
        self.at_times = {
            monitor.name: AtTimesCheck(self.terms, monitor, self.presence[monitor.name], sequence, self.findings)
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

    def take(self, record: Record) -> None:
        """Judge a record; those of kinds for the service itself are passed over."""
        self.records += 1
        if record.kind not in _KINDS:
            return
        kinds: dict[str, Mapping[str, _Check]] = {
            "over_time": self.over_time,
            "at_times": self.at_times,
            "hot_spots": self.hot_spots,
        }
        try:
            check = kinds[record.kind].get(record.value["monitor"])
            if check is None:
                self.findings.say(FORM, f"{record.ce_id} (line {record.line}): the configuration has no such monitor")
                return
            self.ticks.add(int(record.value["tick"]))
            check.take(record)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            text = f"{record.ce_id} (line {record.line}): not as the interface says: {error!r}"
            self.findings.say(FORM, text)

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
        """The most that one person paid.

        Where not every tick is there, the service ran by the clock: its counts were read before the next tick closed,
        and may hold, and charge, visits of the slot between.
        """
        late = 0 if self.every_tick else 1
        charges = [
            over_time_charges(self.visits, self.terms, monitor, answer, answer.tick + late)
            for monitor in self.terms.over_time
            for answer in self.over_time[monitor.name].answers
        ]
        charges += [
            at_times_charges(self.presence[monitor.name], self.terms, monitor.epsilon, answer, answer.tick + late)
            for monitor in self.terms.at_times
            for answer in self.at_times[monitor.name].answers
        ]
        charges += [
            hot_spots_charges(self.presence[monitor.name], self.terms, monitor.epsilon, drawn, drawn.tick + late)
            for monitor in self.terms.hot_spots
            for drawn in self.hot_spots[monitor.name].answers
        ]
        return most_paid(charges)


def audit(
    visits: Path, config: Path, alerts: Path, *, every_tick: bool = True, fates: Mapping[str, int] | None = None
) -> Report:
    """Recount a run from its input and judge every record of its output topic.

    Args:
        visits: the replay file (interface, section 2); `reported_at` is the time that Kafka stamped a visit with.
        config: the configuration; what came from the environment must be written in it.
        alerts: the output topic as `replay` writes it.
        every_tick: whether every tick must be there, as after a replay; False for a service that ran by the clock.
        fates: visits by fate as the service counted them, to be compared.

    Raises:
        AuditError: one of the files cannot be read.
    """
    terms = read_terms(config)
    judge = _Judge(terms, read_visits(visits, terms), every_tick)
    for record in read_records(alerts, judge.findings):
        judge.take(record)
    judge.finish()
    return _report(judge, fates)


def _report(judge: _Judge, said: Mapping[str, int] | None) -> Report:
    checks = judge.checks
    last_tick = max(judge.ticks, default=None)
    recounted = {} if last_tick is None else fates_of(judge.visits, judge.terms, last_tick)
    if said is None:
        del judge.findings.listed[FATES]
    else:
        _compare(said, recounted, judge.findings)
    return Report(
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


def first_slot(visits: Visits, terms: Terms, least: int) -> int:
    """The slot of the first accepted visit, or of its report, or another, whichever is the earliest."""
    arrived = (visits.arrived - terms.grid.origin) // terms.grid.slot
    return int(np.minimum(arrived, visits.current).min(initial=least))


def whole_until(visits: Visits, terms: Terms, most: int) -> int:
    """The tick at which every accepted visit has left every window and horizon; without any, the one given."""
    windows = [monitor.window for monitor in terms.over_time]
    horizons = [-(-monitor.horizon // terms.grid.slot) for monitor in terms.timed]
    if not visits.row.size:
        return most
    return int(np.maximum(visits.last, visits.current).max()) + max([*windows, *horizons])
