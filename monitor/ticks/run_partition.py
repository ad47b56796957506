"""Run one ledger partition on a separate thread: take it over and decide it tick by tick.

A count is a function of the log, so it does not matter when it is taken. The owner of the partition may decide the last
closed tick until the next slot closes. A tick that no instance has decided by then is lost. It is counted and logged.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from monitor.errors import FencedError, UnreachableError
from monitor.kinds.counts_of_a_tick import Evidence
from monitor.kinds.parameters import Parameters
from monitor.observe.failpoints import failpoint
from monitor.observe.logs import log_fields
from monitor.records.output_records import OutputRecord
from monitor.records.unknown_causes import STORE_UNREACHABLE
from monitor.ticks.await_complete_input import EvidenceReader
from monitor.ticks.collect_answers import Decision
from monitor.ticks.owner import NOT_SIGNED, Owner, Rest
from monitor.ticks.shared_by_partitions import TickContext
from monitor.ticks.store_upkeep import Upkeep
from monitor.ticks.tick_reports import TickReports
from monitor.time.instants import SECOND, format_instant

log = logging.getLogger(__name__)

LONGEST_WAIT: Final = SECOND  # between two heartbeats
FIRST_BACKOFF_SECONDS: Final = 0.5
TAKEOVER_BACKOFF_SECONDS: Final = 2.0  # the longest: a broker that returns must be found within the slot
APPEND_BACKOFF_SECONDS: Final = 8.0  # the longest after failed appends, each of which writes to the ledger
RETRY_SECONDS: Final = 0.5  # after a tick that had not closed by the store's clock
NEAR_RELEASE: Final = 10 * SECOND  # on a stop, answers that are due within this time are still published

_NO_OWNER: Final = "no instance had taken the partition over"
_HELD_UP: Final = "this instance was stopped, or delayed"
_TOO_LATE: Final = "the next slot was about to close before the answers could be published"


class PartitionTicks:
    """The release of one ledger partition: takeovers and ticks. Used by one thread; others may read its attributes.

    `owner`: the owner, None before the takeover. `trouble`: why no tick is decided now, empty if all is well.
    `last_heartbeat`: when the thread was last active, by the monotonic clock. `last_tick`, `last_records`: the last
    decision.

    `take_over` takes a partition over, and returns its owner, which has fenced every earlier one.
    """

    def __init__(self, partition: int, context: TickContext, take_over: Callable[[int], Owner], upkeep: Upkeep) -> None:
        self.partition = partition
        self.owner: Owner | None = None
        self.trouble = ""
        self.last_heartbeat = time.monotonic()
        self.last_tick: int | None = None
        self.last_records: Sequence[OutputRecord] = ()
        self._context = context
        self._parameters = context.parameters
        self._take_over = take_over
        self._upkeep = upkeep
        self._taken_at = 0
        self._reason = _NO_OWNER
        self._waited = 0.0
        self._reports = TickReports(partition, context)
        self._reached: Mapping[int, Mapping[int, int]] = {}
        self._refused_slot: int | None = None
        self._store_answered = True

    def run(self, stop: threading.Event) -> None:
        """Take the partition over and decide each tick, until `stop` is set.

        Raises:
            TopicError, LedgerError, PeriodError, EvictionError: the service must run its checks again.
        """
        failed_takeovers = failed_appends = 0
        try:
            while not stop.is_set():
                self._note_heartbeat()
                if self.owner is None and not self.take_over():
                    stop.wait(_compute_backoff(failed_takeovers, TAKEOVER_BACKOFF_SECONDS))
                    failed_takeovers += 1
                    continue
                failed_takeovers = 0
                if self._decide_next(stop):
                    failed_appends = 0
                elif self.owner is None:
                    if failed_appends:  # take over at once the first time: the tick may still be decided
                        stop.wait(_compute_backoff(failed_appends - 1, APPEND_BACKOFF_SECONDS))
                    failed_appends += 1
        finally:
            self.close()

    def _decide_next(self, stop: threading.Event) -> bool:
        """Wait for the next tick and decide it. Return whether it was decided."""
        tick = self.find_next_tick()
        if not self.settle_rest(tick):
            return False
        as_of = format_instant(self._parameters.grid.as_of(tick))
        with log_fields(ledger_partition=self.partition, tick=as_of):
            if not self._wait_until_closed(tick, stop):
                return False
            return self.decide_tick(tick, stop)

    def settle_rest(self, tick: int) -> bool:
        """Give up what is missing of the ledger's last tick, unless it can be decided. Return False if that failed.

        `tick`: the tick that is decided next.
        """
        owner = self.owner
        rest = None if owner is None else owner.rest
        if owner is None or rest is None or (tick <= rest.tick and not rest.reason):
            return True
        self._reports.expect_incomplete(replace(rest, reason=rest.reason or self._reason), self._context.monitors)
        try:
            owner.give_up_rest(rest)
        except (UnreachableError, FencedError) as error:
            self._drop_owner(str(error))
            return False
        self._reports.report_losses(owner.state.last_tick, self._reason)
        return True

    def _note_heartbeat(self) -> None:
        self.last_heartbeat = time.monotonic()

    def take_over(self) -> bool:
        """Take the partition over. Return False if that is not possible now; `trouble` contains the reason.

        Raises:
            TopicError, LedgerError, PeriodError: the service must run its checks again.
        """
        try:
            self.owner = self._take_over(self.partition)
        except (UnreachableError, FencedError) as error:
            if self.trouble != f"taking over: {error}":
                log.warning("ledger partition %d cannot be taken over yet: %s", self.partition, error)
            self._drop_owner(f"taking over: {error}")
            return False
        terms = self.owner.state.terms
        self._context.input_topic.expect_partitions(0 if terms is None else terms.input_partitions)
        self._taken_at = self._context.clock.now()
        self.trouble = ""
        self._reports.report_takeover(self.owner, self._reason)
        return True

    def _drop_owner(self, reason: str) -> None:
        """Close the owner, and remember why no tick is decided.

        Closing takes long if a broker has failed, so it runs in a separate thread. The next takeover need not wait.
        """
        self.trouble = self._reason = reason
        if self.owner is not None:
            threading.Thread(target=self.owner.close, name=f"closing-{self.partition}", daemon=True).start()
            self.owner = None

    def find_next_tick(self) -> int:
        """Return the last closed tick if it can still be decided, else the tick that closes next."""
        now = self._context.clock.now()
        slot = self._parameters.grid.find_slot(now)
        owner = self.owner
        if owner is None:
            return slot
        self._taken_at = min(self._taken_at, now)  # the clock may have been ahead at the takeover and corrected since
        owner.lower_first_tick(slot)
        self._report_ledger_ahead(owner, slot)
        return slot - 1 if owner.may_decide(slot - 1) and not self._is_too_late(slot - 1) else slot

    def _report_ledger_ahead(self, owner: Owner, slot: int) -> None:
        """Report a ledger with ticks that have not closed yet: an instance whose clock was ahead has written them."""
        last = owner.state.last_tick
        if last is None or owner.first_undecided <= slot:
            if self._refused_slot is not None:
                self._refused_slot = None
                self.trouble = ""
            return
        until = format_instant(self._parameters.grid.as_of(last))
        self.trouble = self._reason = (
            f"ledger partition {self.partition} contains answers up to {until}, which is ahead of the clock: no tick "
            "is decided before then"
        )
        if self._refused_slot is None:
            log.error("%s", self.trouble)
        elif slot > self._refused_slot:
            self._context.metrics.count_refused(self.partition, self._context.monitors)
        self._refused_slot = slot

    def _wait_until_closed(self, tick: int, stop: threading.Event) -> bool:
        """Wait until a tick has closed. Return False on a stop, or if the clock was set back before the tick's slot."""
        clock, grid = self._context.clock, self._parameters.grid
        closes = grid.as_of(tick) + self._parameters.tolerance
        while clock.now() < closes:
            self._note_heartbeat()
            if stop.is_set() or grid.find_slot(clock.now()) < tick:
                return False
            clock.wait_until(min(closes, clock.now() + LONGEST_WAIT), stop)
        return not stop.is_set()

    def _is_too_late(self, tick: int, margin: int = 0) -> bool:
        """Return whether a tick's latest release time passed more than `margin` ago."""
        return max(self._context.clock.now(), self._taken_at) > find_latest_release(self._parameters, tick) + margin

    def decide_tick(self, tick: int, stop: threading.Event) -> bool:
        """Decide a tick at its release time. Return False if it was not decided, or if the outcome is not known.

        Raises:
            InputChangedError, LedgerChangedError: a topic was replaced; the service must start again.
            EvictionError: the store may have evicted facts.
        """
        owner = self.owner
        if owner is None or not owner.may_decide(tick):
            return False
        began = time.perf_counter()
        self._waited = 0.0
        failpoint("tick.closed")
        decision = self._try_to_decide(owner, tick, stop)
        if decision is None:
            return False
        worked = time.perf_counter() - began - self._waited
        self.last_records = decision.records
        self.last_tick = tick
        self._reports.report_decided(tick, decision, worked)
        failpoint("tick.decided")
        if self._store_answered:
            self._upkeep.finish_tick(tick, owner.shards)
        failpoint("tick.evicted")
        self._context.decided.notify()
        return True

    def _try_to_decide(self, owner: Owner, tick: int, stop: threading.Event) -> Decision | None:
        """Read the evidence, draw the answers, wait for the release time, and append. Return None if a step fails.

        Whatever depends on the visits is done before the wait, because the time of publication would reveal how many
        there are (docs/rules.md, rule 10).
        """
        due = find_release_time(self._parameters, tick, self._taken_at)
        try:
            evidence = self._read_evidence(owner, tick, stop)
            if evidence is None:
                self._report_not_closed(tick, stop)
                return None
            # If the store hangs, each request takes seconds. With more requests, this tick or the next one could be
            # lost.
            self._store_answered = bool(evidence.readings) or set(evidence.causes.values()) != {STORE_UNREACHABLE}
            if self._store_answered:
                self._upkeep.check_eviction_policy()
            self._reached = {shard: reading.progress for shard, reading in evidence.readings.items()}
            failpoint("tick.read")
            self._reports.expect_skipped(owner.first_undecided, tick - 1)
            decision = owner.decide(tick, evidence)
            if hindrance := self._wait_for_release(tick, due, stop):
                if not stop.is_set():  # on a stop, `close` closes the owner
                    self._drop_owner(hindrance)
                return None
            failpoint("tick.released")
            return self._append(owner, tick, evidence, decision)
        except (UnreachableError, FencedError) as error:
            log.warning("tick %d: ledger partition %d is taken over again: %s", tick, self.partition, error)
            self._drop_owner(str(error))
            return None

    def _read_evidence(self, owner: Owner, tick: int, stop: threading.Event) -> Evidence | None:
        questions = owner.decider.build_questions(tick, owner.state)
        until = find_reading_end(self._parameters, tick, self._taken_at)
        return EvidenceReader(self._context, tick, questions, until, stop, self._note_heartbeat, self._reached).read()

    def _report_not_closed(self, tick: int, stop: threading.Event) -> None:
        """Report a tick that has closed by this machine's clock but not by the store's clock, unless stopping."""
        if stop.is_set():
            return
        as_of = format_instant(self._parameters.grid.as_of(tick))
        trouble = f"the store's clock is not known to have reached {as_of}: that tick is not decided yet"
        if self.trouble != trouble:
            log.error("ledger partition %d: %s", self.partition, trouble)
        self.trouble = self._reason = trouble
        stop.wait(RETRY_SECONDS)

    def _wait_for_release(self, tick: int, due: int, stop: threading.Event) -> str:
        """Wait for the release time. Return why the answers may not be published; empty if they may.

        They may not on a stop far from the release, if the clock was set back, or if it is too late.
        """
        clock = self._context.clock
        waits, before = time.perf_counter(), clock.now()
        never = threading.Event()
        while (now := clock.now()) < due:
            self._note_heartbeat()
            stopping = stop.is_set()
            if now < before or (stopping and due - now > NEAR_RELEASE):
                return _HELD_UP
            before = now
            clock.wait_until(min(due, now + LONGEST_WAIT), never if stopping else stop)
        self._waited = time.perf_counter() - waits
        # The margin is for answers that are due at the last instant: they are appended just after it.
        return _TOO_LATE if self._is_too_late(tick, self._parameters.tolerance) else ""

    def _append(self, owner: Owner, tick: int, evidence: Evidence, decision: Decision) -> Decision:
        owner.note_input_partitions(self._context.input_topic.most_partitions)
        if decision.lost:  # the tick itself counts as decided
            self._reports.expect_incomplete(Rest(tick, decision.lost, NOT_SIGNED))
        owner.append(tick, decision, self._compute_append_seconds(tick))
        self.trouble = self._reports.report_unknown(tick, evidence, decision)
        self._reports.report_losses(owner.state.last_tick, self._reason)
        self._reason = _HELD_UP
        return decision

    def _compute_append_seconds(self, tick: int) -> float:
        """Return after how many seconds to give an append up, so that the tick can still be decided after a takeover.

        This is half of the time that is left. The other half is for the takeover, and ends before the release delay
        that follows.
        """
        release_delay = self._parameters.release_delay
        left = find_latest_release(self._parameters, tick) - self._context.clock.now() - release_delay
        return left / 2 / SECOND

    def close(self) -> None:
        """Close the owner and drop the partition's metrics."""
        if self.owner is not None:
            self.owner.close()
            self.owner = None
        self._reports.end()


