"""What people paid, and what the published answers may have cost anyone (docs/rules.md, section 6).

A noisy answer charges every person with a visit in its count. The charge falls in a period if the last slot of such a
visit touches the period. For an answer about a designated time τ, it falls in the periods that contain τ. Periods may
begin at any instant. Hot spots charge every person who was anywhere at τ, because their ε pays for the noisy counts of
all locations. Lower bounds charge every visit without consent in their shard, because they hide that consent is
missing. Dwell times charge every person who was anywhere at τ, once.

The most that anyone can have paid is the ε of somebody who was at every location, but at a designated time at one. It
needs no input, so anyone can compute it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from monitor.tools.audit.findings import PAID, Findings
from monitor.tools.audit.recount import Recount, select
from monitor.tools.audit.terms import AuditTerms
from monitor.tools.audit.visits import AcceptedVisit


class Charge(NamedTuple):
    """The ε that one visit pays for an answer, in every period that begins at an instant in [first, end).

    A person pays for the same `answer` once per period, even if it charges several of their visits.
    """

    answer: Hashable
    epsilon: Fraction
    first: int
    end: int


class Answer(NamedTuple):
    """A noisy answer of a tick. It counts visits reported up to the slot of this tick.

    `subject` is a row for `over_time`; τ and a row for `at_times`; τ and a shard for `at_least`; τ for other kinds.
    """

    number: int
    kind: str
    monitor: str
    subject: tuple[int, ...]
    epsilon: Fraction
    tick: int


class NoisyAnswers:
    """The noisy answers of one configuration, by what they are about.

    `recount`: the visits that they charge; None if there is no input to compare with. `added`: the number of answers so
    far, including those that were forgotten.
    """

    def __init__(self, terms: AuditTerms, recount: Recount | None) -> None:
        self.recount = recount
        self.added = 0
        self._terms = terms
        self._windows = {monitor.name: monitor.window for monitor in terms.over_time}
        self._by_tick: dict[int, list[Answer]] = {}
        self._about: dict[tuple[str, tuple[int, ...]], list[Answer]] = {}
        self._times: list[int] = []

    def add(self, kind: str, monitor: str, subject: tuple[int, ...], epsilon: Fraction, tick: int) -> None:
        """Add an answer."""
        answer = Answer(self.added, kind, monitor, subject, epsilon, tick)
        self.added += 1
        self._by_tick.setdefault(tick, []).append(answer)
        insort(self._about.setdefault((kind, subject), []), answer, key=lambda known: known.tick)
        if kind != "over_time" and not select(self._times, subject[0], subject[0] + 1):
            insort(self._times, subject[0])

    def forget(self, tick: int) -> None:
        """Forget the answers before a tick."""
        for at in [at for at in self._by_tick if at < tick]:
            for answer in self._by_tick.pop(at):
                self._about[answer.kind, answer.subject].remove(answer)
        self._about = {subject: answers for subject, answers in self._about.items() if answers}
        self._times = sorted({subject[0] for kind, subject in self._about if kind != "over_time"})

    def list_people(self, tick: int) -> Iterator[int]:
        """Yield the people whom the answers of a tick may charge."""
        if self.recount is not None:
            for answer in self._by_tick.get(tick, ()):
                yield from _list_people(answer, self.recount)

    def find_charges(self, person: int) -> Iterator[Charge]:
        """Yield the charges of a person's visits."""
        for visit in () if self.recount is None else self.recount.own.get(person, ()):
            yield from self._find_window_charges(visit)
            for time in select(self._times, visit.arrived, visit.left):
                yield from self._find_time_charges(visit, time)

    def _find_window_charges(self, visit: AcceptedVisit) -> Iterator[Charge]:
        answers = self._about.get(("over_time", (visit.row,)), [])
        first, end = self._terms.grid.start(visit.last) - self._terms.period + 1, self._terms.grid.start(visit.last + 1)
        low, high = (
            bisect_left(answers, tick, key=lambda answer: answer.tick)
            for tick in (visit.current, visit.last + max(self._windows.values(), default=0))
        )
        for answer in answers[low:high]:
            if answer.tick < visit.last + self._windows[answer.monitor]:
                yield Charge(answer.number, answer.epsilon, first, end)

    def _find_time_charges(self, visit: AcceptedVisit, time: int) -> Iterator[Charge]:
        shard, first, end = self._terms.shard[visit.row], time - self._terms.period + 1, time + 1
        subjects = {"at_times": (time, visit.row), "hot_spots": (time,), "dwell": (time,)}
        if not visit.consent:
            subjects["at_least"] = time, shard
        for kind, subject in subjects.items():
            for answer in self._about.get((kind, subject), ()):
                if visit.current <= answer.tick:
                    name = (answer.number, visit.row) if kind in ("hot_spots", "at_least") else answer.number
                    yield Charge(name, answer.epsilon, first, end)

    def list_costs(self, monitor: str | None = None) -> Iterator[Charge]:
        """Yield what one person may pay for each answer, of one monitor or of all."""
        grid, period = self._terms.grid, self._terms.period
        for answer in (answer for answers in self._by_tick.values() for answer in answers):
            if monitor not in (None, answer.monitor):
                continue
            if answer.kind == "over_time":
                oldest = grid.start(answer.tick - self._windows[answer.monitor] + 1)
                newest = grid.start(answer.tick + self._terms.max_lead + 1)
                yield Charge(answer.number, answer.epsilon, oldest - period + 1, newest)
            else:  # at one location at τ
                time = answer.subject[0]
                yield Charge((answer.kind, answer.monitor, time), answer.epsilon, time - period + 1, time + 1)


