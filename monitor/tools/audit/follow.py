"""Follow the output topic, and judge each tick as it is published.

Bytes, form, pauses and ε are checked at once, because this needs only the output. The answers are compared with the
input as soon as everything that they count can be read. The state is in memory, and its size is bounded by the windows.
After a restart everything is computed again from the records that the topics still contain, so nothing is lost or
counted twice. Records that have expired by then are assumed to be correct.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from monitor.tools.audit.completeness import Completeness
from monitor.tools.audit.findings import count_false
from monitor.tools.audit.follow_state import FollowState, WaitingTick
from monitor.tools.audit.history import History
from monitor.tools.audit.input_ids import counts_another_input
from monitor.tools.audit.judge import Judge
from monitor.tools.audit.partition_ticks import read_tick
from monitor.tools.audit.reader import HiddenRecordsError, TopicFacts, TopicReader, UnreadableTopicError
from monitor.tools.audit.records import ReadRecord, decode_record
from monitor.tools.audit.rolling import RollingRecount
from monitor.tools.audit.rolling_input import PATIENCE_SECONDS, RollingInput
from monitor.tools.audit.rolling_payments import PaidCheck
from monitor.tools.audit.sequence import TickSequence
from monitor.tools.audit.terms import AuditTerms, require_one_grid
from monitor.tools.audit.topics import OpenConsumer
from monitor.tools.audit.watching import Outcome, ProvenStretch, ReportedFindings, Watcher

MOST_WAITING: Final = 50_000
"""The most answers that wait until the input can be read. If more wait, the oldest are never compared with it."""

MOST_WAITING_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of waiting answers, as published. A snapshot can have almost a megabyte."""

_AHEAD: Final = 60 * 1_000_000
"""How far the service's clock may be ahead of this one, in microseconds."""

_TICKS_PER_TURN: Final = 50
_SPARE_TICKS: Final = 3


@dataclass(frozen=True, slots=True)
class Sources:
    """The topics, the functions that read them, and the clock.

    `alerts`, `visits`: the names of the output and the input topic. `open_output`, `open_input`: open a consumer.
    `open_input` is None if there is no input to compare with. `explain` returns the message for an error of Kafka.
    `alive` is called after each tick and each poll. `now` returns the current instant. With its default, for runs on a
    simulated clock, no answer is ahead of the clock.
    """

    alerts: str
    open_output: OpenConsumer
    facts: TopicFacts
    visits: str = ""
    open_input: OpenConsumer | None = None
    now: Callable[[], int] = lambda: 2**62
    explain: Callable[[Exception], str] = repr
    alive: Callable[[], None] = lambda: None