def find_reading_end(parameters: Parameters, tick: int, taken_at: int) -> int:
    """Return the last instant at which facts are read for a tick: half of the time before its release is over.

    The other half is for the decision. It takes longer if there are more visits, and must not delay the publication.
    """
    begins = max(parameters.grid.as_of(tick) + parameters.tolerance, taken_at)
    due = find_release_time(parameters, tick, taken_at)
    return due - max(0, due - begins) // 2


def find_release_time(parameters: Parameters, tick: int, taken_at: int) -> int:
    """Return when a tick's answers are published: a fixed delay after as_of, or after the takeover if it was later.

    The delay is fixed because the moment at which reading ends would reveal the load. The answers are published no
    later than `find_latest_release`. `taken_at`: the instant of the takeover.
    """
    from_takeover = max(parameters.grid.as_of(tick), taken_at) + parameters.release_delay
    return min(from_takeover, find_latest_release(parameters, tick))


def find_latest_release(parameters: Parameters, tick: int) -> int:
    """Return the last instant at which a tick's answers may be published: no clock has closed the next slot yet."""
    return parameters.grid.as_of(tick + 1) - 2 * parameters.tolerance


def _compute_backoff(failures: int, longest: float) -> float:
    """Return the seconds to wait after a failure that follows `failures` earlier ones."""
    return min(FIRST_BACKOFF_SECONDS * float(2 ** min(failures, 8)), longest)
