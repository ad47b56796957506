"""Follow the output topic, and judge each tick as it is published; or judge what the topics contain, and end.

The answers are compared with the input as soon as everything that they count can be read. After a restart everything is
computed again from the records that the topics still contain, so nothing is lost or counted twice.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from monitor.audit.compare_ticks import Engine, Run
from monitor.audit.configuration import AuditTerms
from monitor.audit.findings import ProvenStretch
from monitor.audit.read_records import decode_record
from monitor.audit.record_fields import Record
from monitor.audit.recount_visits import Recount, create_recounts
from monitor.audit.signatures import Signatures, SignedOutput, read_public_key
from monitor.audit.topic_reader import (
    PATIENCE_SECONDS,
    HiddenRecordsError,
    Input,
    Sources,
    TopicReader,
    UnreadableTopicError,
)

_CLOCKS: Final = 60 * 1_000_000
"""How far the brokers' clocks may differ, in microseconds."""

_ALL: Final = 2**62
_TICKS_PER_TURN: Final = 50


class Follower:
    """The audit of topics, which judges their records in order of tick.

    `cut_off`: why the input cannot be read; empty if it can. `delayed`: what hides the end of the input, during the
    first half minute, because it may be a short transaction. `recounts`: of each configuration, if there is an input.
    `signed`: verifies signatures, if the newest configuration has a public key.

    Raises:
        AuditError: the configurations have different slots.
    """

    def __init__(
        self,
        configs: Sequence[AuditTerms],
        sources: Sources,
        run: Run,
    ) -> None:
        self.terms = configs[0]
        self.cut_off = self.delayed = ""
        self._cause: BaseException | None = None
        self._hidden_since: float | None = None
        self._alive = sources.alive
        self._output = TopicReader(sources, sources.alerts, sources.open_output, committed=False)
        self._input: Input | None = None
        recounts: list[Recount] = []
        if sources.open_input is not None:
            recounts = create_recounts(configs)
            reader = TopicReader(sources, sources.visits, sources.open_input, committed=True)
            self._input = Input(reader, recounts, _ALL if run.ends else self.terms.grid.slot + _CLOCKS)
        self.recounts = recounts
        self.engine = Engine(configs, recounts, run)
        self.signed = self._open_signed(configs, sources) if self.terms.public_key else None
        self._queues: dict[int, deque[tuple[int, Record]]] = {}
        self._ends: Mapping[int, int] = {}

    @property
    def waiting_ticks(self) -> int:
        """The number of ticks that have not been compared with the input."""
        return len(self.engine.waiting)

    @property
    def proven_stretch(self) -> ProvenStretch | None:
        """The stretch in which everything was compared with the whole input; None unless all ticks have been judged."""
        return None if self.cut_off else self.engine.proven_stretch

    @property
    def proven_notes(self) -> dict[int, str]:
        """The last checkpoint of each partition, if it was verified, and lies in the proven stretch.

        There are none after a finding.
        """
        proven = self.proven_stretch
        if self.signed is None or proven is None or self.engine.findings.totals:
            return {}
        notes, as_of = self.signed.signatures.notes, self.terms.grid.as_of
        return {number: note for number, (tick, note) in notes.items() if proven.since <= as_of(tick) <= proven.up_to}

    @property
    def unreported(self) -> str:
        """Why findings about signatures are not reported yet; empty if they are."""
        return "" if self.signed is None else self.signed.signatures.unreported

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
        return sum(recount.kept_visits for recount in self.recounts)

    @property
    def expired(self) -> tuple[str, ...]:
        """The names of the topics of which records have expired."""
        readers = [self._output] if self._input is None else [self._input.reader, self._output]
        return tuple(reader.name for reader in readers if any(reader.first.values()))

    def judge_all(self) -> None:
        """Judge what the topics contain, as a run that ends.

        Raises:
            UnreadableTopicError: a topic cannot be read to its end.
            TopicChangedError: a topic was re-created meanwhile.
        """
        while self.take_turn() or self.delayed:
            pass
        if self.cut_off:
            raise UnreadableTopicError(self.cut_off) from self._cause
        if self.signed is not None:
            self.signed.verify_all()

    def take_turn(self) -> bool:
        """Judge the next ticks, at most 50. Return whether more may have been published.

        Raises:
            UnreadableTopicError: the output topic cannot be read.
            TopicChangedError: a topic was re-created; create a new follower.
        """
        self._ends = self._output.ask_ends()
        if any(self._output.first.values()):
            self.engine.note_expired()
        self.engine.begin_turn()
        readable = asked = self._ask_input_ends()
        for _ in range(_TICKS_PER_TURN):
            tick = self._find_next_tick()
            if self._extend_ends():
                readable = asked = self._ask_input_ends()
            if tick is None:
                if readable and self._compare():
                    self._keep_up()
                return self.signed is not None and self.signed.verify()
            self._take_tick(tick, asked=asked)
            self._alive()
            readable = readable and self._compare()
            if not readable:
                self.engine.drop_waiting()
        return True

    def close(self) -> None:
        """Close the connections."""
        self._output.close()
        if self._input is not None:
            self._input.reader.close()
        if self.signed is not None:
            self.signed.close()

    def _open_signed(self, configs: Sequence[AuditTerms], sources: Sources) -> SignedOutput:
        keys = [read_public_key(key) for key in dict.fromkeys(terms.public_key for terms in configs) if key]
        locations = max(len(terms.locations) for terms in configs)
        return SignedOutput(sources, Signatures(keys, self.engine.findings, self.engine.since, locations))

    def _keep_up(self) -> None:
        """Read the input for the next tick, so that little remains to be read when it is published."""
        last = self.engine.output.parts.last
        if self._input is None or not last:
            return
        try:
            self._input.read_to(self.terms.grid.as_of(max(last.values()) + 1), self._input.ends)
        except HiddenRecordsError:
            return  # no tick needs them yet
        except UnreadableTopicError as error:
            self.cut_off = str(error)

    def _find_next_tick(self) -> int | None:
        """Read until the next record of every partition is known. Return the lowest tick; None if no record remains."""
        self._output.read_while(self._find_unknown, self._queue)
        return min((queue[0][0] for queue in self._queues.values() if queue), default=None)

    def _find_unknown(self) -> Mapping[int, int]:
        """Return the partitions whose next record is not known, with their ends."""
        return {
            partition: end
            for partition, end in self._ends.items()
            if not self._queues.get(partition) and self._output.positions.get(partition, 0) < end
        }

    def _queue(self, partition: int, record: Any) -> None:
        position = f"partition {partition}, offset {record.offset}"
        read = decode_record(position, partition, record, self.terms.grid)
        self._queues.setdefault(partition, deque()).append((self.engine.order(read), read))

    def _extend_ends(self) -> bool:
        """Extend the ends to include records that were read beyond them. Return whether there are any."""
        past = {partition: at for partition, at in self._output.positions.items() if at > self._ends.get(partition, at)}
        self._ends = {**self._ends, **past}
        return bool(past)

    def _take_tick(self, tick: int, *, asked: bool) -> None:
        """Take the queued records of a tick. `asked`: the ends of the input were requested after they had been read."""
        records: list[Record] = []
        for queue in self._queues.values():
            while queue and queue[0][0] == tick:
                records.append(queue.popleft()[1])
        self.engine.take_tick(tick, records, self._input.ends if asked and self._input is not None else None)

    def _ask_input_ends(self) -> bool:
        """Request the ends of the input, after those of the output. Return whether the input can be read.

        Every visit that the answers of this turn count is before these ends.
        """
        if self._input is None:
            return True
        try:
            self._input.ask_ends()
        except UnreadableTopicError as error:
            self._note_cut_off(error)
            return False
        return True

    def _compare(self) -> bool:
        """Compare the waiting ticks with the input. Return whether it could be read."""
        try:
            while self.engine.waiting:
                self._compare_tick()
                self._hidden_since = None
        except HiddenRecordsError as error:
            self._note_hidden(str(error))
            return False
        except UnreadableTopicError as error:
            self._note_cut_off(error)
            return False
        self.cut_off = self.delayed = ""
        return True

    def _compare_tick(self) -> None:
        waiting = self.engine.waiting[0]
        if self._input is None:
            self.engine.compare()
        else:
            waiting.ends = self._input.ends if waiting.ends is None else waiting.ends
            self._input.read_to(self.terms.grid.as_of(waiting.tick), waiting.ends)
            # The id of the input topic is known only after it has been read.
            self.engine.compare(self._input.complete_from, self._input.reader.topic_id)
        self._alive()

    def _note_cut_off(self, error: UnreadableTopicError) -> None:
        self.cut_off, self.delayed, self._cause = str(error), "", error.__cause__

    def _note_hidden(self, why: str) -> None:
        """Let the answers wait for hidden records. After half a minute, the input counts as cut off."""
        now = time.monotonic()
        self._hidden_since = now if self._hidden_since is None else self._hidden_since
        short = now - self._hidden_since < PATIENCE_SECONDS
        self.cut_off, self.delayed, self._cause = ("", why, None) if short else (why, "", None)
