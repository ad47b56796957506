"""The release loop: takes over what it owns, and at each slot's close turns barrier and readings into answers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from monitor.clock import Clock
from monitor.errors import FencedError, InputChangedError, UnreachableError, WindowsError
from monitor.failpoints import passing
from monitor.release.barrier import InputTopic
from monitor.release.decide import Decision, Evidence
from monitor.release.ledger import Record
from monitor.release.owner import Owner
from monitor.scheme import Scheme
from monitor.signals import Signal
from monitor.times import SECOND
from monitor.windows.facts import Question, Reading, Windows

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.02
FIRST_BACKOFF_SECONDS: Final = 0.5
LONGEST_BACKOFF_SECONDS: Final = 8.0
TIDY_PER_LOOKBACK: Final = 24
TURN: Final = 10 * SECOND


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
        self._tidied: int | None = None
        self._progressed = progressed
        self.decided = Signal()
        self.last_tick: int | None = None
        self.last_records: tuple[Record, ...] = ()

    @property
    def owners(self) -> Mapping[int, Owner]:
        """The partitions that were taken over and not lost since."""
        return self._owners

    def sync(self, queues: int) -> None:
        """Take over the partitions that are owned now, and let go of the others."""
        owned = {partition for partition in self._ownership.owned if partition < queues}
        for partition in [known for known in self._owners if known not in owned]:
            self._owners.pop(partition).close()
        for partition in sorted(owned - self._owners.keys()):
            self._owners[partition] = self._take_over(partition)
            self._observer.recovery("takeover")

    def tick(self, tick: int, stop: threading.Event) -> None:
        """Decide a tick for every partition that may, at its release time.

        Raises:
            InputChangedError: the input topic is another one: everything must be made anew.
        """
        owners = [owner for owner in self._owners.values() if owner.may_decide(tick)]
        began = time.perf_counter()
        passing("tick.closed")
        evidence = self._evidence(tick, owners, stop)
        if evidence is None:
            log.error("tick %d has not closed by the store's clock: this machine's runs ahead; nothing is said", tick)
            self._observer.skipped(self._monitors())
            return
        passing("tick.read")
        if not self._clock.wait_until(self._release_time(tick), stop):
            return
        passing("tick.released")
        if not self._clock.simulated and self._clock.now() >= self._scheme.slots.as_of(tick + 1):
            if owners:
                self._observer.skipped(self._monitors())
            return
        decisions = [decision for owner in owners if (decision := self._decided(owner, tick, evidence)) is not None]
        self._observer.tick_took(time.perf_counter() - began)
        self._count(tick, decisions)
        passing("tick.decided")
        self._tidy(tick)
        passing("tick.tidied")
        self.last_records = tuple(record for decision in decisions for record in decision.records)
        self.last_tick = tick
        self.decided.happened()

    def _monitors(self) -> list[str]:
        scheme = self._scheme
        return [monitor.name for monitor in scheme.over_time] + [monitor.name for monitor in scheme.timed]

    def _release_time(self, tick: int) -> int:
        return self._scheme.slots.as_of(tick) + self._scheme.release_delay

    def _evidence(self, tick: int, owners: Sequence[Owner], stop: threading.Event) -> Evidence | None:
        """Ask for the barrier, and read until the facts hold all of it or the release time has come.

        The store's clock is asked first: a barrier from before as_of would miss what was reported after it. None if by
        that clock the tick has not closed: then "unknown" would be said too early as well, and stand in the way of
        those whose clocks are right.
        """
        questions: dict[int, Question] = {}
        for owner in owners:
            for shard, asked in owner.questions(tick).items():
                questions[shard] = questions.get(shard, Question()).with_more(asked)
        barrier: Mapping[int, int] | None = None
        readings: dict[int, Reading] = {}
        early = False
        warned: set[str] = set()
        while questions:
            seen = self._progressed.number
            try:
                barrier = self._barrier(tick, next(iter(questions))) if barrier is None else barrier
                early = barrier is None
                if barrier is not None:
                    readings |= self._complete(tick, barrier, questions)
            except InputChangedError:
                raise
            except (UnreachableError, WindowsError) as error:
                if type(error).__name__ not in warned:  # it is tried again many times a second, until the release
                    log.warning("tick %d: %s", tick, error)
                warned.add(type(error).__name__)
            # What is complete stays so: a shard that lags must not have the others read again after the release.
            questions = {shard: asked for shard, asked in questions.items() if shard not in readings}
            if self._over(tick, stop, early=early):
                break
            if questions:
                self._progressed.wait(seen, POLL_SECONDS)
        return None if early else Evidence(readings, dict.fromkeys(readings, True))

    def _over(self, tick: int, stop: threading.Event, *, early: bool) -> bool:
        """Whether to read no longer: told to stop, the release has come, or a clock that ran ahead was set right."""
        if stop.is_set() or self._clock.simulated:
            return stop.is_set()
        now = self._clock.now()
        return now >= self._release_time(tick) or (early and now < self._scheme.slots.start(tick))

    def _barrier(self, tick: int, shard: int) -> Mapping[int, int] | None:
        """What must have been read; None as long as the tick has not closed by the store's clock."""
        closes = self._scheme.slots.as_of(tick)
        if not self._clock.simulated and self._windows.read({shard: Question()})[shard].time < closes:
            return None
        barrier = self._input.barrier()
        passing("tick.barrier")
        return barrier

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


def run_release(
    loop: ReleaseLoop,
    queues: int,
    clock: Clock,
    scheme: Scheme,
    stop: threading.Event,
    wake: threading.Event,
    alive: Callable[[str], None],
) -> None:
    """Turn the loop until told to stop: one tick per slot that closes.

    Raises:
        InputChangedError, LedgerError: everything must be looked at anew.
    """
    pause = FIRST_BACKOFF_SECONDS
    while not stop.is_set():
        wake.clear()
        if stop.is_set():  # it was set before `wake`, so clearing `wake` can't have hidden it
            break
        try:
            loop.sync(queues)
        except (UnreachableError, FencedError) as error:
            log.warning("a ledger partition cannot be taken over yet: %s", error)
            alive(f"taking over: {error}")
            stop.wait(pause)
            pause = min(2 * pause, LONGEST_BACKOFF_SECONDS)
            continue
        pause = FIRST_BACKOFF_SECONDS
        tick = scheme.slots.slot_of(clock.now())
        closes = scheme.slots.as_of(tick) + scheme.tolerance
        # A clock that is set back ends the wait for what is an hour ahead now: another tick closes next.
        while not wake.is_set() and scheme.slots.slot_of(clock.now()) >= tick:
            alive("")
            if clock.wait_until(min(closes, clock.now() + TURN), wake) and clock.now() >= closes:
                loop.tick(tick, stop)
                break
