"""The judge of one configuration: the checks of its monitors. Several configurations can have been in force in turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

from monitor.tools.audit.at_times import AtTimesCheck
from monitor.tools.audit.counts import CountAt, PeopleAtTimes, count_people, find_present
from monitor.tools.audit.dwell import DwellCheck, MeasuredVisit, measure_visits
from monitor.tools.audit.fields import FormError
from monitor.tools.audit.findings import FORM, Findings
from monitor.tools.audit.history import History
from monitor.tools.audit.hot_spots import HotSpotsCheck
from monitor.tools.audit.over_time import OverTimeCheck
from monitor.tools.audit.owners import OwnerFacts
from monitor.tools.audit.payments import NoisyAnswers
from monitor.tools.audit.records import PublishedRecord
from monitor.tools.audit.terms import AtTimesTerms, AuditTerms, DwellTerms, HotSpotsTerms, OverTimeTerms
from monitor.tools.audit.visits import Visits

KINDS: Final = ("over_time", "at_times", "hot_spots", "dwell")
OWNER_KINDS: Final = ("owner", "ledger")

Check = OverTimeCheck | AtTimesCheck | HotSpotsCheck | DwellCheck


class Recount(Protocol):
    """The people and lengths that the visits of the input give under one configuration."""

    def find_counts(self, monitor: OverTimeTerms) -> Mapping[str, CountAt]:
        """Return the number of people in the window, by location."""

    def find_presence(self, monitor: AtTimesTerms | HotSpotsTerms) -> PeopleAtTimes:
        """Return the people at each designated time."""

    def find_lengths(self, monitor: DwellTerms) -> Mapping[int, Sequence[MeasuredVisit]]:
        """Return the visits that cover each designated time, with their lengths."""


class WholeRecount:
    """The recount of all visits at once."""

    def __init__(self, visits: Visits, terms: AuditTerms) -> None:
        self._visits = visits
        self._terms = terms

    def find_counts(self, monitor: OverTimeTerms) -> Mapping[str, CountAt]:
        """Return the number of people in the window, by location."""
        return count_people(self._visits, self._terms, monitor)

    def find_presence(self, monitor: AtTimesTerms | HotSpotsTerms) -> PeopleAtTimes:
        """Return the people at each designated time."""
        threshold = monitor.threshold if isinstance(monitor, AtTimesTerms) else None
        return find_present(self._visits, self._terms, monitor, threshold)

    def find_lengths(self, monitor: DwellTerms) -> Mapping[int, Sequence[MeasuredVisit]]:
        """Return the visits that cover each designated time, with their lengths."""
        return measure_visits(self._visits, self._terms, monitor)


class Judge:
    """The checks of one configuration's monitors. `recount` is None if there is no input to compare with.

    Each check has the methods `take`, `prove`, `forget` and `finish`. A judge passes each record to one check.
    """

    def __init__(self, terms: AuditTerms, recount: Recount | None, history: History, findings: Findings) -> None:
        self.terms = terms
        self._findings = findings
        self._whole = history.marks.whole
        self._answered = history.answered
        self.over_time = {
            monitor.name: OverTimeCheck(
                terms, monitor, None if recount is None else recount.find_counts(monitor), history, findings
            )
            for monitor in terms.over_time
        }
        self.at_times = {
            monitor.name: AtTimesCheck(
                terms, monitor, None if recount is None else recount.find_presence(monitor), history, findings
            )
            for monitor in terms.at_times
        }
        self.hot_spots = {
            monitor.name: HotSpotsCheck(
                terms, monitor, None if recount is None else recount.find_presence(monitor), history, findings
            )
            for monitor in terms.hot_spots
        }
        self.dwell = {
            monitor.name: DwellCheck(
                terms, monitor, None if recount is None else recount.find_lengths(monitor), history, findings
            )
            for monitor in terms.dwell
        }

    @property
    def checks(self) -> dict[str, Check]:
        """The check of every monitor."""
        return {**self.over_time, **self.at_times, **self.hot_spots, **self.dwell}

    def find_check(self, record: PublishedRecord) -> Check | None:
        """Return the check of a record; None if the configuration has no such monitor of this kind."""
        kinds: dict[str, Mapping[str, Check]] = {
            "over_time": self.over_time,
            "at_times": self.at_times,
            "hot_spots": self.hot_spots,
            "dwell": self.dwell,
        }
        name = record.value.get("monitor") if isinstance(record.value, dict) else None
        return kinds[record.kind].get(name) if isinstance(name, str) else None

    def take(self, record: PublishedRecord) -> PublishedRecord | None:
        """Check everything about a record that does not need the recount.

        Return the record for `prove`, or None if it cannot be compared.
        """
        check = self.find_check(record)
        if check is None:
            self._findings.add(FORM, f"{record.place}: the configuration has no such monitor")
            return None
        try:
            return record if check.take(record) else None
        except FormError as error:
            self._findings.add(FORM, f"{record.place}: not in the form of the interface: {error}")
            return None

    def prove(self, record: PublishedRecord) -> None:
        """Compare a record that `take` returned with the recount."""
        check = self.find_check(record)
        if check is not None:
            check.prove(record)

    def take_owner(self, partition: int | None, facts: OwnerFacts) -> None:
        """Note from an owner or start record whether a ledger was lost."""
        if facts.lost_at is not None:
            lost = self.terms.grid.find_slot(facts.lost_at)
            for check in self.over_time.values():
                check.lost_slots[partition] = max(lost, check.lost_slots.get(partition, lost))

    def list_unanswered(self, tick: int) -> Iterator[str]:
        """Yield the monitor of each designated time whose hot spots or dwell times this tick should have answered."""
        for monitor in (*self.terms.hot_spots, *self.terms.dwell):
            for time in monitor.find_final_times(tick, self.terms.grid):
                if (monitor.name, time) not in self._answered:
                    yield monitor.name

    def finish(self, first: int, last: int) -> None:
        """After the last record, check that no tick is missing."""
        for check in self.checks.values():
            check.finish(first, last)

    def forget(self, tick: int) -> None:
        """Forget the answers before a tick."""
        for check in self.checks.values():
            check.forget(tick)

    def set_whole_input(self, whole: bool) -> None:  # noqa: FBT001  # a state
        """Set whether the recount has every visit that the next answers may count."""
        for timed in self.at_times.values():
            timed.lower_bounds.whole_input = whole
        for dwell in self.dwell.values():
            dwell.whole_input = whole

    def collect_answers(self) -> NoisyAnswers:
        """Return all noisy answers."""
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
        return answers