class Follower:
    """The audit of a growing output topic, which judges its records in order of tick.

    `cut_off`: why the input cannot be read; empty if it can. `delayed`: what hides the end of the input, during the
    first half minute, because it may be a short transaction. `since`, an instant: findings about earlier ticks are not
    reported, because somebody has examined them.

    Raises:
        AuditError: the configurations have different slots.
    """

    def __init__(self, configs: Sequence[AuditTerms], sources: Sources, watcher: Watcher, since: int | None = None):
        require_one_grid(configs)
        self.terms, self._configs, self._watcher = configs[0], configs, watcher
        self._since = None if since is None else self.terms.grid.find_slot(since)
        self._now = sources.now
        self.cut_off = self.delayed = ""
        self._hidden_since: float | None = None
        self._findings = ReportedFindings(watcher)
        self._alive, explain = sources.alive, sources.explain
        self._output = TopicReader(
            sources.open_output, sources.alerts, sources.facts, committed=False, explain=explain, alive=self._alive
        )
        self._recounts = [RollingRecount(terms) for terms in configs] if sources.open_input else []
        self._input: RollingInput | None = None
        if sources.open_input is not None:
            reader = TopicReader(
                sources.open_input, sources.visits, sources.facts, committed=True, explain=explain, alive=self._alive
            )
            self._input = RollingInput(reader, self._recounts, self.terms.grid.slot)
        self._state: FollowState | None = None
        self._queues: dict[int, deque[tuple[int, ReadRecord]]] = {}
        self._newest: dict[int, int] = {}
        self._waiting: deque[WaitingTick] = deque()
        self._ends: Mapping[int, int] = {}
        self._completeness = Completeness()
        self._forgotten = 0
        self._counted: deque[int] = deque(maxlen=_SPARE_TICKS)

    @property
    def waiting_ticks(self) -> int:
        """The number of ticks that have not been compared with the input."""
        return len(self._waiting)

    @property
    def complete(self) -> bool:
        """Whether the last turn that judged a tick judged all of its ticks completely.

        That is, by a given configuration, and with all input that they count. Without an input to compare with,
        checking the output suffices.
        """
        return self._completeness.sound and not (self._state is not None and self._state.unjudged)

    @property
    def proven_stretch(self) -> ProvenStretch | None:
        """The stretch in which everything was compared with the whole input; None unless all ticks have been judged."""
        state, since = self._state, self._completeness.proven_since
        if state is None or since is None or self.cut_off or self._waiting or not self.complete:
            return None
        last = min(
            tick if state.owners.parts.is_whole(partition) else tick - 1 for partition, tick in state.ticks.last.items()
        )
        if last < since:
            return None
        grid = self.terms.grid
        false = count_false(self._findings.totals)
        return ProvenStretch(grid.as_of(since), grid.as_of(last), false, state.paid.most_spent)

    @property
    def lag(self) -> dict[str, int]:
        """The numbers of offsets of the output and the input that have not been read, or not been taken."""
        lag = {"output": self._output.compute_lag(self._ends) + sum(map(len, self._queues.values()))}
        return lag if self._input is None else lag | {"input": self._input.lag}

    @property
    def input_records(self) -> int:
        """The number of input records read."""
        return 0 if self._input is None else self._input.records

    @property
    def kept_visits(self) -> int:
        """The number of visits in memory."""
        return sum(recount.kept_visits for recount in self._recounts)

    def find_most_spent(self, monitor: str) -> Fraction:
        """Return the most ε that one person may have paid in one period, for a monitor's published answers."""
        return Fraction(0) if self._state is None else self._state.paid.find_most_spent(monitor)

    def take_turn(self) -> bool:
        """Judge the next ticks, at most 50. Return whether more may have been published.

        Raises:
            UnreadableTopicError: the output topic cannot be read.
            TopicChangedError: a topic was re-created; create a new follower.
        """
        self._ends = self._output.ask_ends()
        self._completeness.begin_turn()
        if self._state is None:
            self._state = self._begin()
        readable = asked = self._ask_input_ends()
        for _ in range(_TICKS_PER_TURN):
            tick = self._find_next_tick()
            if self._extend_ends():
                readable = asked = self._ask_input_ends()
            if tick is None:
                if readable and self._prove(self._state):
                    self._keep_up(self._state)
                return False
            self._take_tick(self._state, tick, asked=asked)
            self._alive()
            readable = readable and self._prove(self._state)
            if not readable:
                self._drop_waiting()
        return True

    def close(self) -> None:
        """Close the connections."""
        self._output.close()
        if self._input is not None:
            self._input.reader.close()

    def _keep_up(self, state: FollowState) -> None:
        """Read the input for the next tick, so that little remains to be read when it is published."""
        if self._input is None or not state.ticks.last:
            return
        try:
            self._input.read_to(self.terms.grid.as_of(max(state.ticks.last.values()) + 1), self._input.ends)
        except HiddenRecordsError:
            return  # no tick needs them yet
        except UnreadableTopicError as error:
            self.cut_off = str(error)

    def _begin(self) -> FollowState:
        """Create the state. The first offsets of the partitions show whether records have expired."""
        whole = not any(self._output.first.values())
        history = History.create(TickSequence(self._findings, every_tick=False), whole=whole)
        recounts: list[RollingRecount | None] = [*self._recounts] or [None] * len(self._configs)
        judges = [
            Judge(terms, recount, history, self._findings)
            for terms, recount in zip(self._configs, recounts, strict=True)
        ]
        paid = PaidCheck(judges, recounts, self._findings)
        return FollowState(judges, history, paid, self._findings, self._watcher, self._is_ahead)

    def _find_next_tick(self) -> int | None:
        """Read until the next record of every partition is known. Return the lowest tick; None if no record remains."""
        heard = time.monotonic()
        while wanted := {
            partition: end
            for partition, end in self._ends.items()
            if not self._queues.get(partition) and self._output.positions.get(partition, 0) < end
        }:
            before = dict(self._output.positions)
            for partition, records in self._output.poll(wanted).items():
                for record in records:
                    self._queue(partition, record)
            if self._output.positions != before:
                heard = time.monotonic()
            elif time.monotonic() - heard > PATIENCE_SECONDS:
                self._output.close()
                raise UnreadableTopicError(f"the topic {self._output.name} returned no records for half a minute")
        return min((queue[0][0] for queue in self._queues.values() if queue), default=None)

    def _extend_ends(self) -> bool:
        """Extend the ends to include records that were read beyond them. Return whether there are any."""
        past = {partition: at for partition, at in self._output.positions.items() if at > self._ends.get(partition, at)}
        self._ends = {**self._ends, **past}
        return bool(past)

    def _queue(self, partition: int, record: Any) -> None:
        """Queue a record with its tick. A record without a tick stays after its predecessor."""
        place = f"partition {partition}, offset {record.offset}"
        read = decode_record(place, partition, record)
        tick, newest = read_tick(read.value, self.terms.grid), self._newest.get(partition)
        if tick is not None and not self._is_ahead(tick):
            newest = tick if newest is None else max(tick, newest)
            self._newest[partition] = newest
        self._queues.setdefault(partition, deque()).append((-1 << 62 if newest is None else newest, read))

    def _take_tick(self, state: FollowState, tick: int, *, asked: bool) -> None:
        """Check the queued records of a tick from the output alone, and let them wait for the input.

        `asked`: the ends of the input were requested after the tick had been read.
        """
        waiting = WaitingTick(tick, self._input.ends if asked and self._input is not None else None)
        self._findings.muted = self._since is not None and tick < self._since
        for partition, queue in sorted(self._queues.items()):
            while queue and queue[0][0] == tick:
                state.take(queue.popleft()[1], self._newest.get(partition, tick), waiting)
            state.report_stretch(partition)
            if partition in state.ticks.last:
                last = state.ticks.last[partition]
                self._watcher.report_tick(partition, last, self.terms.grid.as_of(last))
        with self._findings.catch_errors(f"tick {tick}"):
            state.paid.take_published(state.may_pay)
        if waiting.answers or waiting.unjudged or waiting.flawed:
            self._waiting.append(waiting)

    def _is_ahead(self, tick: int) -> bool:
        """Return whether a tick is far ahead of the clock. Such a tick must not decide the order of the others."""
        return self.terms.grid.start(tick) > self._now() + _AHEAD

    def _ask_input_ends(self) -> bool:
        """Request the ends of the input, after those of the output. Return whether the input can be read.

        Every visit that the answers of this turn count is before these ends.
        """
        if self._input is None:
            return True
        try:
            self._input.ask_ends()
        except UnreadableTopicError as error:
            self.cut_off = str(error)
            self._drop_waiting()
            return False
        return True

    def _prove(self, state: FollowState) -> bool:
        """Compare the waiting ticks with the input. Return whether it could be read."""
        try:
            while self._waiting:
                self._prove_tick(state, self._waiting[0])
                self._waiting.popleft()
                self._hidden_since = None
        except HiddenRecordsError as error:
            self._note_hidden(str(error))
            return False
        except UnreadableTopicError as error:
            self.cut_off = str(error)
            self._drop_waiting()
            return False
        self.cut_off = self.delayed = ""
        return True

    def _note_hidden(self, why: str) -> None:
        """Let the answers wait for hidden records. After half a minute, the input counts as cut off."""
        now = time.monotonic()
        self._hidden_since = now if self._hidden_since is None else self._hidden_since
        short = now - self._hidden_since < PATIENCE_SECONDS
        self.cut_off, self.delayed = ("", why) if short else (why, "")
        self._drop_waiting()

    def _prove_tick(self, state: FollowState, waiting: WaitingTick) -> None:
        tick, outcome = waiting.tick, Outcome.OUTPUT_ONLY
        if self._input is not None:
            waiting.ends = self._input.ends if waiting.ends is None else waiting.ends
            self._input.read_to(self.terms.grid.as_of(tick), waiting.ends)
            outcome = self._compare(state, waiting, self._input)
        outcome = Outcome.UNJUDGED if waiting.unjudged else outcome
        self._completeness.judge(tick, outcome, muted=self._since is not None and tick < self._since)
        self._alive()
        if tick not in self._counted:  # a tick can be read and judged in parts
            self._counted.append(tick)
            self._watcher.report_outcome(outcome)
        self._forget(state, tick)

    def _compare(self, state: FollowState, waiting: WaitingTick, source: RollingInput) -> Outcome:
        """Compare the answers of a tick with the input, which has been read. Return what is known about the tick."""
        tick, faults = waiting.tick, self._findings.form_faults
        # The id of the input topic is known only after it has been read.
        earlier = counts_another_input(waiting.input_ids, source.reader.topic_id)
        since = source.complete_from
        whole = (since is None or since <= self.terms.grid.start(tick - state.reach)) and not earlier
        self._findings.muted = self._since is not None and tick < self._since
        for judge in state.judges:
            judge.set_whole_input(whole)
        for judge, record in waiting.answers:
            with self._findings.catch_errors(record.place):
                judge.prove(record)
        if waiting.answers:
            with self._findings.catch_errors(f"tick {tick}"):
                state.paid.prove(tick, state.may_pay)
        if not whole:
            return Outcome.PARTIAL
        return Outcome.UNPROVEN if waiting.flawed or self._findings.form_faults > faults else Outcome.PROVEN

    def _drop_waiting(self) -> None:
        """Give up comparing the oldest answers if too many wait."""
        answers = sum(len(waiting.answers) for waiting in self._waiting)
        size = sum(waiting.size for waiting in self._waiting)
        while len(self._waiting) > 1 and (answers > MOST_WAITING or size > MOST_WAITING_BYTES):
            dropped = self._waiting.popleft()
            answers, size = answers - len(dropped.answers), size - dropped.size
            self._watcher.report_outcome(Outcome.UNPROVEN)
            self._completeness.give_up()

    def _forget(self, state: FollowState, tick: int) -> None:
        """Forget what no later answer can need. This is not done at every tick, because it takes time."""
        if tick - self._forgotten < max(1, state.reach // 16):
            return
        self._forgotten = tick
        charged = tick - 2 * state.reach - state.period - _SPARE_TICKS
        for recount in self._recounts:
            recount.forget(tick - _SPARE_TICKS, charged)
        for judge in state.judges:
            judge.forget(charged)
        state.history.forget(self.terms.grid.start(charged))