class Payments:
    """The check that no person paid more ε than stated, and that the published answers cannot have cost anyone more.

    A sum above the stated ε is a finding if it exceeds all earlier sums. `most_spent`: the most that one person may
    have paid in any period so far, from the output alone. `most_paid`: the most that one person did pay.
    """

    def __init__(self, answers: Sequence[NoisyAnswers], findings: Findings) -> None:
        self._answers = answers
        self._findings = findings
        self._worst = {"spent": Fraction(0), "paid": Fraction(0)}
        self._checked = 0
        self.most_spent = self.most_paid = Fraction(0)

    def find_most_spent(self, monitor: str | None = None) -> Fraction:
        """Return the most ε that one person may have paid in a period, for a monitor's published answers or for all."""
        return find_most_in_a_period(_join(answers.list_costs(monitor) for answers in self._answers))

    def check_published(self, may_pay: Fraction) -> None:
        """Check the answers so far from the output alone."""
        added = sum(answers.added for answers in self._answers)
        if added > self._checked:
            self._checked, spent = added, self.find_most_spent()
            self.most_spent = max(self.most_spent, spent)  # earlier answers may have been forgotten
            self._compare("spent", spent, may_pay, "the published answers may have cost one person")

    def check_paid(self, may_pay: Fraction, tick: int | None = None) -> None:
        """Check what all people paid, or those whom an answer of a tick may charge."""
        people: set[int] = set()
        for answers in self._answers:
            if tick is not None:
                people.update(answers.list_people(tick))
            elif answers.recount is not None:
                people.update(answers.recount.own)
        charges = ((answers.find_charges(person) for answers in self._answers) for person in people)
        paid = max((find_most_in_a_period(_join(charged)) for charged in charges), default=Fraction(0))
        self.most_paid = max(self.most_paid, paid)
        self._compare("paid", paid, may_pay, "one person paid")

    def _compare(self, what: str, epsilon: Fraction, may_pay: Fraction, words: str) -> None:
        if self._findings.muted:  # a sum that is not reported must not hide a later one
            return
        if epsilon > may_pay and epsilon > self._worst[what]:
            self._findings.add(PAID, f"{words} ε = {epsilon} within a period, more than the stated {may_pay}")
        self._worst[what] = max(self._worst[what], epsilon)


def _join(charges: Iterable[Iterable[Charge]]) -> Iterator[Charge]:
    """Yield the charges of several configurations, whose answers are different ones."""
    for number, listed in enumerate(charges):
        yield from (charge._replace(answer=(number, charge.answer)) for charge in listed)


def _list_people(answer: Answer, recount: Recount) -> Iterator[int]:
    """Yield the people whom a noisy answer may charge."""
    if answer.kind == "over_time":
        location = recount.terms.locations[answer.subject[0]]
        yield from recount.counts[answer.monitor][location].list_people_at(answer.tick)
    elif answer.kind == "dwell":
        yield from (visit.person for visit in recount.lengths[answer.monitor].get(answer.subject[0], ()))
    else:
        yield from recount.presence[answer.monitor].list_people_at(answer.subject[0])


def find_most_in_a_period(charges: Iterable[Charge]) -> Fraction:
    """Return the most that one person pays in any period, given all their charges."""
    begins_and_ends = [
        (at, begins, charge) for charge in charges for at, begins in ((charge.first, True), (charge.end, False))
    ]
    visits_charged: Counter[Hashable] = Counter()
    paid = most = Fraction(0)
    for _at, begins, charge in sorted(begins_and_ends, key=lambda event: event[:2]):  # ends come before beginnings
        if begins:
            visits_charged[charge.answer] += 1
            if visits_charged[charge.answer] == 1:
                paid += charge.epsilon
                most = max(most, paid)
        else:
            visits_charged[charge.answer] -= 1
            if visits_charged[charge.answer] == 0:
                paid -= charge.epsilon
    return most
