"""One ledger partition of this instance: taken over, and decided tick by tick, by a thread of its own.

A count is a function of the log, so it does not matter when it is taken: the last closed tick is decided by whoever
owns the partition, until the next slot closes. What nobody decided by then is lost, counted and logged.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Final

from monitor.errors import FencedError, UnreachableError
from monitor.failpoints import failpoint
from monitor.public.instants import SECOND, format_instant
from monitor.release.context import ReleaseContext
from monitor.release.decide import Decision, Evidence
from monitor.release.evidence import EvidenceReader
from monitor.release.ledger import LedgerRecord
from monitor.release.owner import Owner
from monitor.release.upkeep import Upkeep

log = logging.getLogger(__name__)

TURN: Final = SECOND  # how long to wait at most before looking around again
FIRST_BACKOFF_SECONDS: Final = 0.5
SEARCH_SECONDS: Final = 2.0  # between attempts to take over at most: a broker that is back is found within the slot
LONGEST_BACKOFF_SECONDS: Final = 8.0  # after appends that fail one after the other, each of which writes to the ledger
RETRY_SECONDS: Final = 0.5  # after a look at a tick that said nothing
LEAVING: Final = 10 * SECOND  # a release that is no further off is waited for before leaving

_NOBODY: Final = "no instance had taken the partition over"
_HELD_UP: Final = "this instance was stopped, or held up"
_TOO_LATE: Final = "the next slot was about to close when its answers could have left"


class PartitionRelease:
    """Takes one ledger partition over, and decides its ticks. Used by one thread; what it shows may be read by any.

    `owner`: what was taken over, if anything. `trouble`: why nothing is decided now; empty if all is well. `last_heartbeat`:
    when the thread last went on, by the monotonic clock. `last_tick`, `last_records`: what was decided last.
    """

    def __init__(self, partition: int, parts: ReleaseContext, upkeep: Upkeep) -> None:
        self.partition = partition
        self.owner: Owner | None = None
        self.trouble = ""
        self.last_heartbeat = time.monotonic()
        self.last_tick: int | None = None
        self.last_records: tuple[LedgerRecord, ...] = ()
        self._parts = parts
        self._upkeep = upkeep
        self._taken_at = 0
        self._reason = _NOBODY
        self._refused: int | None = None
        self._passed_over: tuple[int, int] | None = None

    def run(self, stop: threading.Event) -> None:
        """Take over and decide each tick, until told to stop.

        Raises:
            TopicError, LedgerError, PeriodError, EvictionError: everything must be looked at again.
        """
        not_taken = not_appended = 0
        try:
            while not stop.is_set():
                self._turn()
                if self.owner is None and not self.take_over():
                    stop.wait(_backoff(not_taken, SEARCH_SECONDS))
                    not_taken += 1
                    continue
                not_taken = 0
                if self._next(stop):
                    not_appended = 0
                elif self.owner is None:
                    if not_appended:  # the first time it is taken over at once: its slot goes on
                        stop.wait(_backoff(not_appended - 1, LONGEST_BACKOFF_SECONDS))
                    not_appended += 1
        finally:
            self.close()

    def _next(self, stop: threading.Event) -> bool:
        """Wait for the next tick and decide it; whether it was decided."""
        tick = self.next_tick()
        return self._wait_until_closed(tick, stop) and self.tick(tick, stop)

    def _turn(self) -> None:
        self.last_heartbeat = time.monotonic()

    def take_over(self) -> bool:
        """Take the partition over; False if that can't be done now, with the reason in `trouble`.

        Raises:
            TopicError, LedgerError, PeriodError: everything must be looked at again.
        """
        try:
            self.owner = self._parts.take_over(self.partition)
        except (UnreachableError, FencedError) as error:
            if self.trouble != f"taking over: {error}":
                log.warning("ledger partition %d cannot be taken over yet: %s", self.partition, error)
            self._give_up(f"taking over: {error}")
            return False
        terms = self.owner.state.terms
        self._parts.input_topic.expect(0 if terms is None else terms.input_partitions)
        self._taken_at = self._parts.clock.now()
        self.trouble = ""
        self._parts.observer.recovery("takeover")
        self._parts.observer.lost(self.partition, self._parts.monitors, 0)
        self._settle_what_was_passed_over(self.owner)
        return True

    def _give_up(self, reason: str) -> None:
        """Let go of what was taken over, and remember why nothing is decided.

        A broker that is gone makes closing take its time, which the next takeover need not wait for.
        """
        self.trouble = self._reason = reason
        if self.owner is not None:
            threading.Thread(target=self.owner.close, name=f"closing-{self.partition}", daemon=True).start()
            self.owner = None

    def next_tick(self) -> int:
        """The last closed tick if the ledger may still take it, else the one that closes next."""
        now = self._parts.clock.now()
        slot = self._parts.parameters.grid.slot_of(now)
        owner = self.owner
        if owner is None:
            return slot
        self._taken_at = min(self._taken_at, now)  # the clock may have run ahead then, and have been set right
        owner.lower_first_tick(slot)
        self._note_what_lies_ahead(owner, slot)
        return slot - 1 if owner.may_decide(slot - 1) and not self._too_late(slot - 1) else slot

    def _note_what_lies_ahead(self, owner: Owner, slot: int) -> None:
        """A ledger that holds ticks which have not closed was written by a clock that ran ahead: they stand."""
        last = owner.state.last_tick
        if last is None or last < slot:
            if self._refused is not None:
                self._refused = None
                self.trouble = ""
            return
        until = format_instant(self._parts.parameters.grid.as_of(last))
        self.trouble = self._reason = (
            f"ledger partition {self.partition} holds answers up to {until}, which is ahead of the clock: nothing more "
            "is answered before then"
        )
        if self._refused is None:
            log.error("%s", self.trouble)
        elif slot > self._refused:
            self._parts.observer.refused(self.partition, self._parts.monitors)
        self._refused = slot

    def _wait_until_closed(self, tick: int, stop: threading.Event) -> bool:
        """Wait until a tick has closed; False if told to stop, or if another one closes next by now."""
        clock, grid = self._parts.clock, self._parts.parameters.grid
        closes = grid.as_of(tick) + self._parts.parameters.tolerance
        while clock.now() < closes:
            self._turn()
            if stop.is_set() or grid.slot_of(clock.now()) < tick:
                return False
            clock.wait_until(min(closes, clock.now() + TURN), stop)
        return not stop.is_set()

    def due(self, tick: int) -> int:
        """When a tick's answers leave: a fixed delay after as_of, or after the takeover, if that came later.

        Never at the moment when reading happened to be done, which would tell of the load.
        """
        grid = self._parts.parameters.grid
        from_takeover = max(grid.as_of(tick), self._taken_at) + self._parts.parameters.release_delay
        return min(from_takeover, self._latest(tick))

    def _latest(self, tick: int) -> int:
        """The last instant at which answers of a tick may leave: the next slot must not have closed by any clock."""
        parameters = self._parts.parameters
        if self._parts.clock.simulated:
            return parameters.grid.as_of(tick) + parameters.release_delay
        return parameters.grid.as_of(tick + 1) - 2 * parameters.tolerance

    def _too_late(self, tick: int, spare: int = 0) -> bool:
        """Whether nothing more can be said of a tick: the last instant for its answers is past by more than `spare`."""
        clock = self._parts.clock
        return not clock.simulated and max(clock.now(), self._taken_at) > self._latest(tick) + spare

    def tick(self, tick: int, stop: threading.Event) -> bool:
        """Decide a tick at its release time; False if nothing was decided, or the outcome is not known.

        Raises:
            InputChangedError, LedgerChangedError: a topic is another one: everything must be made again.
            EvictionError: the store may have dropped facts.
        """
        owner = self.owner
        if owner is None or not owner.may_decide(tick):
            return False
        began = time.perf_counter()
        failpoint("tick.closed")
        decision = self._decided(owner, tick, stop)
        if decision is None:
            return False
        self._parts.observer.tick_took(time.perf_counter() - began)
        self.last_records = decision.records
        self.last_tick = tick
        self._count(tick, decision)
        failpoint("tick.decided")
        self._upkeep.after(tick, owner.shards)
        failpoint("tick.evicted")
        self._parts.decided.notify()
        return True

    def _decided(self, owner: Owner, tick: int, stop: threading.Event) -> Decision | None:
        """Evidence, the wait for the release, and the answers in the ledger; None if it came to nothing."""
        due = self.due(tick)
        try:
            evidence = EvidenceReader(self._parts, tick, owner.questions(tick), due, stop, self._turn).read()
            if evidence is None:
                self._note_not_closed(tick, stop)
                return None
            self._upkeep.look()
            failpoint("tick.read")
            if not self._wait_for_release(due, stop):
                return None
            failpoint("tick.released")
            # What is due at the last instant leaves just after it.
            if self._too_late(tick, self._parts.parameters.tolerance):
                self._reason = _TOO_LATE
                return None
            return self._appended(owner, tick, evidence)
        except (UnreachableError, FencedError) as error:
            log.warning("tick %d: ledger partition %d is taken over again: %s", tick, self.partition, error)
            self._give_up(str(error))
            return None

    def _note_not_closed(self, tick: int, stop: threading.Event) -> None:
        """Nothing can be said yet of a tick that has closed by this machine's clock alone. A stop is no such thing."""
        if stop.is_set():
            return
        as_of = format_instant(self._parts.parameters.grid.as_of(tick))
        trouble = f"the store's clock has not reached {as_of}, as far as it is known: nothing is said of that tick yet"
        if self.trouble != trouble:
            log.error("ledger partition %d: %s", self.partition, trouble)
        self.trouble = self._reason = trouble
        stop.wait(RETRY_SECONDS)

    def _wait_for_release(self, due: int, stop: threading.Event) -> bool:
        """Wait in turns; False if the clock was set back, or it was told to stop and the release is not near."""
        clock = self._parts.clock
        before = clock.now()
        never = threading.Event()
        while (now := clock.now()) < due:
            self._turn()
            leaving = stop.is_set()
            if now < before or (leaving and (clock.simulated or due - now > LEAVING)):
                return False
            before = now
            clock.wait_until(min(due, now + TURN), never if leaving else stop)
        return True

    def _appended(self, owner: Owner, tick: int, evidence: Evidence) -> Decision:
        first = owner.first_undecided
        self._passed_over = (first, tick - 1) if tick > first else None
        owner.note_input_partitions(self._parts.input_topic.most)
        decision = owner.decide(tick, evidence)
        self._settle_what_was_passed_over(owner)
        self._reason, self.trouble = _HELD_UP, ""
        return decision

    def _settle_what_was_passed_over(self, owner: Owner) -> None:
        """Count what the ledger has passed over for certain: whether it did, the outcome of an append may not tell."""
        passed, last = self._passed_over, owner.state.last_tick
        self._passed_over = None
        if passed is not None and last is not None and last > passed[1]:
            self._note_lost(*passed)

    def _note_lost(self, first: int, last: int) -> None:
        """Ticks that the ledger now passes over were decided by nobody: each is counted here once, and nowhere else."""
        grid = self._parts.parameters.grid
        log.error(
            "ledger partition %d: the ticks of %s to %s are lost (%d): %s",
            self.partition,
            format_instant(grid.as_of(first)),
            format_instant(grid.as_of(last)),
            last - first + 1,
            self._reason,
        )
        self._parts.observer.lost(self.partition, self._parts.monitors, last - first + 1)

    def _count(self, tick: int, decision: Decision) -> None:
        unknown = {monitor for monitor, status in decision.answers if status == "unknown"}
        outcomes = {name: "unknown" if name in unknown else "decided" for name in self._parts.monitors}
        as_of = self._parts.parameters.grid.as_of(tick) / SECOND
        self._parts.observer.tick(self.partition, as_of, outcomes, decision.answers)

    def close(self) -> None:
        """Let go of the partition."""
        if self.owner is not None:
            self.owner.close()
            self.owner = None
        self._parts.observer.forget_partition(self.partition)


def _backoff(failures: int, longest: float) -> float:
    """How many seconds to wait after so many failures before this one."""
    return min(FIRST_BACKOFF_SECONDS * float(2 ** min(failures, 8)), longest)


def shown_records(partitions: Sequence[PartitionRelease]) -> tuple[LedgerRecord, ...]:
    """The records of the tick that was decided last, in order of partitions."""
    return tuple(record for partition in partitions for record in partition.last_records)
