"""Follows the output topic, and judges each tick as it is published.

What needs only the output is checked at once: bytes, form, pauses, ε. The answers are then compared with the input, as
soon as it can be read as far as they count. The state is in memory, bounded by the windows. After a restart everything
is computed again from what the topics still contain, so nothing is lost or counted twice. What has expired by then is
assumed to be correct.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from monitor.tools.audit.bench import KINDS, Bench
from monitor.tools.audit.completeness import Completeness
from monitor.tools.audit.findings import BYTES, FORM, TICKS, count_false
from monitor.tools.audit.follow_state import OWN_KINDS, FollowState, Waiting
from monitor.tools.audit.history import History
from monitor.tools.audit.input_ids import count_another
from monitor.tools.audit.paid import PaidCheck
from monitor.tools.audit.partition_ticks import read_tick
from monitor.tools.audit.reader import HiddenRecordsError, TopicFacts, TopicReader, UnreadableTopicError
from monitor.tools.audit.recent import Delivery
from monitor.tools.audit.records import PublishedRecord, ReadRecord, decode_record
from monitor.tools.audit.rolling import RollingRecount
from monitor.tools.audit.rolling_input import PATIENCE_SECONDS, RollingInput
from monitor.tools.audit.sequence import Sequence as Ticks
from monitor.tools.audit.terms import AuditTerms
from monitor.tools.audit.text import AuditError
from monitor.tools.audit.topics import OpenConsumer
from monitor.tools.audit.watching import Outcome, Proven, ReportedFindings, Watcher

MOST_WAITING: Final = 50_000
"""How many answers wait at most until the input can be read. Older ones are then never compared with it."""

MOST_WAITING_BYTES: Final = 64 * 1024 * 1024
"""How many bytes these answers have at most, as published. A snapshot can have almost a megabyte."""

_AHEAD: Final = 60 * 1_000_000
"""How far the clock of the service may be ahead, in microseconds."""

_TICKS_PER_TURN: Final = 50
_SPARE_TICKS: Final = 3


@dataclass(frozen=True, slots=True)
class Sources:
    """How to read the topics, and the clock. `open_input` is None if there is no input to compare with.

    `explain` returns the words for an error of Kafka.
    `alive` is called after each tick and each poll.
    `now` returns the present instant. The default is for runs on a simulated clock: no answer is ahead of it.
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
    """Judges the records of the output topic in order of tick.

    `cut_off` says why the input cannot be read; empty if it can. `delayed` says what hides its end, as long as that may
    be a transaction that is about to end. `since`: findings about earlier ticks are not reported, because somebody has
    examined them.

    Raises:
        AuditError: the configurations have different slots.
    """

    def __init__(self, configs: Sequence[AuditTerms], sources: Sources, watcher: Watcher, since: int | None = None):
        if len({terms.grid for terms in configs}) > 1:
            raise AuditError("the configurations differ in clock.slot or clock.origin: audit each of them separately")
        self.terms, self._configs, self._watcher = configs[0], configs, watcher
        self._since = None if since is None else self.terms.grid.slot_of(since)
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
        self._waiting: deque[Waiting] = deque()
        self._ends: Mapping[int, int] = {}
        self._completeness = Completeness()
        self._forgotten = 0
        self._counted: deque[int] = deque(maxlen=_SPARE_TICKS)

    @property
    def waiting(self) -> int:
        """The number of ticks that have not been compared with the input."""
        return len(self._waiting)

    @property
    def complete(self) -> bool:
        """Whether the newest ticks were judged completely: by a configuration, and with all input that they count.

        It is about the ticks of the last turn that judged any. Without input, it is enough to check the output.
        """
        return self._completeness.sound and not (self._state is not None and self._state.unjudged)

    @property
    def proven(self) -> Proven | None:
        """What was compared with the whole input, if the last turn judged everything; None if that is not known."""
        state, since = self._state, self._completeness.proven_since
        if state is None or since is None or self.cut_off or self._waiting or not self.complete:
            return None
        last = min(
            tick if state.parts.is_whole(partition) else tick - 1 for partition, tick in state.ticks.last.items()
        )
        if last < since:
            return None
        grid = self.terms.grid
        return Proven(grid.as_of(since), grid.as_of(last), count_false(self._findings.totals), state.paid.most)

    @property
    def lag(self) -> dict[str, int]:
        """The number of unread offsets of the output and the input."""
        lag = {"output": self._output.lag(self._ends) + sum(map(len, self._queues.values()))}
        return lag if self._input is None else lag | {"input": self._input.lag}

    @property
    def input_records(self) -> int:
        """The number of input records read."""
        return 0 if self._input is None else self._input.records

    @property
    def kept_visits(self) -> int:
        """The number of visits in memory."""
        return sum(recount.kept for recount in self._recounts)

    def spent(self, monitor: str) -> Fraction:
        """Return the most that one person may have paid for a monitor's published answers within one period."""
        return Fraction(0) if self._state is None else self._state.paid.spent(monitor)

    def turn(self) -> bool:
        """Judge what has been published, at most some ticks of it. Return whether more remains.

        Raises:
            UnreadableTopicError: the output topic cannot be read.
            TopicChangedError: a topic was re-created; a new follower must begin.
        """
        self._ends = self._output.ends()
        self._completeness.begin_turn()
        if self._state is None:
            self._state = self._begin()
        readable = asked = self._ask_input_ends()
        for _ in range(_TICKS_PER_TURN):
            tick = self._next_tick()
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
        """Make the checks. The beginnings of the partitions show whether records have expired."""
        whole = not any(self._output.first.values())
        history = History.of(Ticks(self._findings, every_tick=False), whole=whole)
        recounts: list[RollingRecount | None] = [*self._recounts] or [None] * len(self._configs)
        benches = [
            Bench(terms, recount, history, self._findings)
            for terms, recount in zip(self._configs, recounts, strict=True)
        ]
        return FollowState(benches, history, PaidCheck(benches, recounts, self._findings), self._findings)

    def _next_tick(self) -> int | None:
        """Read until the next record of every partition is known. Return the lowest tick, None at the end."""
        heard = time.monotonic()
        while hungry := {
            partition: end
            for partition, end in self._ends.items()
            if not self._queues.get(partition) and self._output.positions.get(partition, 0) < end
        }:
            before = dict(self._output.positions)
            for partition, records in self._output.poll(hungry).items():
                for record in records:
                    self._queue(partition, record)
            if self._output.positions != before:
                heard = time.monotonic()
            elif time.monotonic() - heard > PATIENCE_SECONDS:
                self._output.close()
                raise UnreadableTopicError(f"the topic {self._output.name} returned no records for half a minute")
        return min((queue[0][0] for queue in self._queues.values() if queue), default=None)

    def _extend_ends(self) -> bool:
        """Include records read past the ends that were asked. Return whether there are any."""
        past = {partition: at for partition, at in self._output.positions.items() if at > self._ends.get(partition, at)}
        self._ends = {**self._ends, **past}
        return bool(past)

    def _queue(self, partition: int, record: Any) -> None:
        """Queue a record with its tick. A record without a tick stays after its predecessor."""
        place = f"partition {partition}, offset {record.offset}"
        read = decode_record(place, partition, record)
        tick, newest = read_tick(read.value), self._newest.get(partition)
        if tick is not None and not self._is_ahead(tick):
            newest = tick if newest is None else max(tick, newest)
            self._newest[partition] = newest
        self._queues.setdefault(partition, deque()).append((-1 << 62 if newest is None else newest, read))

    def _take_tick(self, state: FollowState, tick: int, *, asked: bool) -> None:
        """Check the queued records of a tick from the output alone, and let them wait for the input.

        `asked`: the ends of the input were asked after the tick had been read.
        """
        waiting = Waiting(tick, self._input.ends if asked and self._input is not None else None)
        self._findings.muted = self._since is not None and tick < self._since
        for partition, queue in sorted(self._queues.items()):
            while queue and queue[0][0] == tick:
                self._take(state, queue.popleft()[1], waiting)
            if partition in state.ticks.last:
                last = state.ticks.last[partition]
                self._watcher.tick(partition, last, self.terms.grid.as_of(last))
        state.paid.take_published(state.may_pay)
        if waiting.answers or waiting.unjudged:
            self._waiting.append(waiting)

    def _take(self, state: FollowState, read: ReadRecord, waiting: Waiting) -> None:
        kind, ce_id = read.headers.get("ce_type", "").rpartition(".")[2], read.headers.get("ce_id", "")
        self._watcher.record(kind if kind in OWN_KINDS else "other")
        record = PublishedRecord(read.place, read.partition, kind, ce_id, read.key, read.headers, read.value)
        if not state.belongs(record):
            self._findings.add(FORM, f"{read.place}: not a record of this service")
            return
        if self._is_ahead(read_tick(read.value) or 0):
            self._findings.add(TICKS, f"{read.place}: an answer from ahead of the clock; it is not judged")
            return
        delivery = state.recent.take(read, ce_id, self._newest.get(read.partition or 0, waiting.tick))
        if delivery is Delivery.CHANGED:
            self._findings.add(BYTES, f"{read.place}: {ce_id} was published before with other bytes")
        if delivery is not Delivery.NEW:
            if kind in KINDS:
                state.parts.take_repeat(read.partition)
            return
        for tick in filter(None, [state.ticks.take(record)]):
            self._watcher.missing(read.partition or 0, tick[0], tick[-1])
            state.ticks.missing.clear()  # it is reported, and would grow
        if kind not in KINDS:
            state.take_owner(record)
            return
        bench = state.stretches.find(record)
        self._report_stretch(state, record, unjudged=bench is None)
        state.parts.take(record, bench)
        waiting.input_ids |= state.input_ids.find(record.partition)
        if bench is None:
            state.history.doubt(record)
            waiting.unjudged = True
            return
        taken = bench.take(record)
        if taken is not None:
            waiting.answers.append((bench, taken))
            waiting.size += len(read.written)

    def _is_ahead(self, tick: int) -> bool:
        """Return whether a tick is far ahead of the clock. It must not decide the order of the others."""
        return self.terms.grid.start(tick) > self._now() + _AHEAD

    def _report_stretch(self, state: FollowState, record: PublishedRecord, *, unjudged: bool) -> None:
        if unjudged is not (record.partition in state.unjudged):
            state.unjudged ^= {record.partition}
            self._watcher.unjudged(record.partition, record.place, begins=unjudged)

    def _ask_input_ends(self) -> bool:
        """Ask where the input ends, after the ends of the output. Return whether it can be read.

        The input that was published until then contains every visit that the answers of this turn count.
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
        """Compare what waits with the input. Return whether it could be read."""
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
        """Let the answers wait for the end of a transaction. One that is open for long cuts off the input."""
        now = time.monotonic()
        self._hidden_since = now if self._hidden_since is None else self._hidden_since
        short = now - self._hidden_since < PATIENCE_SECONDS
        self.cut_off, self.delayed = ("", why) if short else (why, "")
        self._drop_waiting()

    def _prove_tick(self, state: FollowState, waiting: Waiting) -> None:
        tick, as_of = waiting.tick, self.terms.grid.as_of(waiting.tick)
        outcome = Outcome.OUTPUT_ONLY
        if self._input is not None:
            waiting.ends = self._input.ends if waiting.ends is None else waiting.ends
            self._input.read_to(as_of, waiting.ends)
            oldest = self.terms.grid.start(tick - state.reach)
            since = self._input.since
            earlier = count_another(waiting.input_ids, self._input.reader.topic_id)  # the id is known after reading
            whole = (since is None or since <= oldest) and not earlier
            outcome = Outcome.PROVEN if whole else Outcome.PARTIAL
            self._findings.muted = self._since is not None and tick < self._since
            for bench in state.benches:
                bench.set_whole_input(outcome is Outcome.PROVEN)
            for bench, record in waiting.answers:
                bench.prove(record)
            if waiting.answers:
                state.paid.prove(tick, state.may_pay)
        outcome = Outcome.UNJUDGED if waiting.unjudged else outcome
        self._completeness.judge(tick, outcome, muted=self._since is not None and tick < self._since)
        self._alive()
        if tick not in self._counted:  # it can be read in parts
            self._counted.append(tick)
            self._watcher.outcome(outcome)
        self._forget(state, tick)

    def _drop_waiting(self) -> None:
        """Give up comparing the oldest answers if too many wait."""
        answers = sum(len(waiting.answers) for waiting in self._waiting)
        size = sum(waiting.size for waiting in self._waiting)
        while len(self._waiting) > 1 and (answers > MOST_WAITING or size > MOST_WAITING_BYTES):
            dropped = self._waiting.popleft()
            answers, size = answers - len(dropped.answers), size - dropped.size
            self._watcher.outcome(Outcome.UNPROVEN)
            self._completeness.give_up()

    def _forget(self, state: FollowState, tick: int) -> None:
        """Forget what no later answer can need, now and then."""
        if tick - self._forgotten < max(1, state.reach // 16):
            return
        self._forgotten = tick
        charged = tick - 2 * state.reach - state.period - _SPARE_TICKS
        for recount in self._recounts:
            recount.forget(tick - _SPARE_TICKS, charged)
        for bench in state.benches:
            bench.forget(charged)
        state.history.forget(self.terms.grid.start(charged))
