"""The audit itself: it takes published records tick by tick, and compares each tick with the input.

Bytes, form, pauses and ε are checked at once, because this needs only the output. Where the records and the visits come
from is decided by the caller: files (audit.py) or topics (follow.py).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from monitor.audit.check_output import OutputChecks, WaitingTick
from monitor.audit.checks_of_configuration import Judge
from monitor.audit.configuration import AuditTerms, require_one_grid
from monitor.audit.findings import TICKS, Findings, Outcome, ProvenStretch, count_false
from monitor.audit.history import History
from monitor.audit.kinds.all_kinds import ORACLES
from monitor.audit.kinds.base.monitor import Scope
from monitor.audit.read_records import FORMS
from monitor.audit.record_fields import Record
from monitor.audit.recount_payments import Payments
from monitor.audit.recount_visits import Recount

MOST_WAITING_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of answers, as published, that wait until the input can be read. If more wait, the oldest are never
compared with it.
"""

SPARE_TICKS: Final = 3
_AHEAD: Final = 60 * 1_000_000
"""How far the service's clock may be ahead of this one, in microseconds."""

_SPARE_SLOTS: Final = 2
"""Added to the slots before a tick in which the visits that it counts were reported: neither end is a slot's start."""

_NEVER: Final = 2**62


@dataclass(frozen=True, slots=True)
class Run:
    """How a run is audited."""

    ends: bool = True
    """It is read to its end, so everything is kept, and payments are computed at the end."""
    every_tick: bool = False
    """Every tick must be answered, as in a replay."""
    since: int | None = None
    """An instant: findings about earlier ticks are not reported, because somebody has examined them."""
    now: Callable[[], int] = lambda: _NEVER
    """Returns the current instant. With the default no answer is ahead of the clock."""


