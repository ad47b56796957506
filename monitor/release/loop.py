"""What a tick does: takes over what is owned, and turns barrier and readings into answers once a slot has closed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from monitor.clock import Clock
from monitor.errors import FencedError, UnreachableError, WindowsError
from monitor.failpoints import passing
from monitor.release.barrier import InputTopic
from monitor.release.decide import Decision, Evidence
from monitor.release.ledger import Record
from monitor.release.owner import Owner
from monitor.release.store_clock import StoreClock
from monitor.scheme import Scheme
from monitor.signals import Signal
from monitor.times import SECOND
from monitor.windows.facts import Question, Reading, Windows

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.02
FIRST_BACKOFF_SECONDS: Final = 0.5
LONGEST_BACKOFF_SECONDS: Final = 8.0
TIDY_PER_LOOKBACK: Final = 24
TURN: Final = 10 * SECOND  # how long to wait at most before saying again that the loop lives
TAKEOVER: Final = 60 * SECOND  # how long before a slot closes no partition is tried again
CHECK_SECONDS: Final = 60.0
RETRY_TOGETHER: Final = 0.25  # partitions that failed at about the same time are tried again at the same time


def _unheard(_waiting: str) -> None:
    """Nobody asks whether the loop turns."""


class Observer(Protocol):
    """What is counted of the ticks."""

    def tick(self, as_of_seconds: float, outcomes: Mapping[str, str], answers: Mapping[tuple[str, str], int]) -> None:
        """A tick was decided."""

    def skipped(self, monitors: Sequence[str]) -> None:
        """A tick was not decided in time."""

    def tick_took(self, seconds: float) -> None:
        """How long a tick took, from barrier to ledger."""

    def recovery(self, cause: str) -> None:
        """A partition was taken over, because of `cause`."""


class Ownership(Protocol):
    """Which output partitions are this instance's at the moment."""

    @property
    def owned(self) -> frozenset[int]:
        """The partitions."""


@dataclass(frozen=True, slots=True)
class _Failed:
    """A takeover that failed: why, the pause before it is tried again, and until when by the monotonic clock."""

    reason: str
    pause: float
    until: float


