"""The owner of one ledger partition: takes it over, decides its ticks, and is the only one who appends to it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Final

from monitor.clock import Clock
from monitor.connections import KafkaConnections
from monitor.contracts import alerts
from monitor.errors import LedgerError
from monitor.failpoints import passing
from monitor.privacy.noise import Noise
from monitor.release.decide import Decider, Decision, Evidence
from monitor.release.ledger import Record, Writer, read_partition, require_ledger
from monitor.release.state import LedgerState, Terms, later
from monitor.scheme import Scheme, shard_of
from monitor.windows.facts import Question

log = logging.getLogger(__name__)

OWNER_RECORDS_PER_REACH: Final = 4


@dataclass(frozen=True, slots=True)
class LedgerPlace:
    """Where the ledger is: topic, its id, and the id of the input topic that the facts are read from.

    `looked_at`: an instant at which that input topic was there, by a clock that agreed with the servers' then. What
    another topic held was produced before: an owner's own clock may have been set back by the time it takes over.
    """

    topic: str
    topic_id: str
    input_topic_id: str
    fingerprint: str
    looked_at: int


class Owner:
    """One ledger partition, taken over. Making one fences every earlier owner (runtime, section 4).

    Raises:
        UnreachableError: (any method) the outcome is not known: make a new owner.
        FencedError: (any method) somebody else took over.
        LedgerError: the ledger is another service's, uninitialised, or can't be read.
        LedgerChangedError: the ledger's topic was made anew: what was fenced is not what is written to.
    """

    def __init__(
        self,
        connections: KafkaConnections,
        place: LedgerPlace,
        partition: int,
        scheme: Scheme,
        noise: Noise,
        clock: Clock,
    ) -> None:
        self.partition = partition
        self._connections = connections
        self._place = place
        self._scheme = scheme
        self._clock = clock
        self._writer = Writer(connections, place.topic, place.topic_id, partition)
        passing("owner.fenced")
        try:
            self.state = self._take_over()
        except BaseException:
            self._writer.close()
            raise
        terms = self.state.terms
        queues = terms.partitions if terms is not None else 1
        self.shards = [shard for shard in range(scheme.registry.shards) if shard % queues == partition]
        # Hot spots are one answer about all shards: the partition that the monitor's name falls on gives it.
        ranked = [monitor for monitor in scheme.hot_spots if shard_of(monitor.name, queues) == partition]
        self._decider = Decider(scheme, self.shards, noise, ranked)
        self.first_tick = scheme.slots.slot_of(clock.now())
        self._owner_record_at = self.first_tick

    def _take_over(self) -> LedgerState:
        """Append an owner record, read up to it, and append the bytes of the last tick once more.

        Reading up to one's own record is reading to the end: a leader that lags can't cut it short. What the record
        carries was read before; should what precedes it say more, another one is appended. Which topic they went to,
        the one that was fenced or another of its name, is asked afterwards: ids don't come back.
        """
        state = LedgerState()
        read_to = self._read(state, 0, None)
        terms = self._terms(state)
        while True:
            offset = self._writer.append([self._owner_record(terms)])
            passing("owner.announced")
            read_to = self._read(state, read_to, offset)
            known = self._terms(state)
            known = replace(known, input_since=later(known.input_since, terms.input_since))
            if known == terms:
                break
            terms = known
        require_ledger(self._connections, self._place.topic, self._place.topic_id)
        state.terms = terms
        passing("owner.read")
        self._writer.append(list(state.last_records.values()))
        passing("owner.repeated")
        log.info("owns ledger partition %d: %d records read", self.partition, state.records)
        return state

    def _read(self, state: LedgerState, start: int, until: int | None) -> int:
        """Fold the records from `start` up to `until` (the present end), and return the offset to go on at."""
        read_to = start
        for offset, record in read_partition(self._connections, self._place.topic, self.partition, until, start):
            if state.records == 0 and offset > 0:
                state.expired_until = record.timestamp_ms * 1_000
            state.fold(record, self._scheme.slots)
            read_to = offset + 1
        return read_to

    def _terms(self, state: LedgerState) -> Terms:
        """What this owner's record must carry, given what the ledger says."""
        known = state.terms
        if known is None:
            raise LedgerError(
                f"partition {self.partition} of {self._place.topic} has no first record, so what was spent is not "
                "known: run `location-monitor topics --create`"
            )
        known.require_service(self._scheme.name, self._place.topic)
        since = known.input_since
        if known.input_topic_id not in ("", self._place.input_topic_id):
            produced_before = self._place.looked_at + self._scheme.tolerance
            since = self._whole_after(produced_before)
        elif known.input_topic_id == "" and known.lost_at is not None:
            # The ledger that was lost said which input it was: this one may be another.
            since = later(since, self._whole_after(known.lost_at + self._scheme.tolerance))
        return replace(
            known,
            input_topic_id=self._place.input_topic_id,
            input_since=since,
            fingerprint=self._place.fingerprint,
        )

    def _whole_after(self, instant: int) -> int:
        """The slot from which facts are whole if what was produced up to an instant is lost, planned stays included."""
        return self._scheme.slots.slot_of(instant) + self._scheme.ahead + 1

    def _owner_record(self, terms: Terms, tick: int | None = None) -> Record:
        now = self._clock.now()
        key, value, headers = alerts.owner_record(
            source=self._scheme.name,
            service=terms.service,
            fingerprint=terms.fingerprint,
            input_topic_id=terms.input_topic_id,
            partitions=terms.partitions,
            lost_at=terms.lost_at,
            input_since=terms.input_since,
            partition=self.partition,
            at=now,
            tick=tick,
        )
        return Record(key, value, tuple(headers), now // 1_000)

    def questions(self, tick: int) -> dict[int, Question]:
        """What the owned shards are asked at a tick."""
        return self._decider.questions(tick)

    def may_decide(self, tick: int) -> bool:
        """Whether the tick is this owner's to decide: above the ledger's last.

        In a ledger without answers the first one is that of the first slot to close after the takeover.
        """
        last = self.state.last_tick
        return tick >= self.first_tick if last is None else tick > last

    def turn_back(self, slot: int) -> None:
        """Note the present slot: if the clock ran ahead at the takeover, it was set right, and ticks are due again.

        No tick is decided twice by that: the ledger's last one stands.
        """
        self.first_tick = min(self.first_tick, slot)
        self._owner_record_at = min(self._owner_record_at, slot)

    def decide(self, tick: int, evidence: Evidence) -> Decision:
        """Decide a tick and append its answers; once this returns, they are in the ledger.

        A tick that has nothing to answer leaves an owner record, so that nothing and lost differ.
        """
        decision = self._decider.decide(tick, evidence, self.state)
        self._writer.append([*self._announced(tick, empty=not decision.records), *decision.records])
        oldest = self._scheme.slots.as_of(tick) - (self._scheme.longest_horizon + 1) * self._scheme.slots.length
        self.state.forget(tick, self._scheme.reach, oldest)
        return decision

    def _announced(self, tick: int, *, empty: bool) -> list[Record]:
        """The owner record, so that what it carries outlives the topic's retention; and of a tick without answers."""
        terms = self.state.terms
        due = tick - self._owner_record_at >= max(1, self._scheme.reach // OWNER_RECORDS_PER_REACH)
        if terms is None or not (due or empty):
            return []
        self._owner_record_at = tick
        return [self._owner_record(terms, tick if empty else None)]

    def close(self) -> None:
        """Let go of the partition."""
        self._writer.close()