class Engine:
    """The audit of a run by its configurations, newest first.

    The state is in memory. Unless the run ends, its size is bounded by the windows. `recounts` are empty if there is no
    input to compare with. `waiting`: the ticks that have not been compared with the input. `records`: the number of
    records by kind. `outcomes`: the number of ticks by what is known about them. `since`: the first tick whose findings
    are reported; None: all are.
    """

    def __init__(self, configs: Sequence[AuditTerms], recounts: Sequence[Recount], run: Run) -> None:
        require_one_grid(configs)
        self.terms, self._run, self._recounts = configs[0], run, recounts
        self.since = None if run.since is None else self.terms.grid.find_slot(run.since)
        self.findings = Findings(ORACLES)
        self._history = History(self.findings)
        given: list[Recount | None] = [*recounts] or [None] * len(configs)
        self.payments = Payments(self.findings)
        self.judges = [
            Judge(terms, Scope(terms, self._history, self.payments, self.findings), recount)
            for terms, recount in zip(configs, given, strict=True)
        ]
        self.output = OutputChecks(
            self.judges, self._history, self.findings, self.is_ahead, every_tick=run.every_tick and len(configs) == 1
        )
        self.waiting: deque[WaitingTick] = deque()
        self.records: Counter[str] = Counter()
        self.outcomes: Counter[Outcome] = Counter()
        self._sound = self._first_of_turn = True
        self._proven_since: int | None = None
        self._newest: dict[int, int] = {}
        self._reach = max(terms.lifetime + terms.max_lead for terms in configs) + _SPARE_SLOTS
        self._period = max(-(-terms.period // terms.grid.slot) for terms in configs)
        self._forgotten = 0
        self._counted: deque[int] = deque(maxlen=SPARE_TICKS)

    @property
    def complete(self) -> bool:
        """Whether the last turn that judged a tick judged all of its ticks completely.

        That is, by a given configuration, and with all input that they count. Without an input to compare with,
        checking the output suffices.
        """
        return self._sound and not self.output.unjudged

    @property
    def proven_stretch(self) -> ProvenStretch | None:
        """The stretch in which everything was compared with the whole input; None unless all ticks have been judged."""
        since, grid = self._proven_since, self.terms.grid
        if since is None or self.waiting or not self.complete:
            return None
        last = min(
            tick if self.output.parts.is_whole(partition) else tick - 1
            for partition, tick in self.output.parts.last.items()
        )
        if last < since:
            return None
        false = count_false(self.findings.totals)
        return ProvenStretch(grid.as_of(since), grid.as_of(last), false, self.payments.most_spent)

    def note_expired(self) -> None:
        """Note that output has expired. What the first remaining records say about it is assumed to be correct."""
        self._history.whole = False

    def is_ahead(self, tick: int) -> bool:
        """Return whether a tick is far ahead of the clock. Such a tick must not decide the order of the others."""
        return self.terms.grid.start(tick) > self._run.now() + _AHEAD

    def order(self, record: Record) -> int:
        """Return the tick at which the next record of its partition is judged.

        Records are judged by tick, then by partition and offset. A record without a tick, or with an earlier one, stays
        after its predecessor in its partition. A tick that is far ahead of the clock does not count.
        """
        newest = self._newest.get(record.partition, -1 << 62)
        if record.tick is not None and not self.is_ahead(record.tick):
            newest = self._newest[record.partition] = max(record.tick, newest)
        return newest

    def begin_turn(self) -> None:
        """Note that the next tick that is compared is the first of another turn (`complete`)."""
        self._first_of_turn = True

    def take_tick(self, tick: int, records: Iterable[Record], ends: Mapping[int, int] | None = None) -> None:
        """Check the records of a tick, by partition, from the output alone, and let them wait for the input.

        `ends`: the ends of the input, requested after the records had been read.
        """
        waiting = WaitingTick(tick, ends)
        self._mute(tick)
        partitions = set()
        for record in sorted(records, key=lambda record: record.partition):
            partitions.add(record.partition)
            self.records[record.kind if record.kind in FORMS else "other"] += 1
            self.output.take(record, waiting)
        for partition in sorted(partitions):
            self.output.note_stretch(partition)
        if not self._run.ends:
            with self.findings.catch_errors(f"tick {tick}"):
                self.payments.check(self._may_pay)
        if waiting.answers or waiting.unjudged or waiting.flawed:
            self.waiting.append(waiting)

    def compare(self, complete_from: int | None = None, input_id: str = "") -> None:
        """Compare the oldest waiting tick with the input, of which everything that its answers count was read.

        Args:
            complete_from: the instant since which the input is complete; None if nothing has expired.
            input_id: the id of the input topic; "" if it is not known. If the answers count another one, that input was
                re-created, and the visits that they count are gone.
        """
        waiting = self.waiting.popleft()
        tick, outcome = waiting.tick, Outcome.OUTPUT_ONLY
        self._mute(tick)
        if self._recounts:
            whole = complete_from is None or complete_from <= self.terms.grid.start(tick - self._reach)
            whole = whole and (not input_id or waiting.input_ids <= {input_id})
            outcome = self._compare(waiting, whole=whole)
        outcome = Outcome.UNJUDGED if waiting.unjudged else outcome
        self._note_outcome(outcome)
        if outcome is not Outcome.PROVEN or self.findings.muted:
            self._proven_since = None
        elif self._proven_since is None:
            self._proven_since = tick
        if tick not in self._counted:  # a tick can be read and judged in parts
            self._counted.append(tick)
            self.outcomes[outcome] += 1
        if not self._run.ends:
            self._forget(tick)

    def _note_outcome(self, outcome: Outcome) -> None:
        """Note whether a tick was judged completely. The first one of a turn replaces the result of earlier turns."""
        sound = outcome in (Outcome.PROVEN, Outcome.OUTPUT_ONLY)
        self._sound = sound and (self._sound or self._first_of_turn)
        self._first_of_turn = False

    def _compare(self, waiting: WaitingTick, *, whole: bool) -> Outcome:
        """Compare the answers of a tick with the recounts. Return what is known about the tick."""
        faults = self.findings.form_faults
        for recount in self._recounts:
            recount.note_whole(whole=whole)
        for position, prove in waiting.answers:
            with self.findings.catch_errors(position):
                prove()
        if not whole:
            return Outcome.PARTIAL
        return Outcome.UNPROVEN if waiting.flawed or self.findings.form_faults > faults else Outcome.PROVEN

    def drop_waiting(self) -> None:
        """Give up comparing the oldest answers if too many wait. Of a run that ends, all are kept."""
        size = sum(waiting.size for waiting in self.waiting)
        while not self._run.ends and len(self.waiting) > 1 and size > MOST_WAITING_BYTES:
            size -= self.waiting.popleft().size
            self.outcomes[Outcome.UNPROVEN] += 1
            self._note_outcome(Outcome.UNPROVEN)
            self._proven_since = None

    def finish(self, first_slot: int | None) -> None:
        """After the last record, check that no tick is missing, and what the answers cost.

        `first_slot`: the first slot in which a visit was reported or took place; None if there is no visit.
        """
        first = self.output.first_tick
        if first is None:
            if not self.output.unjudged_records:
                self.findings.add(TICKS, "the output topic answers no tick")
            return
        self.output.parts.finish(first if first_slot is None else min(first, first_slot))
        self.payments.check(self.terms.may_pay)

    @property
    def _may_pay(self) -> Fraction:
        """The largest `privacy.epsilon` of the configurations in force."""
        return max(judge.terms.may_pay for judge in self.output.stretches.find_in_force() or self.judges)

    def _mute(self, tick: int) -> None:
        self.findings.muted = self.since is not None and tick < self.since

    def _forget(self, tick: int) -> None:
        """Forget what no later answer can need. This is not done at every tick, because it takes time."""
        if tick - self._forgotten < max(1, self._reach // 16):
            return
        self._forgotten = tick
        for recount in self._recounts:
            recount.forget(tick - SPARE_TICKS)
        charged = tick - 2 * self._reach - self._period - SPARE_TICKS
        self.payments.forget(charged)
        self._history.forget(charged, self.terms.grid.start(charged))