class ReleaseLoop:
    """Decides ticks, by one thread. `take_over` makes the owner of a partition (and fences earlier ones).

    `progressed` happens when this instance's reader has written; others' writes are noticed by looking again.
    """

    def __init__(
        self,
        scheme: Scheme,
        windows: Windows,
        input_topic: InputTopic,
        ownership: Ownership,
        take_over: Callable[[int], Owner],
        observer: Observer,
        clock: Clock,
        progressed: Signal,
    ) -> None:
        self._scheme = scheme
        self._windows = windows
        self._input = input_topic
        self._ownership = ownership
        self._take_over = take_over
        self._observer = observer
        self._clock = clock
        self._owners: dict[int, Owner] = {}
        self._failed: dict[int, _Failed] = {}
        self._tidied: int | None = None
        self._checked: float | None = None
        self._progressed = progressed
        self.store_clock = StoreClock()
        self.decided = Signal()
        self.last_tick: int | None = None
        self.last_records: tuple[Record, ...] = ()

    @property
    def owners(self) -> Mapping[int, Owner]:
        """The partitions that were taken over and not lost since."""
        return self._owners

    @property
    def trouble(self) -> str:
        """Why partitions that are owned could not be taken over yet; empty if all were."""
        return "; ".join(
            f"taking over: {reason}" for reason in dict.fromkeys(one.reason for one in self._failed.values())
        )

    def sync(self, queues: int, alive: Callable[[str], None] = _unheard) -> None:
        """Take over the partitions that are owned now, and let go of the others.

        One that can't be taken over is tried again later (`retry_due`), and does not keep the others from deciding.

        Raises:
            TopicError, LedgerError, PeriodError: everything must be looked at anew.
        """
        owned = {partition for partition in self._ownership.owned if partition < queues}
        for partition in [known for known in self._owners if known not in owned]:
            self._owners.pop(partition).close()
        self._failed = {partition: failed for partition, failed in self._failed.items() if partition in owned}
        slot = self._scheme.slots.slot_of(self._clock.now())
        for owner in self._owners.values():
            owner.turn_back(slot)
        refused = []
        for partition in sorted(owned - self._owners.keys()):
            if self._may_try(partition, RETRY_TOGETHER):
                refused += [partition] if not self._try(partition) else []
                alive(self.trouble)
        if refused:  # one line for all of them: an instance may own many
            reason = self._failed[refused[0]].reason
            log.warning("ledger partitions %s cannot be taken over yet: %s", ", ".join(map(str, refused)), reason)

    def _try(self, partition: int) -> bool:
        try:
            self._owners[partition] = self._take_over(partition)
        except (UnreachableError, FencedError) as error:
            before = self._failed.get(partition)
            pause = FIRST_BACKOFF_SECONDS if before is None else min(2 * before.pause, LONGEST_BACKOFF_SECONDS)
            self._failed[partition] = _Failed(str(error), pause, time.monotonic() + pause)
            return False
        self._failed.pop(partition, None)
        self._observer.recovery("takeover")
        return True

    def _may_try(self, partition: int, early: float = 0.0) -> bool:
        """Whether to try to take a partition over: after a failure only when it can't make the others' tick late.

        An attempt may wait for a broker that is gone for as long as a minute. `early`: by which part of its pause it
        may come before its time.
        """
        failed = self._failed.get(partition)
        if failed is None:
            return True
        if time.monotonic() < failed.until - early * failed.pause:
            return False
        slots, now = self._scheme.slots, self._clock.now()
        left = slots.as_of(slots.slot_of(now)) - now
        return not self._owners or left >= min(TAKEOVER, slots.length // 2)

    @property
    def retry_due(self) -> bool:
        """Whether a partition that could not be taken over may be tried again now."""
        return any(self._may_try(partition) for partition in self._failed)

    def tick(self, tick: int, stop: threading.Event, alive: Callable[[str], None] = _unheard) -> None:
        """Decide a tick for every partition that may, at its release time.

        Raises:
            InputChangedError, LedgerChangedError: a topic is another one: everything must be made anew.
            EvictionError: the store may have dropped facts.
        """
        owners = [owner for owner in self._owners.values() if owner.may_decide(tick)]
        began = time.perf_counter()
        passing("tick.closed")
        evidence = self._evidence(tick, owners, stop, alive)
        if evidence is None:
            if owners:
                self._observer.skipped(self._monitors())
            return
        self._check_store()
        passing("tick.read")
        if not self._wait_for_release(tick, stop, alive):
            return
        passing("tick.released")
        if self._late(tick):
            if owners:
                self._observer.skipped(self._monitors())
            return
        decisions = self._decisions(owners, tick, evidence)
        self._observer.tick_took(time.perf_counter() - began)
        self._count(tick, decisions)
        passing("tick.decided")
        self._tidy(tick)
        passing("tick.tidied")
        self.last_records = tuple(record for decision in decisions for record in decision.records)
        self.last_tick = tick
        self.decided.happened()

    def _decisions(self, owners: Sequence[Owner], tick: int, evidence: Evidence) -> list[Decision]:
        """What each owner decides in time: the ledger may hold up one of them for so long that the next slot closes."""
        decisions = []
        for held_up, owner in enumerate(owners):
            if held_up and self._late(tick):
                self._observer.skipped(self._monitors())
                break
            if (decision := self._decided(owner, tick, evidence)) is not None:
                decisions.append(decision)
        return decisions

    def _late(self, tick: int) -> bool:
        """Whether the next slot has closed: what was not decided by then is skipped."""
        return not self._clock.simulated and self._clock.now() >= self._scheme.slots.as_of(tick + 1)

    def _wait_for_release(self, tick: int, stop: threading.Event, alive: Callable[[str], None]) -> bool:
        """Wait in turns, each of which says that the loop lives; False if told to stop, or the clock was set back."""
        release, before = self._release_time(tick), self._clock.now()
        while (now := self._clock.now()) < release:
            alive(self.trouble)
            if now < before or not self._clock.wait_until(min(release, now + TURN), stop):
                return False
            before = now
        return True

    def _check_store(self) -> None:
        """See now and then that the store still evicts nothing: it may be another server since a failover."""
        if self._checked is not None and time.monotonic() - self._checked < CHECK_SECONDS:
            return
        try:
            self._windows.check()
        except (UnreachableError, WindowsError) as error:
            log.warning("whether the store may evict facts is not known now: %s", error)
            return
        self._checked = time.monotonic()

    def _monitors(self) -> list[str]:
        scheme = self._scheme
        return [monitor.name for monitor in scheme.over_time] + [monitor.name for monitor in scheme.timed]

    def _release_time(self, tick: int) -> int:
        return self._scheme.slots.as_of(tick) + self._scheme.release_delay

    def _evidence(
        self, tick: int, owners: Sequence[Owner], stop: threading.Event, alive: Callable[[str], None]
    ) -> Evidence | None:
        """Ask for the barrier, and read until the facts hold all of it or the release time has come.

        The store's clock is asked first: a barrier from before as_of would miss what was reported after it. None if by
        that clock the tick has not closed for all that is known: then "unknown" would be said too early as well, and
        stand in the way of those whose clocks are right. None also if the topics may be others by now.
        """
        questions = _questions(tick, owners)
        barrier: Mapping[int, int] | None = None
        readings: dict[int, Reading] = {}
        closed = self._clock.simulated or not questions
        warned: set[str] = set()
        while questions:
            seen = self._progressed.number
            try:
                closed = closed or self._closed(tick, next(iter(questions)))
                if closed:
                    barrier = self._barrier() if barrier is None else barrier
                    readings |= self._complete(tick, barrier, questions)
            except (UnreachableError, WindowsError) as error:
                if type(error).__name__ not in warned:  # it is tried again many times a second, until the release
                    log.warning("tick %d: %s", tick, error)
                warned.add(type(error).__name__)
            # What is complete stays so: a shard that lags must not have the others read again after the release.
            questions = {shard: asked for shard, asked in questions.items() if shard not in readings}
            if self._over(tick, stop, early=not closed):
                break
            if questions:
                alive(self.trouble)
                self._progressed.wait(seen, POLL_SECONDS)
        if not (closed or self.store_clock.reached(self._scheme.slots.as_of(tick))):
            log.error("tick %d has not closed by the store's clock, as far as it is known: nothing is said", tick)
            return None
        if barrier is None and (stop.is_set() or not self._same_topics(tick)):
            return None
        return Evidence(readings, dict.fromkeys(readings, True))

    def _over(self, tick: int, stop: threading.Event, *, early: bool) -> bool:
        """Whether to read no longer: told to stop, the release has come, or a clock that ran ahead was set right."""
        if stop.is_set() or self._clock.simulated:
            return stop.is_set()
        now = self._clock.now()
        return now >= self._release_time(tick) or (early and now < self._scheme.slots.start(tick))

    def _closed(self, tick: int, shard: int) -> bool:
        """Whether the tick has closed by the store's clock."""
        told = self._windows.read({shard: Question()})[shard].time
        self.store_clock.hear(told)
        return told >= self._scheme.slots.as_of(tick)

    def _barrier(self) -> Mapping[int, int]:
        """What must have been read."""
        barrier = self._input.barrier()
        passing("tick.barrier")
        return barrier

    def _same_topics(self, tick: int) -> bool:
        """Whether the topics are the same where no barrier was asked for; if the brokers can't tell, no.

        An instance that owns nothing would stay in the input's group, reading for nobody; and one that can't reach the
        store would write to a ledger that others own.
        """
        try:
            self._input.require_same()
        except UnreachableError as error:
            log.warning("tick %d: %s; ledger partitions are taken over anew", tick, error)
            for partition in list(self._owners):
                self._owners.pop(partition).close()
            return False
        return True

    def _complete(self, tick: int, barrier: Mapping[int, int], questions: Mapping[int, Question]) -> dict[int, Reading]:
        """The readings that hold all that was produced before as_of, and were made before its release (rule 2)."""
        return {
            shard: reading
            for shard, reading in self._windows.read(questions).items()
            if (self._clock.simulated or reading.time <= self._release_time(tick))
            and all(reading.progress.get(partition, -1) >= end for partition, end in barrier.items())
        }

    def _decided(self, owner: Owner, tick: int, evidence: Evidence) -> Decision | None:
        try:
            return owner.decide(tick, evidence)
        except (UnreachableError, FencedError) as error:
            log.warning("tick %d: ledger partition %d is taken over anew: %s", tick, owner.partition, error)
            self._owners.pop(owner.partition).close()
            return None

    def _count(self, tick: int, decisions: Sequence[Decision]) -> None:
        answers: dict[tuple[str, str], int] = {}
        for decision in decisions:
            for key, count in decision.answers.items():
                answers[key] = answers.get(key, 0) + count
        unknown = {monitor for monitor, status in answers if status == "unknown"}
        outcomes = {name: "unknown" if name in unknown else "decided" for name in self._monitors()}
        if decisions:
            self._observer.tick(self._scheme.slots.as_of(tick) / SECOND, outcomes, answers)

    def _tidy(self, tick: int) -> None:
        """Now and then cut off what no later tick asks for; a failure only leaves it for the next time."""
        every = max(1, self._scheme.lookback // TIDY_PER_LOOKBACK)
        if self._tidied is not None and tick - self._tidied < every:
            return
        slots, widest = self._scheme.slots, self._scheme.widest_window
        # One bound for all monitors: what is dropped counts as gone for every one of them.
        cut = slots.as_of(tick) - self._scheme.longest_horizon * slots.length
        past = self._times(cut - 2 * every * slots.length, cut)
        live = self._times(cut, slots.as_of(tick + self._scheme.ahead + 1))
        shards = [shard for owner in self._owners.values() for shard in owner.shards]
        try:
            self._windows.tidy(shards, tick - widest, past, live)
        except (UnreachableError, WindowsError) as error:
            log.warning("old facts are kept for now: %s", error)
            return
        self._tidied = tick

    def _times(self, low: int, high: int) -> list[int]:
        return sorted({int(at) for timed in self._scheme.timed for at in timed.times.between(low, high)})

    def close(self) -> None:
        """Let go of every partition."""
        for owner in self._owners.values():
            owner.close()
        self._owners.clear()
        self._input.close()


def _questions(tick: int, owners: Sequence[Owner]) -> dict[int, Question]:
    """What each shard is asked at a tick, for all partitions together."""
    questions: dict[int, Question] = {}
    for owner in owners:
        for shard, asked in owner.questions(tick).items():
            questions[shard] = questions.get(shard, Question()).with_more(asked)
    return questions
